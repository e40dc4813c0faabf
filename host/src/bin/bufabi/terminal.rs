//! Words for a person: text of others that cannot command a terminal, and a standard error that may be full or gone.

use std::fmt::{self, Write as _};
use std::io::{Write as _, stderr};

/// Text out of a file or off the command line, on one line and as it is read: what would move a cursor, colour what follows or turn
/// its direction is escaped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Plain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.split_inclusive(commands) {
            let end = piece.chars().next_back().filter(|&last| commands(last));
            self.0.write_str(piece.strip_suffix(commands).unwrap_or(piece))?;
            end.map_or(Ok(()), |end| write!(self.0, "{}", end.escape_debug()))?;
        }
        Ok(())
    }
}

/// A character that a terminal obeys and does not show: controls, and those that set a direction or have no width.
fn commands(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
        )
}

/// Writes to standard error. That nobody can be told changes nothing about what happened.
pub(crate) fn tell(words: fmt::Arguments<'_>) {
    let mut text = String::new();
    // A String takes whatever is written to it.
    let _ = text.write_fmt(words);
    let _ = stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_all_else_is_as_it_was() {
        let text = "a\u{1b}[31m\"b\\\n\u{7}\u{9b}\u{202e}\u{feff}e\u{301} \u{1f469}\u{200d}\u{1f680}\r";
        let plain =
            "a\\u{1b}[31m\"b\\\\n\\u{7}\\u{9b}\\u{202e}\\u{feff}e\u{301} \u{1f469}\u{200d}\u{1f680}\\r";
        assert_eq!(Plain(text).to_string(), plain);
        assert_eq!(Plain("").to_string(), "");
    }
}
