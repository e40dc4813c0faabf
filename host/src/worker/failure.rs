//! Why a task failed, as it travels from the worker to its parent: a code for programs, and a text for people.

use core::fmt;

use bufabi_core::Code;
use bufabi_device::kernel::Detail;

use super::kernel::KernelError;
use super::mailbox::MAX_SAID;

/// A failure that a worker reports. The text is cut off after 256 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The frozen number, name and fault.
    pub code: Code,
    /// The argument that it is about, from 0.
    pub argument: Option<usize>,
    /// What happened, for a person.
    pub text: String,
}

impl Failure {
    /// What `what` says, cut off where it has to be. `argument` is the one that it is about, from 0.
    #[must_use]
    pub fn new(code: Code, argument: Option<usize>, what: &dyn fmt::Display) -> Self {
        let mut text = what.to_string();
        text.truncate(text.floor_char_boundary(MAX_SAID));
        Self { code, argument, text }
    }
}

impl From<KernelError> for Failure {
    fn from(error: KernelError) -> Self {
        Self::new(error.code(), error.operand(), &Detail(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.argument {
            Some(index) => write!(f, "argument {index}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_off_between_characters() {
        let failure = Failure::new(Code::Busy, None, &"é".repeat(200));
        assert_eq!(failure.text.as_str(), "é".repeat(128));
        let failure = Failure::new(Code::Busy, Some(3), &"short");
        assert_eq!(failure.to_string(), "argument 3: short");
    }

    #[test]
    fn a_kernels_operand_is_named_once() {
        let error = KernelError::SelfOverlap { operand: 2 };
        assert_eq!(error.to_string(), "operand 2: it is written and overlaps itself");
        assert_eq!(Failure::from(error).to_string(), "argument 2: it is written and overlaps itself");
    }
}
