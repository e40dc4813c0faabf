//! Where the bytes to inspect come from: the command line, a regular file of which only what is asked for is read, or a pipe, which
//! is read to its end.

use std::fs::{self, File, FileType};
use std::io::{self, Read, stdin};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use crate::failure::Failure;

/// Bytes that a pipe may give: a hundred times what the largest record of a task has.
const PIPE_LIMIT: u64 = 4 << 20;

/// What standard input is called.
const STANDARD_INPUT: &str = "-";

/// Bytes that can be read from any place on.
pub(super) enum Source {
    Bytes(Vec<u8>),
    File { file: File, len: u64 },
}

impl Source {
    /// The bytes of hex digits.
    pub(super) fn from_hex(hex: &str) -> Result<Self, Failure> {
        let hex: String = hex.chars().filter(|digit| !digit.is_ascii_whitespace()).collect();
        if let Some(wrong) = hex.chars().find(|digit| !digit.is_ascii_hexdigit()) {
            return Err(Failure::usage(format!("--hex: {wrong:?} is no hex digit")));
        }
        let mut bytes = vec![0; hex.len() / 2];
        faster_hex::hex_decode(hex.as_bytes(), &mut bytes).map_err(|_| {
            Failure::usage(format!("--hex: {} digits are no whole number of bytes", hex.len()))
        })?;
        Ok(Self::Bytes(bytes))
    }

    /// A regular file, a pipe, or standard input, which is `-`. Anything else is refused before it is opened: opening a device can wait,
    /// or do something.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let refuse = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
        if path.as_os_str() == STANDARD_INPUT {
            return Self::read_all(stdin().lock()).map_err(|error| refuse(&error));
        }
        let found = fs::metadata(path).map_err(|error| refuse(&error))?;
        if !found.is_file() && !found.file_type().is_fifo() {
            let kind = kind(found.file_type());
            return Err(refuse(&format_args!("is {kind}, neither a file nor a pipe")));
        }
        let file = File::open(path).map_err(|error| refuse(&error))?;
        // What has that name may be something else by now.
        let found = file.metadata().map_err(|error| refuse(&error))?;
        if found.is_file() {
            return Ok(Self::File { file, len: found.len() });
        }
        Self::read_all(file).map_err(|error| refuse(&error))
    }

    /// All that there is to read, of which there may be only so much.
    fn read_all(from: impl Read) -> io::Result<Self> {
        let mut bytes = Vec::new();
        from.take(PIPE_LIMIT.saturating_add(1)).read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > PIPE_LIMIT {
            let message =
                format!("a pipe is read up to {PIPE_LIMIT} bytes, and this one has more; a file may");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        Ok(Self::Bytes(bytes))
    }

    /// Bytes that there are.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Self::File { len, .. } => *len,
        }
    }

    /// As many of the `count` bytes from `offset` on as there are.
    pub(super) fn read(&self, offset: u64, count: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = count.min(left);
        match self {
            Self::Bytes(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                Ok(super::fields::part(bytes, start, count).to_vec())
            }
            Self::File { file, .. } => {
                let mut bytes = vec![0; count];
                file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
        }
    }
}

/// What something that is no regular file is.
fn kind(found: FileType) -> &'static str {
    if found.is_dir() {
        "a directory"
    } else if found.is_socket() {
        "a socket"
    } else if found.is_char_device() || found.is_block_device() {
        "a device"
    } else {
        "something else"
    }
}
