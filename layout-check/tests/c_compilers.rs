//! The C compilers of every target agree with core on each size, offset, width and alignment, in C11 and in C++17.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test cannot run or write fails it")]

use std::io::Write;
use std::process::{Command, Stdio};

use bufabi_core::wire::layout::RECORDS;
use bufabi_core::wire::layout_text::CHeader;

/// Each compiler, the language, and its standard.
const COMPILERS: [(&str, &str, &str); 6] = [
    ("cc", "c", "c11"),
    ("c++", "c++", "c++17"),
    ("arm-none-eabi-gcc", "c", "c11"),
    ("arm-none-eabi-g++", "c++", "c++17"),
    ("aarch64-linux-gnu-gcc", "c", "c11"),
    ("aarch64-linux-gnu-g++", "c++", "c++17"),
];

/// What the compiler complains about in `source`; `None` when it takes it.
fn complaint(compiler: &str, language: &str, standard: &str, source: &str) -> Option<String> {
    let mut child = Command::new(compiler)
        .args(["-fsyntax-only", "-ffreestanding", "-Wall", "-Wextra", "-Werror", "-pedantic"])
        .args(["-x", language, &format!("-std={standard}"), "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{compiler}: {error}; `tests/all setup` installs it"));
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn every_compiler_takes_every_assertion() {
    let header = CHeader(RECORDS).to_string();
    for (compiler, language, standard) in COMPILERS {
        assert_eq!(complaint(compiler, language, standard, &header), None, "{compiler}");
    }
}

#[test]
fn every_compiler_refuses_a_number_that_is_off_by_one() {
    let header = CHeader(RECORDS).to_string();
    for (right, wrong, what) in [
        ("sizeof(bufabi_tensor_t) == 144", "sizeof(bufabi_tensor_t) == 145", "bufabi_tensor: size"),
        (
            "(bufabi_tensor_t, strides) == 120",
            "(bufabi_tensor_t, strides) == 121",
            "bufabi_tensor.strides: offset",
        ),
        (
            "(bufabi_tensor_t *)0)->dtype) == 1",
            "(bufabi_tensor_t *)0)->dtype) == 2",
            "bufabi_tensor.dtype: width",
        ),
        (
            "ALIGNOF(bufabi_chip_tensor_t) == 64",
            "ALIGNOF(bufabi_chip_tensor_t) == 65",
            "bufabi_chip_tensor: alignment",
        ),
    ] {
        assert_eq!(header.matches(right).count(), 1, "{right}");
        let header = header.replace(right, wrong);
        for (compiler, language, standard) in COMPILERS {
            let said = complaint(compiler, language, standard, &header).unwrap();
            assert!(said.contains(what), "{compiler}: {said}");
        }
    }
}
