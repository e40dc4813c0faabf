//! What the suites share: where the vectors are and how their hex is read, regions in memory, clocks, waits for a side that ends.
#![forbid(unsafe_code)]

pub mod apart;
pub mod clock;
pub mod conversation;
pub mod device;
pub mod memory;
pub mod message;
pub mod plain;
pub mod random;
pub mod waits;

use std::path::{Path, PathBuf};

/// The file of that name in `tests/vectors`.
///
/// # Errors
/// What reading it said, with its path.
pub fn vectors(name: &str) -> Result<String, String> {
    let path = root().join("tests/vectors").join(name);
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The workspace's folder.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The bytes that hex digits stand for; `-` stands for none.
///
/// # Errors
/// The digits that are no hex.
pub fn unhex(text: &str) -> Result<Vec<u8>, String> {
    if text == "-" {
        return Ok(Vec::new());
    }
    let mut digits = text.chars();
    let mut bytes = Vec::new();
    while let Some(high) = digits.next() {
        let low = digits.next();
        match (high.to_digit(16), low.and_then(|low| low.to_digit(16))) {
            (Some(high), Some(low)) => {
                bytes.push(u8::try_from((high << 4) | low).map_err(|error| error.to_string())?);
            }
            _ => return Err(format!("{high}{} is no hex byte", low.unwrap_or(' '))),
        }
    }
    Ok(bytes)
}

/// The README's example, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
