//! The answer of every function: a frozen number, its name, and whose fault it is.

use core::ffi::{CStr, c_char};

use bufabi_core::{Code, Fault};

/// 0 is success; any other number is the first rule that was broken. `bufabi_status.h` lists them.
pub type Status = i32;

/// The rule's name as the wire ABI spells it, `"ok"` for 0, `"unknown_status"` for a number that is none. Never NULL, never
/// freed.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_status_name(status: Status) -> *const c_char {
    Code::from_number(status).map_or(c"unknown_status", Code::c_name).as_ptr()
}

/// Whose fault a status is: `"nobody"` for 0, `"sender"`, `"caller"`, `"capacity"`, `"machine"` or `"library"`, and `"unknown_status"`
/// for a number that is none. Never NULL, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_status_fault(status: Status) -> *const c_char {
    Code::from_number(status).map_or(c"unknown_status", |code| fault_name(code.fault())).as_ptr()
}

const fn fault_name(fault: Fault) -> &'static CStr {
    match fault {
        Fault::Nobody => c"nobody",
        Fault::Sender => c"sender",
        Fault::Caller => c"caller",
        Fault::Capacity => c"capacity",
        Fault::Machine => c"machine",
        Fault::Library => c"library",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: *const c_char) -> &'static CStr {
        // SAFETY: every text that the two functions give is a literal with a closing NUL, alive for ever.
        unsafe { CStr::from_ptr(text) }
    }

    #[test]
    fn every_code_has_its_name_and_its_fault_in_c() {
        for code in Code::ALL {
            assert_eq!(read(bufabi_status_name(code.number())).to_bytes(), code.name().as_bytes());
            assert_eq!(read(bufabi_status_fault(code.number())).to_bytes(), code.fault().name().as_bytes());
        }
    }

    #[test]
    fn a_number_that_is_no_status_says_so() {
        for number in [-1, i32::MIN, i32::MAX, 47] {
            assert_eq!(read(bufabi_status_name(number)), c"unknown_status");
            assert_eq!(read(bufabi_status_fault(number)), c"unknown_status");
        }
    }
}
