//! Compares what is written with what the code says, or writes it anew: `bufabi-layout-check [--write]`.
#![forbid(unsafe_code)]

use std::fs;
use std::process::ExitCode;

use bufabi_layout_check::documents::{documents, root};
use bufabi_layout_check::drift::first_drift;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.as_slice() {
        [] => compare(),
        [write] if write == "--write" => write_anew(),
        _ => Err("usage: bufabi-layout-check [--write]".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(complaint) => {
            eprintln!("{complaint}");
            ExitCode::FAILURE
        }
    }
}

/// Every file says what the code says.
fn compare() -> Result<(), String> {
    for document in documents()? {
        let path = document.path;
        let written = fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))?;
        if let Some(drift) = first_drift(&written, &document.text) {
            return Err(format!("{path}, {drift}"));
        }
        println!("{path}: as the code says");
    }
    Ok(())
}

/// Writes those that differ.
fn write_anew() -> Result<(), String> {
    for document in documents()? {
        let path = document.path;
        let file = root().join(path);
        if fs::read_to_string(&file).is_ok_and(|written| written == document.text) {
            continue;
        }
        fs::write(&file, &document.text).map_err(|error| format!("{path}: {error}"))?;
        println!("{path}: written");
    }
    Ok(())
}
