//! What this process has mapped: whether a range of its memory stays one with that of the processes that it forks.

use std::fs::File;
use std::io::{BufRead, BufReader};

use super::error::OsError;

/// All of the `nbytes` bytes from `address` on are mapped shared, so that a fork and this process go on seeing each other's stores.
/// What is not mapped at all is not shared.
///
/// # Errors
/// [`OsError`] when the list of mappings cannot be read.
pub fn is_shared(address: u64, nbytes: u64) -> Result<bool, OsError> {
    let failed = |error: std::io::Error| OsError::from_io("read", &error);
    let maps = File::open("/proc/self/maps").map_err(|error| OsError::from_io("open", &error))?;
    let end = address.saturating_add(nbytes);
    // The lines are in the order of their addresses: what is left begins at `next`.
    let mut next = address;
    for line in BufReader::new(maps).split(b'\n') {
        let line = line.map_err(failed)?;
        let Some(range) = Range::parse(&line) else { continue };
        if range.end <= next {
            continue;
        }
        if range.start > next || !range.is_shared {
            return Ok(false);
        }
        next = range.end;
        if next >= end {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A line of the list.
struct Range {
    start: u64,
    end: u64,
    is_shared: bool,
}

impl Range {
    /// `start-end rwxs ...`, the addresses in hexadecimal.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|&byte| byte == b' ');
        let (addresses, permissions) = (core::str::from_utf8(words.next()?).ok()?, words.next()?);
        let (start, end) = addresses.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        Some(Self {
            start: address(start)?,
            end: address(end)?,
            is_shared: permissions.get(3) == Some(&b's'),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Mapping;

    #[test]
    fn shared_copied_and_missing_memory_are_told_apart() {
        let shared = Mapping::inherited(8192).unwrap();
        let private = Box::new([0_u8; 100]);
        assert_eq!(is_shared(shared.address(), 8192), Ok(true));
        assert_eq!(is_shared(shared.address() + 4095, 2), Ok(true));
        let address = u64::try_from(private.as_ptr().addr()).unwrap();
        assert_eq!(is_shared(address, 100), Ok(false));
        assert_eq!(is_shared(1, 1), Ok(false));
        let address = shared.address();
        drop(shared);
        assert_eq!(is_shared(address, 8192), Ok(false));
    }

    #[test]
    fn a_range_that_leaves_shared_memory_is_not_shared() {
        let shared = Mapping::inherited(4096).unwrap();
        assert_eq!(is_shared(shared.address(), u64::MAX), Ok(false));
    }
}
