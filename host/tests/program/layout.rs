//! `bufabi layout`: the tables, and a header that a C compiler agrees with.

use std::fs;
use std::process::Command;

use crate::{bufabi, folder};

#[test]
fn the_c_header_compiles_and_its_assertions_hold() {
    let ran = bufabi(&["layout", "--c"]);
    assert_eq!((ran.status, ran.complaint.as_str()), (0, ""));
    let path = folder("layout").join("layout.c");
    fs::write(&path, ran.out).unwrap();
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}

#[test]
fn the_tables_name_every_record() {
    let ran = bufabi(&["layout"]);
    assert_eq!(ran.status, 0);
    for record in bufabi_core::wire::layout::RECORDS {
        assert!(ran.out.contains(&format!("## {}: {} bytes", record.name, record.size)));
    }
}
