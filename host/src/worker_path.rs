//! Numbers for the paths of workers, for people who read logs: a descriptor has room for a number, and not for a path.
//!
//! They mean something in one process alone, and nothing routes, gates or keys on them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The paths of this process, in the order of their numbers, from 1 on.
static PATHS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The number of a path: the same one whenever it comes again. 0, which is none, for an empty path, and for all paths past the
/// 65,536th: so many are not for people any more.
#[must_use]
pub fn intern(path: &str) -> u32 {
    const MOST: usize = 65_536;
    if path.is_empty() {
        return 0;
    }
    let mut paths = paths();
    let known = paths.iter().position(|known| known == path);
    let place = known.or_else(|| {
        let place = paths.len();
        (place < MOST).then(|| paths.push(path.to_owned())).map(|()| place)
    });
    place.and_then(|place| u32::try_from(place).ok()).map_or(0, |place| place.saturating_add(1))
}

/// The path of a number; nothing for 0, and `<path#N>` for one of another process.
#[must_use]
pub fn path_of(number: u32) -> String {
    let Some(place) = number.checked_sub(1) else { return String::new() };
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    paths().get(place).cloned().unwrap_or_else(|| format!("<path#{number}>"))
}

fn paths() -> MutexGuard<'static, Vec<String>> {
    // Every step on it is whole, so a panic elsewhere leaves it as it should be.
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_number_and_a_foreign_number_is_no_error() {
        let number = intern("l4/l3/chip0");
        assert_ne!(number, 0);
        assert_eq!(intern("l4/l3/chip0"), number);
        assert_ne!(intern("l4/l3/chip1"), number);
        assert_eq!(path_of(number), "l4/l3/chip0");
        assert_eq!((intern(""), path_of(0)), (0, String::new()));
        assert_eq!(path_of(u32::MAX), "<path#4294967295>");
    }
}
