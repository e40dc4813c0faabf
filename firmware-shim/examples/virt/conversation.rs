//! Requests in, answers out, in fixed storage: the core's types as firmware uses them.

use bufabi_core::overlap::{Relation, relate};
use bufabi_core::wire::body::Body;
use bufabi_core::wire::chip_args::MaterializeError;
use bufabi_core::{Blob, BlobError, ChipStorageTaskArgs, ChipTensor, Code, Descriptor, RawTensor, Tensor};

/// One stream in, one out.
pub(crate) trait Streams {
    /// What can go wrong with either.
    type Error;

    /// Reads some bytes of the requests; 0 at their end.
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Self::Error>;

    /// Appends to the answers.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// Bytes of the largest record: more than a blob of 257 tensors and 129 scalars.
const MAX_RECORD: usize = 40_960;

/// The storage of a conversation. It is large: a static, a box, or the bottom of a large stack.
pub(crate) struct Conversation {
    line: [u8; 2 * MAX_RECORD + 64],
    record: [u8; MAX_RECORD],
    task_args: ChipStorageTaskArgs,
}

impl Conversation {
    /// Nothing said yet.
    pub(crate) const NEW: Self = Self {
        line: [0; 2 * MAX_RECORD + 64],
        record: [0; MAX_RECORD],
        task_args: ChipStorageTaskArgs::EMPTY,
    };

    /// Answers every request.
    pub(crate) fn run<S: Streams>(&mut self, streams: &mut S) -> Result<(), S::Error> {
        let mut part = [0; 4096];
        let mut filled = 0_usize;
        loop {
            let read = streams.read(&mut part)?;
            if read == 0 {
                return Ok(());
            }
            for &byte in part.iter().take(read) {
                if byte == b'\n' {
                    let Self { line, record, task_args } = self;
                    answer(line.get(..filled).unwrap_or_default(), record, task_args, streams)?;
                    streams.write(b"\n")?;
                    filled = 0;
                } else if let Some(slot) = self.line.get_mut(filled) {
                    *slot = byte;
                    filled = filled.saturating_add(1);
                }
            }
        }
    }
}

/// Answers one request.
fn answer<S: Streams>(
    line: &[u8],
    record: &mut [u8],
    task_args: &mut ChipStorageTaskArgs,
    streams: &mut S,
) -> Result<(), S::Error> {
    let mut words = line.split(|byte| *byte == b' ');
    let mut word = || words.next().unwrap_or_default();
    match word() {
        b"descriptor" => {
            let checked = Descriptor::from_bytes(unhex(word(), record));
            say_code(streams, checked.map_or_else(|error| error.code(), |_| Code::Ok))
        }
        b"tensor" => {
            let checked = Tensor::from_bytes(unhex(word(), record));
            say_code(streams, checked.map_or_else(|error| error.code(), |_| Code::Ok))
        }
        b"chip" => {
            let bytes = unhex(word(), record);
            match ChipTensor::from_wire(bytes, parse(word(), 16)) {
                Ok(chip_tensor) => say_hex(streams, zerocopy::IntoBytes::as_bytes(&chip_tensor)),
                Err(error) => say_code(streams, error.code()),
            }
        }
        b"blob" => {
            let readable = parse(word(), 10);
            match Blob::from_bytes(at_most(readable, unhex(word(), record))) {
                Ok(blob) => {
                    streams.write(b"ok ")?;
                    say_number(streams, blob.tensor_count())?;
                    streams.write(b" ")?;
                    say_number(streams, blob.scalar_count())
                }
                Err(error) => say_blob_error(streams, error),
            }
        }
        b"overlap" => {
            let (first, rest) = unhex_first(word(), record);
            answer_overlap(first, unhex(word(), rest), streams)
        }
        b"task" => {
            let readable = parse(word(), 10);
            answer_task(at_most(readable, unhex(word(), record)), task_args, streams)
        }
        _ => streams.write(b"unknown request"),
    }
}

/// Whether some byte belongs to both tensors, and whether every byte of the second belongs to the first.
fn answer_overlap<S: Streams>(first: &[u8], second: &[u8], streams: &mut S) -> Result<(), S::Error> {
    let (first, second) = match (Tensor::from_bytes(first), Tensor::from_bytes(second)) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(error), _) | (_, Err(error)) => return say_code(streams, error.code()),
    };
    if first.descriptor().identity() != second.descriptor().identity() {
        return streams.write(b"0 0");
    }
    streams.write(match relate(&first.view(), &second.view()) {
        Relation::Disjoint => b"0 0".as_slice(),
        Relation::Overlapping { covers: false } => b"1 0",
        Relation::Overlapping { covers: true } => b"1 1",
        Relation::MayOverlap => b"not known",
    })
}

/// Makes a chip's arguments of a blob, and writes them out.
fn answer_task<S: Streams>(
    bytes: &[u8],
    task_args: &mut ChipStorageTaskArgs,
    streams: &mut S,
) -> Result<(), S::Error> {
    let blob = match Blob::from_bytes(bytes) {
        Ok(blob) => blob,
        Err(error) => return say_blob_error(streams, error),
    };
    match task_args.materialize(&blob, resolve) {
        Ok(()) => {}
        Err(MaterializeError::Resolve { index, error }) => return say_bad_tensor(streams, index, error),
        Err(MaterializeError::Chip { index, error }) => {
            return say_bad_tensor(streams, index, error.code());
        }
        Err(MaterializeError::TooMany(error)) => return say_code(streams, error.code()),
    }
    streams.write(b"ok")?;
    for tensor in task_args.tensors() {
        streams.write(b" ")?;
        say_hex(streams, zerocopy::IntoBytes::as_bytes(tensor))?;
    }
    for scalar in task_args.scalars() {
        streams.write(b" ")?;
        say_hex(streams, zerocopy::IntoBytes::as_bytes(scalar))?;
    }
    Ok(())
}

/// Where this device finds a backing: at the address in the body, if it is one of the device's.
fn resolve(_: usize, tensor: &Tensor<&RawTensor>) -> Result<u64, Code> {
    match tensor.descriptor().body() {
        Body::VmmWindow { base } | Body::DeviceMalloc { base } => Ok(base.get()),
        Body::ForkShm { .. }
        | Body::PosixShm { .. }
        | Body::RemoteSidecar { .. }
        | Body::ForkCow { .. }
        | Body::VmmShareable { .. } => Err(Code::Capability),
    }
}

fn say_code<S: Streams>(streams: &mut S, code: Code) -> Result<(), S::Error> {
    streams.write(code.name().as_bytes())
}

fn say_blob_error<S: Streams>(streams: &mut S, error: BlobError) -> Result<(), S::Error> {
    match error {
        BlobError::Tensor { index, error } => {
            say_bad_tensor(streams, usize::try_from(index).unwrap_or(usize::MAX), error.code())
        }
        BlobError::Short { .. }
        | BlobError::Negative { .. }
        | BlobError::PastEnd { .. }
        | BlobError::Scratch { .. } => say_code(streams, error.code()),
    }
}

fn say_bad_tensor<S: Streams>(streams: &mut S, index: usize, code: Code) -> Result<(), S::Error> {
    streams.write(b"tensor ")?;
    say_number(streams, index)?;
    streams.write(b" ")?;
    say_code(streams, code)
}

fn say_number<S: Streams>(streams: &mut S, number: usize) -> Result<(), S::Error> {
    if number >= 10 {
        say_number(streams, number / 10)?;
    }
    streams.write(&[digit(number % 10)])
}

fn say_hex<S: Streams>(streams: &mut S, bytes: &[u8]) -> Result<(), S::Error> {
    bytes
        .iter()
        .try_for_each(|byte| streams.write(&[digit(usize::from(byte >> 4)), digit(usize::from(byte & 15))]))
}

fn digit(value: usize) -> u8 {
    b"0123456789abcdef".get(value).copied().unwrap_or(b'?')
}

/// The number that digits write; the host wrote them: they fit.
fn parse(digits: &[u8], radix: u32) -> u64 {
    digits.iter().fold(0_u64, |number, &byte| {
        let value = char::from(byte).to_digit(radix).unwrap_or(0);
        number.wrapping_mul(u64::from(radix)).wrapping_add(u64::from(value))
    })
}

/// The bytes that hex digits write, and the rest of `record`.
fn unhex_first<'a>(digits: &[u8], record: &'a mut [u8]) -> (&'a [u8], &'a mut [u8]) {
    let length = (digits.len() / 2).min(record.len());
    match record.split_at_mut_checked(length) {
        Some((first, rest)) => (unhex(digits, first), rest),
        None => (&[], &mut []),
    }
}

/// The bytes that hex digits write, in `record`; `-` writes none.
fn unhex<'a>(digits: &[u8], record: &'a mut [u8]) -> &'a [u8] {
    let mut len = 0_usize;
    for (slot, pair) in record.iter_mut().zip(digits.chunks_exact(2)) {
        // Two hex digits are at most 255.
        *slot = parse(pair, 16).to_le_bytes()[0];
        len = len.saturating_add(1);
    }
    record.get(..len).unwrap_or_default()
}

/// The first `readable` bytes, or all if they are fewer.
fn at_most(readable: u64, bytes: &[u8]) -> &[u8] {
    usize::try_from(readable).ok().and_then(|readable| bytes.get(..readable)).unwrap_or(bytes)
}
