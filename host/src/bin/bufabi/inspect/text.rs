//! An inspected record for a person: rows of bytes, what they say, and a pointer at those that break a rule.

use std::io::{self, Write};

use super::fields::{Shown, widen};
use super::{Broken, Inspected};
use crate::terminal::Plain;

/// Bytes in a row.
const ROW: usize = 8;
/// Columns before the first byte.
const MARGIN: usize = 10;

pub(super) fn write(out: &mut impl Write, inspected: &Inspected) -> io::Result<()> {
    let Inspected { name, kind, total, sections, broken, behind, not_shown } = inspected;
    writeln!(out, "{}: {kind}, {total} bytes", Plain(name))?;
    let mut shown_end = 0;
    let mut told = false;
    for section in sections {
        out.write_all(b"\n")?;
        if let Some(title) = &section.title {
            writeln!(out, "{title}")?;
        }
        for field in &section.fields {
            shown_end = field.offset.saturating_add(widen(field.bytes.len())).max(shown_end);
            told |= write_field(out, field, broken.as_ref())?;
        }
    }
    if let Some(what) = not_shown {
        writeln!(out, "\n{what}")?;
    }
    if *behind > 0 {
        let from = total.saturating_sub(*behind);
        writeln!(out, "{from:>8}  {:<23}  {behind} bytes more, not read", "...")?;
    }
    match broken {
        Some(broken) => {
            if !told {
                writeln!(out, "{:MARGIN$}^^ {}: {}", "", broken.code.name(), broken.message)?;
            }
            writeln!(out, "\nbroken: {} (code {})", broken.code.name(), broken.code.number())
        }
        None => writeln!(out, "\nok: every rule holds"),
    }
}

/// A field's rows. Says whether the rule was told, which it is under the last byte that breaks it.
fn write_field(out: &mut impl Write, field: &Shown, broken: Option<&Broken>) -> io::Result<bool> {
    let mut told = false;
    let rows: Vec<&[u8]> = if field.bytes.is_empty() { vec![&[]] } else { field.bytes.chunks(ROW).collect() };
    for (index, row) in rows.iter().enumerate() {
        let start = field.offset.saturating_add(widen(index.saturating_mul(ROW)));
        let mut hex = String::new();
        let mut marks = String::new();
        for (place, byte) in (start..).zip(row.iter()) {
            hex.push_str(&format!("{byte:02x} "));
            let marked = broken.is_some_and(|broken| broken.span.contains(&place));
            marks.push_str(if marked { "^^ " } else { "   " });
        }
        let text = if index == 0 { format!("{:<34}  {}", field.name, field.value) } else { String::new() };
        writeln!(out, "{}", format!("{start:>8}  {hex:<24} {text}").trim_end())?;
        let end = start.saturating_add(widen(row.len()));
        let Some(broken) = broken.filter(|_| marks.contains('^')) else { continue };
        write!(out, "{:MARGIN$}{}", "", marks.trim_end())?;
        if broken.span.end <= end {
            told = true;
            write!(out, " {}: {}", broken.code.name(), broken.message)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(told)
}
