//! The files that are made from the code, each with its place in the workspace and the text that it should have.

use std::fs;
use std::path::{Path, PathBuf};

use bufabi_core::wire::layout::RECORDS;
use bufabi_core::wire::layout_text::{CHeader, MarkdownTables};

use crate::c_headers::{firmware_header, host_header};
use crate::codes::{CStatuses, FrozenCodes, MarkdownCodes};
use crate::frozen::Frozen;

/// A file that is made from the code.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its place, from the workspace's folder.
    pub path: &'static str,
    /// The text that it should have.
    pub text: String,
}

/// The workspace's folder.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// All of them.
///
/// # Errors
/// What reading the sources said, or a mark that `docs/wire-abi.md` lacks.
pub fn documents() -> Result<Vec<Document>, String> {
    Ok(vec![
        Document { path: "layout-check/layout.txt", text: Frozen.to_string() },
        Document { path: "layout-check/codes.txt", text: FrozenCodes.to_string() },
        Document { path: "firmware-shim/include/bufabi_layout.h", text: CHeader(RECORDS).to_string() },
        Document { path: "firmware-shim/include/bufabi_status.h", text: CStatuses.to_string() },
        Document { path: "firmware-shim/include/bufabi.h", text: firmware_header(&root())? },
        Document { path: "host/include/bufabi/bufabi_layout.h", text: CHeader(RECORDS).to_string() },
        Document { path: "host/include/bufabi/bufabi_status.h", text: CStatuses.to_string() },
        Document { path: "host/include/bufabi/bufabi.h", text: host_header(&root())? },
        wire_abi()?,
    ])
}

/// `docs/wire-abi.md`: its prose as it is, its tables made anew.
fn wire_abi() -> Result<Document, String> {
    let path = "docs/wire-abi.md";
    let mut text = fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))?;
    for record in RECORDS {
        let table = MarkdownTables(std::slice::from_ref(record)).to_string();
        text = between_marks(&text, record.name, &table).ok_or_else(|| lacks(path, record.name))?;
    }
    let codes = MarkdownCodes.to_string();
    text = between_marks(&text, "codes", &codes).ok_or_else(|| lacks(path, "codes"))?;
    Ok(Document { path, text })
}

fn lacks(path: &str, name: &str) -> String {
    format!("{path} lacks the lines <!-- generated: {name} --> and, behind it, <!-- end -->")
}

/// `text` with what stands between the two marks of `name` replaced; `None` when they are not there.
fn between_marks(text: &str, name: &str, replacement: &str) -> Option<String> {
    let mark = format!("<!-- generated: {name} -->\n");
    let (before, rest) = text.split_once(&mark)?;
    let (_, after) = rest.split_once("<!-- end -->\n")?;
    Some(format!("{before}{mark}\n{replacement}\n<!-- end -->\n{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::first_drift;

    #[test]
    fn every_written_table_says_what_the_code_says() {
        for Document { path, text } in documents().unwrap() {
            let written = fs::read_to_string(root().join(path)).unwrap_or_default();
            if let Some(drift) = first_drift(&written, &text) {
                panic!(
                    "{path}, {drift}\nThe wire ABI is frozen. If this change is meant (a new error, a better \
                     comment): cargo run -p bufabi-layout-check -- --write"
                );
            }
        }
    }

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let text = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n<!-- end -->\n";
        assert_eq!(
            between_marks(text, "x", "new\n").unwrap(),
            "a\n<!-- generated: x -->\n\nnew\n\n<!-- end -->\nb\n<!-- end -->\n"
        );
        assert_eq!(between_marks(text, "y", "new\n"), None);
        assert_eq!(between_marks("<!-- generated: x -->\n", "x", "new\n"), None);
    }
}
