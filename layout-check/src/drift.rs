//! Where two texts part: a person should see the line, not that some file differs.

use std::fmt::{self, Display, Formatter};

/// The first line that is not the same in two texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Its number, from 1.
    pub line: usize,
    /// What is written; `None` past its end.
    pub written: Option<String>,
    /// What the code says; `None` past its end.
    pub made: Option<String>,
}

/// Compares what is `written` with what was `made`.
#[must_use]
pub fn first_drift(written: &str, made: &str) -> Option<Drift> {
    let (mut written_lines, mut made_lines) = (written.lines(), made.lines());
    for line in 1.. {
        match (written_lines.next(), made_lines.next()) {
            // Lines are the same to the end: only how the last one ends can differ.
            (None, None) if written == made => return None,
            (Some(written), Some(made)) if written == made => {}
            (written, made) => {
                let (written, made) = (written.map(str::to_owned), made.map(str::to_owned));
                return Some(Drift { line, written, made });
            }
        }
    }
    None
}

impl Display for Drift {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = |line: &Option<String>| line.clone().unwrap_or_else(|| "(the end)".to_owned());
        write!(f, "line {}\n  written:  {}\n  the code: {}", self.line, text(&self.written), text(&self.made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(written: &str, made: &str) -> Option<(usize, Option<String>, Option<String>)> {
        first_drift(written, made).map(|drift| (drift.line, drift.written, drift.made))
    }

    #[test]
    fn the_first_differing_line_is_named() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(drift("", ""), None);
        assert_eq!(drift("a\nb\n", "a\nb\n"), None);
        assert_eq!(drift("a\nb\nc\n", "a\nx\ny\n"), Some((2, some("b"), some("x"))));
        assert_eq!(drift("a\n", "a\nb\n"), Some((2, None, some("b"))));
        assert_eq!(drift("a\nb\n", "a\n"), Some((2, some("b"), None)));
        assert_eq!(drift("a\n", "a"), Some((2, None, None)), "a last line that does not end is drift too");
    }
}
