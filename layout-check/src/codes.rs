//! Core's one table of errors as frozen text, as C's constants, and as a table for people.

use std::fmt::{self, Display, Formatter};

use bufabi_core::Code;

/// A line for each error: number, name, fault. What `codes.txt` freezes.
#[derive(Clone, Copy, Debug)]
pub struct FrozenCodes;

impl Display for FrozenCodes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Code::ALL
            .iter()
            .try_for_each(|code| writeln!(f, "{} {} {}", code.number(), code.name(), code.fault().name()))
    }
}

/// The same in Markdown.
#[derive(Clone, Copy, Debug)]
pub struct MarkdownCodes;

impl Display for MarkdownCodes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("| number | name | whose fault |\n|-------:|------|-------------|\n")?;
        Code::ALL.iter().try_for_each(|code| {
            writeln!(f, "| {} | `{}` | {} |", code.number(), code.name(), code.fault().name())
        })
    }
}

/// The same as C's constants, for a program that asks which rule it was.
#[derive(Clone, Copy, Debug)]
pub struct CStatuses;

impl Display for CStatuses {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(
            "/* Every status. Generated from the error table of bufabi-core; not to be edited.\n *\n \
             * Numbers are frozen: a new one is added, an old one never moves. */\n\
             #ifndef BUFABI_STATUS_H\n#define BUFABI_STATUS_H\n\n",
        )?;
        for code in Code::ALL {
            let (name, number) = (code.name().to_ascii_uppercase(), code.number());
            writeln!(f, "#define BUFABI_STATUS_{name} {number} /* fault of: {} */", code.fault().name())?;
        }
        f.write_str("\n#endif /* BUFABI_STATUS_H */\n")
    }
}
