//! Random bytes of the operating system.

use super::error::{OsError, retry};

/// `N` random bytes. `N` is at most 256, so that the answer is never short.
///
/// # Errors
/// [`OsError`]; ENOSYS on a kernel before 3.17.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], OsError> {
    const { assert!(N <= 256) };
    let mut bytes = [0; N];
    // SAFETY: `bytes` is writable for `N` bytes.
    retry("getrandom", || unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_differ() {
        assert_ne!(random_bytes::<16>().unwrap(), random_bytes::<16>().unwrap());
    }
}
