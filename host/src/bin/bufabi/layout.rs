//! `bufabi layout`: the byte tables, for people and for C compilers.

use std::io::{Write, stdout};

use bufabi_core::wire::layout::RECORDS;
use bufabi_core::wire::layout_text::{CHeader, MarkdownTables};
use clap::Args;

use crate::failure::Failure;

/// The byte tables: offset, width, name and type of every field of every record.
#[derive(Args)]
#[command(after_help = "Examples:
  bufabi layout                      the tables, in Markdown
  bufabi layout --c > layout.h       C structs, with static assertions of every offset and width
  bufabi layout --c | cc -std=c11 -fsyntax-only -x c -")]
pub(crate) struct Layout {
    /// C structs with static assertions instead, for C11 and C++17.
    #[arg(long)]
    c: bool,
}

impl Layout {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut out = stdout().lock();
        if self.c { write!(out, "{}", CHeader(RECORDS)) } else { write!(out, "{}", MarkdownTables(RECORDS)) }
            .and_then(|()| out.flush())
            .map_err(Failure::output)
    }
}
