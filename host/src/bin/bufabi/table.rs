//! Tables for people: columns as wide as they need.

use std::io::{self, Write};

use crate::terminal::Plain;

/// Rows in columns as wide as they need, the last one open.
pub(crate) fn write_table<const N: usize>(
    out: &mut impl Write,
    rows: &[[String; N]],
    to_the_right: [bool; N],
) -> io::Result<()> {
    let rows: Vec<[String; N]> =
        rows.iter().map(|row| row.each_ref().map(|cell| Plain(cell).to_string())).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &rows {
        let cells = row.iter().zip(widths).zip(to_the_right);
        let cells: Vec<String> = cells
            .map(
                |((cell, width), right)| {
                    if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
                },
            )
            .collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// A number and what it counts, in its singular or its plural.
pub(crate) fn counted(number: impl TryInto<u64>, one: &str, many: &str) -> String {
    // Nothing is counted that 64 bits do not hold.
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {}", if number == 1 { one } else { many })
}
