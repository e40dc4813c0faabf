//! `bufabi inspect`: what a descriptor, tensor or blob says, field by field, and the first rule that it breaks.

mod fields;
mod json;
mod source;
mod text;

use std::io::{self, Write, stdout};
use std::ops::Range;
use std::path::PathBuf;

use bufabi_core::wire::blob::{ByteSource, RawBlobHeader};
use bufabi_core::wire::chip_args::{MAX_SCALARS, MAX_TENSORS};
use bufabi_core::wire::descriptor::{MAGIC, RawDescriptor};
use bufabi_core::wire::tensor::RawTensor;
use bufabi_core::{Blob, BlobError, Code, Descriptor, DescriptorError, Tensor, TensorError};
use clap::{ArgGroup, Args, ValueEnum};

use crate::failure::Failure;
use fields::{Shown, unsigned, widen};
use source::Source;

/// What a descriptor, tensor or blob says, field by field, with the first broken rule pointed out in the bytes.
///
/// A file is raw bytes. What lies behind the record is counted and not read.
#[derive(Args)]
#[command(group(ArgGroup::new("record").required(true).args(["hex", "file"])))]
#[command(
    after_help = "Without --as: bytes that start with the magic are a descriptor up to 88 of them and a tensor above;
anything else is a blob.

Examples:
  bufabi inspect --hex \"$(sed -n 2p tests/vectors/tensors.txt | cut -d' ' -f1)\"
  bufabi inspect --as blob --hex 0000000000000000 --json
  bufabi inspect --hex 4253000201000000a0a1a2a3a4a5a6a7
  sed -n 2p tests/vectors/descriptors.txt | cut -d' ' -f1 | xxd -r -p | bufabi inspect -"
)]
pub(crate) struct Inspect {
    /// The record, in hex digits.
    #[arg(long)]
    hex: Option<String>,
    /// The record, in a file or a pipe; `-` is standard input.
    file: Option<PathBuf>,
    /// What it is.
    #[arg(long = "as", value_name = "KIND")]
    kind: Option<Kind>,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Descriptor,
    Tensor,
    Blob,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Descriptor => "descriptor",
            Self::Tensor => "tensor",
            Self::Blob => "blob",
        }
    }

    /// What bytes are when nobody says it.
    fn guess(head: &[u8], total: u64) -> Self {
        if !head.starts_with(&MAGIC.to_le_bytes()) {
            Self::Blob
        } else if total <= widen(RawDescriptor::SIZE) {
            Self::Descriptor
        } else {
            Self::Tensor
        }
    }
}

/// All that is told of a record.
struct Inspected {
    name: String,
    kind: &'static str,
    /// Bytes of the input.
    total: u64,
    sections: Vec<Section>,
    broken: Option<Broken>,
    /// Bytes behind the record, which were not read.
    behind: u64,
    /// What was checked and is not among the sections.
    not_shown: Option<String>,
}

/// Some fields that belong together.
struct Section {
    title: Option<String>,
    fields: Vec<Shown>,
}

/// The first broken rule.
struct Broken {
    code: Code,
    /// The bytes of the input that break it.
    span: Range<u64>,
    message: String,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (name, source) = match (&self.hex, &self.file) {
            (Some(hex), _) => ("--hex".to_owned(), Source::from_hex(hex)?),
            (None, Some(path)) => (path.display().to_string(), Source::open(path)?),
            (None, None) => return Err(Failure::usage("neither --hex nor a file")),
        };
        let inspected =
            inspect(&name, &source, self.kind).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
        let mut out = io::BufWriter::new(stdout().lock());
        let written =
            if self.json { json::write(&mut out, &inspected) } else { text::write(&mut out, &inspected) };
        let verdict = match inspected.broken {
            Some(broken) => Err(Failure::broken(format!("{name} breaks the rule {}", broken.code))),
            None => Ok(()),
        };
        Failure::conclude(written.and_then(|()| out.flush()), verdict)
    }
}

fn inspect(name: &str, source: &Source, kind: Option<Kind>) -> io::Result<Inspected> {
    let total = source.len();
    let found = usize::try_from(total).unwrap_or(usize::MAX);
    let head = source.read(0, RawTensor::SIZE)?;
    let kind = kind.unwrap_or_else(|| Kind::guess(&head, total));
    let mut inspected = Inspected {
        name: name.to_owned(),
        kind: kind.name(),
        total,
        sections: Vec::new(),
        broken: None,
        behind: 0,
        not_shown: None,
    };
    match kind {
        Kind::Descriptor => {
            let bytes = fields::part(&head, 0, RawDescriptor::SIZE);
            let error = if total == widen(RawDescriptor::SIZE) {
                Descriptor::from_bytes(bytes).err()
            } else {
                Some(DescriptorError::Size { found })
            };
            inspected.broken = error.map(|error| Broken::new(error.code(), &error.span(), 0, &error));
            inspected.show(None, fields::of_record(&RawDescriptor::LAYOUT, bytes, 0));
            inspected.behind = total.saturating_sub(widen(RawDescriptor::SIZE));
        }
        Kind::Tensor => {
            let error = if total == widen(RawTensor::SIZE) {
                Tensor::from_bytes(&head).err()
            } else {
                Some(TensorError::Size { found })
            };
            inspected.broken = error.map(|error| Broken::new(error.code(), &error.span(), 0, &error));
            inspected.show(None, fields::of_record(&RawTensor::LAYOUT, &head, 0));
            inspected.behind = total.saturating_sub(widen(RawTensor::SIZE));
        }
        Kind::Blob => inspect_blob(&mut inspected, source, &head)?,
    }
    Ok(inspected)
}

/// Reads a blob tensor by tensor, up to the first that breaks a rule.
fn inspect_blob(inspected: &mut Inspected, source: &Source, head: &[u8]) -> io::Result<()> {
    let header = fields::part(head, 0, RawBlobHeader::SIZE);
    inspected.show(None, fields::of_record(&RawBlobHeader::LAYOUT, header, 0));
    let claimed = Claimed { header, len: usize::try_from(inspected.total).unwrap_or(usize::MAX) };
    match Blob::copy_from(&claimed, &mut []) {
        // The counts fit: core would now copy the blob, which is read piece by piece here.
        Ok(_) | Err(BlobError::Scratch { .. }) => {}
        Err(error) => {
            inspected.broken = Some(Broken::new(error.code(), &count_span(&error), 0, &error));
            let behind = inspected.total.saturating_sub(widen(RawBlobHeader::SIZE));
            inspected.behind = behind;
            return Ok(());
        }
    }
    // Two counts that are not negative and fit the input: nothing below wraps.
    let tensors = unsigned(fields::part(header, 0, 4));
    let scalars = unsigned(fields::part(header, 4, 4));
    let mut at = widen(RawBlobHeader::SIZE);
    for index in 0..tensors {
        let bytes = source.read(at, RawTensor::SIZE)?;
        let error = Tensor::from_bytes(&bytes).err();
        if error.is_some() || index < widen(MAX_TENSORS) {
            let title = format!("tensor {index}, at byte {at}");
            inspected.show(Some(title), fields::of_record(&RawTensor::LAYOUT, &bytes, at));
        }
        let next = at.saturating_add(widen(RawTensor::SIZE));
        if let Some(error) = error {
            let message = format_args!("tensor {index}: {error}");
            inspected.broken = Some(Broken::new(error.code(), &error.span(), at, &message));
            inspected.behind = inspected.total.saturating_sub(next);
            return Ok(());
        }
        at = next;
    }
    let mut shown = Vec::new();
    for index in 0..scalars.min(widen(MAX_SCALARS)) {
        let bytes = source.read(at, 8)?;
        let value = |bytes: &[u8]| format!("{0} = {0:#x}", unsigned(bytes));
        shown.push(Shown::new(format!("scalar {index}"), at, 8, &bytes, value));
        at = at.saturating_add(8);
    }
    if !shown.is_empty() {
        inspected.show(None, shown);
    }
    let more_scalars = scalars.saturating_sub(widen(MAX_SCALARS));
    let more_tensors = tensors.saturating_sub(widen(MAX_TENSORS));
    if more_tensors > 0 || more_scalars > 0 {
        inspected.not_shown = Some(format!(
            "not shown, past what a task may have: {more_tensors} tensors, which hold too, and {more_scalars} scalars"
        ));
    }
    let end = at.saturating_add(more_scalars.saturating_mul(8));
    inspected.behind = inspected.total.saturating_sub(end);
    Ok(())
}

/// The bytes of the two counts that break a rule of theirs.
const fn count_span(error: &BlobError) -> Range<usize> {
    match error {
        BlobError::Short { found } => *found..*found,
        BlobError::Negative { tensors: ..0, .. } => 0..4,
        BlobError::Negative { .. } => 4..8,
        BlobError::PastEnd { .. } | BlobError::Scratch { .. } | BlobError::Tensor { .. } => 0..8,
    }
}

impl Inspected {
    fn show(&mut self, title: Option<String>, fields: Vec<Shown>) {
        self.sections.push(Section { title, fields });
    }
}

impl Broken {
    /// The rule, broken by bytes of the record that starts at `at`.
    fn new(code: Code, span: &Range<usize>, at: u64, message: &dyn std::fmt::Display) -> Self {
        let place = |offset: usize| at.saturating_add(widen(offset));
        Self { code, span: place(span.start)..place(span.end), message: message.to_string() }
    }
}

/// A blob of which only the header has been read.
struct Claimed<'a> {
    header: &'a [u8],
    len: usize,
}

impl ByteSource for Claimed<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn copy_out(&self, offset: usize, out: &mut [u8]) {
        let bytes = fields::part(self.header, offset, out.len());
        out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = *byte);
    }
}
