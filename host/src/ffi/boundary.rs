//! Where C's calls end: a result becomes a status, a panic becomes one too, and what an error says in words is kept for whoever asks.

use core::cell::RefCell;
use core::ffi::c_char;
use core::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use bufabi_core::Code;

use super::parameter::{Out, OutSlice, apart_from};
use super::status::Status;

/// What the last refusal of this thread said.
#[derive(Debug)]
struct Said {
    text: String,
    /// The text belongs to the call that is under way.
    is_new: bool,
}

thread_local! {
    static SAID: RefCell<Said> = const { RefCell::new(Said { text: String::new(), is_new: false }) };
}

/// What a function answers: 0 when its work is done, else why it is not.
#[inline]
pub(super) fn answer(operation: &'static str, work: impl FnOnce() -> Result<(), Code>) -> Status {
    answer_of(operation, || work().map(|()| Code::Ok.number()))
}

/// The same where the work has a status of its own to pass on: that of a function of the caller's.
#[inline]
pub(super) fn answer_of(operation: &'static str, work: impl FnOnce() -> Result<Status, Code>) -> Status {
    // Whatever a panic leaves half done is behind a lock or a handle of this library's, whose steps are whole.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(status)) => status,
        Ok(Err(code)) => refused(operation, code),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text =
                text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words");
            refused(operation, noted(Code::Internal, &text))
        }
    }
}

/// The code of an error, whose words are kept for [`bufabi_error_text`].
#[cold]
pub(super) fn noted(code: Code, error: &impl fmt::Display) -> Code {
    // A thread that is ending has no place for it any more.
    let _ = SAID.try_with(|said| {
        if let Ok(mut said) = said.try_borrow_mut() {
            said.text.clear();
            said.is_new = write!(said.text, "{error}").is_ok();
        }
    });
    code
}

#[cold]
fn refused(operation: &'static str, code: Code) -> Status {
    let _ = SAID.try_with(|said| {
        if let Ok(mut said) = said.try_borrow_mut() {
            if !said.is_new {
                said.text.clear();
                said.text.push_str(code.name());
            }
            said.is_new = false;
            said.text.insert_str(0, ": ");
            said.text.insert_str(0, operation);
        }
    });
    code.number()
}

/// What the last refused call of this thread said, for a person, with the numbers: `""` when none was refused. As much as fits is
/// written to the `capacity` bytes at `text`, with a closing NUL, cut off between characters. `*needed` is the number of
/// bytes of the whole, the NUL included. `text` may be NULL when `capacity` is 0.
///
/// # Safety
/// `text` points to `capacity` bytes that may be written, `needed` to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_error_text(text: *mut c_char, capacity: usize, needed: *mut usize) -> Status {
    answer("error_text", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { OutSlice::new(text.cast::<u8>(), capacity) }?;
        // SAFETY: the caller's promise above.
        let needed = unsafe { Out::new(needed) }?;
        apart_from(&[out.span(), needed.span()], &[])?;
        let said = SAID.try_with(|said| said.try_borrow().map(|said| said.text.clone()).unwrap_or_default());
        let mut said = said.unwrap_or_default();
        needed.set(said.len().saturating_add(1));
        if let Some(room) = capacity.checked_sub(1) {
            said.truncate(said.floor_char_boundary(room));
            said.push('\0');
            out.set(said.as_bytes());
        }
        Ok(())
    })
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests {
    use super::*;

    fn said() -> String {
        let (mut text, mut needed) = ([0x55_u8; 200], 0);
        // SAFETY: both are writable locals.
        assert_eq!(unsafe { bufabi_error_text(text.as_mut_ptr().cast(), 200, &raw mut needed) }, 0);
        assert_eq!(text[needed - 1], 0);
        String::from_utf8(text[..needed - 1].to_vec()).unwrap()
    }

    #[test]
    fn a_panic_ends_at_the_boundary_and_says_what_it_was() {
        assert_eq!(answer("fall", || panic!("number {}", 7)), Code::Internal.number());
        assert_eq!(said(), "fall: number 7");
        assert_eq!(answer("fall", || panic!("plain")), Code::Internal.number());
        assert_eq!(said(), "fall: plain");
        assert_eq!(answer("fall", || std::panic::panic_any(7)), Code::Internal.number());
        assert_eq!(said(), "fall: a panic without words");
    }

    #[test]
    fn the_words_are_those_of_the_last_refusal_and_of_this_thread() {
        assert_eq!(answer("a", || Err(noted(Code::Busy, &"é".repeat(3)))), Code::Busy.number());
        assert_eq!(said(), "a: ééé");
        assert_eq!(answer("b", || Ok(())), 0);
        assert_eq!(said(), "a: ééé", "a success says nothing");
        assert_eq!(answer("c", || Err(Code::NullPointer)), Code::NullPointer.number());
        assert_eq!(said(), "c: null_pointer", "and not the words of another");
        assert_eq!(std::thread::spawn(said).join().unwrap(), "");
    }

    #[test]
    fn a_text_that_does_not_fit_is_cut_off_between_characters() {
        assert_eq!(answer("a", || Err(noted(Code::Busy, &"éé"))), Code::Busy.number());
        for (capacity, expected) in [(0, "UUUU"), (1, "\0UUU"), (5, "a: \0U"), (6, "a: é\0"), (9, "a: éé\0U")]
        {
            let (mut text, mut needed) = ([b'U'; 12], 0);
            // SAFETY: both are writable locals.
            let status = unsafe { bufabi_error_text(text.as_mut_ptr().cast(), capacity, &raw mut needed) };
            assert_eq!((status, needed), (0, 8));
            assert_eq!(&text[..expected.len()], expected.as_bytes(), "{capacity}");
        }
    }
}
