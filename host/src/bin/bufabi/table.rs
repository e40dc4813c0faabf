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
        // Padded by hand: a width of formatting is at most 65,535.
        let cells: Vec<String> = cells
            .map(|((cell, width), right)| {
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                if right { padding + cell } else { cell.clone() + &padding }
            })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[[&str; 3]]) -> String {
        let rows: Vec<[String; 3]> = rows.iter().map(|row| row.map(str::to_owned)).collect();
        let mut out = Vec::new();
        write_table(&mut out, &rows, [false, true, false]).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_their_longest_cell_and_the_last_one_is_open() {
        let rows = [["name", "bytes", "who"], ["é", "1", ""], ["longer", "1234567", "me"]];
        assert_eq!(table(&rows), "name      bytes  who\né             1\nlonger  1234567  me\n");
    }

    #[test]
    fn a_cell_may_be_longer_than_any_width_of_formatting() {
        let long = "x".repeat(70_000);
        let expected = format!("{long}  1  a\ny{}  2  b\n", " ".repeat(69_999));
        assert_eq!(table(&[[&long, "1", "a"], ["y", "2", "b"]]), expected);
    }
}
