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
