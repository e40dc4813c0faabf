//! Reserving memory piece by piece: what a signal interrupts is undone and starts anew, so a timer could starve a large whole for ever.

use super::error::OsError;

/// Bytes that are reserved at once, at first: about a millisecond's.
const LARGEST: i64 = 2 << 20;

/// Bytes that are reserved at once when signals keep coming: a page is there before any timer beats again.
const SMALLEST: i64 = 4096;

/// Reserves the bytes from `from` to `end`, at least once, by calls of `reserve` with an offset and a length.
///
/// # Errors
/// That of a call, but for EINTR; what was reserved before stays.
pub(super) fn in_pieces(
    from: i64,
    end: i64,
    mut reserve: impl FnMut(i64, i64) -> Result<(), OsError>,
) -> Result<(), OsError> {
    let (mut done, mut piece) = (from, LARGEST);
    loop {
        let length = piece.min(end.saturating_sub(done));
        match reserve(done, length) {
            Ok(()) => done = done.saturating_add(length),
            Err(OsError { errno: libc::EINTR, .. }) => piece = (piece / 2).max(SMALLEST),
            Err(error) => return Err(error),
        }
        if done >= end {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_shrink_with_every_interruption_until_they_get_through() {
        // Whatever is longer than three pages is interrupted.
        let mut calls = Vec::new();
        let reserved = in_pieces(5, 40_005, |offset, length| {
            calls.push((offset, length));
            if length > 3 * SMALLEST {
                Err(OsError { call: "fallocate", errno: libc::EINTR })
            } else {
                Ok(())
            }
        });
        assert_eq!(reserved, Ok(()));
        let through: Vec<_> = calls.iter().filter(|(_, length)| *length <= 3 * SMALLEST).collect();
        assert_eq!(through, [&(5, 8192), &(8197, 8192), &(16_389, 8192), &(24_581, 8192), &(32_773, 7232)]);
        let no_space = OsError { call: "fallocate", errno: libc::ENOSPC };
        assert_eq!(in_pieces(0, 1, |_, _| Err(no_space)), Err(no_space));
    }
}
