//! Lines out of a stream, in bounded memory, whatever it holds.

use std::io::{self, Read};

/// Bytes that are asked for at a time.
const CHUNK: usize = 256 * 1024;

/// A line of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Its bytes, without the line feed.
    Whole(&'a [u8]),
    /// It has more bytes than the limit, and they are gone.
    TooLong,
}

/// Splits a stream into lines and keeps at most one line and one chunk of it.
pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    filled: usize,
    limit: usize,
    /// The bytes up to the next line feed belong to a line that was too long.
    skipping: bool,
}

impl<R: Read> Lines<R> {
    /// Lines of at most `limit` bytes.
    pub(super) fn new(input: R, limit: usize) -> Self {
        Self { input, buffer: vec![0; CHUNK], filled: 0, limit, skipping: false }
    }

    /// Reads once and hands out every line that is whole by then. Says whether the stream goes on; its last line needs no
    /// line feed.
    pub(super) fn read(&mut self, mut each: impl FnMut(Line<'_>)) -> io::Result<bool> {
        if self.filled == self.buffer.len() {
            let wanted = self.buffer.len().saturating_mul(2).min(self.limit.saturating_add(CHUNK));
            self.buffer.resize(wanted, 0);
        }
        let space = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let count = loop {
            match self.input.read(space) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        let scanned = self.filled;
        self.filled = scanned.saturating_add(count).min(self.buffer.len());
        let bytes = self.buffer.get(..self.filled).unwrap_or_default();
        let fresh = bytes.get(scanned..).unwrap_or_default();
        let mut start = 0;
        for feed in memchr::memchr_iter(b'\n', fresh) {
            let feed = feed.saturating_add(scanned);
            let line = bytes.get(start..feed).unwrap_or_default();
            let too_long = std::mem::take(&mut self.skipping) || line.len() > self.limit;
            each(if too_long { Line::TooLong } else { Line::Whole(line) });
            start = feed.saturating_add(1);
        }
        let rest = bytes.get(start..).unwrap_or_default();
        if count == 0 {
            if self.skipping || rest.len() > self.limit {
                each(Line::TooLong);
            } else if !rest.is_empty() {
                each(Line::Whole(rest));
            }
            return Ok(false);
        }
        if self.skipping || rest.len() > self.limit {
            self.skipping = true;
            self.filled = 0;
        } else {
            let length = rest.len();
            if start > 0 {
                self.buffer.copy_within(start..self.filled, 0);
            }
            self.filled = length;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that gives `step` bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(out.len());
            let (now, later) = self.0.split_at(count);
            out[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }

    fn lines(text: &[u8], step: usize, limit: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(Slow(text, step), limit);
        let mut found = Vec::new();
        while lines
            .read(|line| {
                found.push(match line {
                    Line::Whole(line) => Some(line.to_vec()),
                    Line::TooLong => None,
                });
            })
            .unwrap()
        {}
        found
    }

    #[test]
    fn lines_are_the_same_in_steps_of_any_size() {
        let text = b"one\n\nthree and more\nfour\nlast";
        let expected: Vec<_> = text.split(|byte| *byte == b'\n').map(|line| Some(line.to_vec())).collect();
        for step in 1..=text.len() {
            assert_eq!(lines(text, step, 100), expected, "{step}");
        }
        assert_eq!(lines(b"", 1, 100), []);
        assert_eq!(lines(b"a\n", 1, 100), [Some(b"a".to_vec())]);
    }

    #[test]
    fn a_line_past_the_limit_is_dropped_and_the_next_one_is_read() {
        let mut text = vec![b'x'; 3 * CHUNK];
        text.extend_from_slice(b"\nnext\n");
        text.extend_from_slice(&[b'y'; 11]);
        for step in [1000, CHUNK, usize::MAX] {
            assert_eq!(lines(&text, step, 10), [None, Some(b"next".to_vec()), None]);
        }
        let whole = vec![b'x'; 3 * CHUNK];
        assert_eq!(lines(&whole, usize::MAX, 3 * CHUNK), [Some(whole.clone())]);
        assert_eq!(lines(&whole, usize::MAX, 3 * CHUNK - 1), [None]);
    }
}
