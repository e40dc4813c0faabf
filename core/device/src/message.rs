//! What a host asks of a device and what it answers, as bytes in the queue's messages.
//!
//! A request is a [`RawRequest`] and what belongs to it; a reply is a [`RawReply`]. One request is under way at a time, and its
//! number comes back with the reply. The reply to number 0, which nobody asks, says that the device has started.

use core::fmt;

use bufabi_core::wire::blob::RawBlobHeader;
use bufabi_core::wire::chip_args::{MAX_SCALARS, MAX_TENSORS};
use bufabi_core::{Code, RawTensor};
use zerocopy::little_endian::{I32, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::mailbox::INPUT_ARENA;

/// The fixed part of a request.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawRequest {
    /// Its number: one more than the last one's.
    pub number: U64,
    /// What is asked: 1 allocate, 2 free, 3 run.
    pub kind: U32,
    /// For a run, the kernel's number; else 0.
    pub kernel: U32,
    /// For allocate and free, the first address; else 0.
    pub address: U64,
    /// For allocate, its bytes; for a run, the blob's; else 0.
    pub nbytes: U64,
}

/// A whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RawReply {
    /// The request's number.
    pub number: U64,
    /// 0, or the frozen number of what was wrong.
    pub code: I32,
    /// The argument that it is about, from 0; [`NO_ARGUMENT`] is none.
    pub argument: U32,
}

const _: () = {
    assert!(size_of::<RawRequest>() == 32);
    assert!(core::mem::offset_of!(RawRequest, kind) == 8);
    assert!(core::mem::offset_of!(RawRequest, kernel) == 12);
    assert!(core::mem::offset_of!(RawRequest, address) == 16);
    assert!(core::mem::offset_of!(RawRequest, nbytes) == 24);
    assert!(size_of::<RawReply>() == 16);
    assert!(core::mem::offset_of!(RawReply, code) == 8);
    assert!(core::mem::offset_of!(RawReply, argument) == 12);
};

impl RawRequest {
    /// The fixed part of a run whose blob has so many bytes.
    #[must_use]
    pub fn run(number: u64, kernel: u32, blob_bytes: usize) -> Self {
        let nbytes = u64::try_from(blob_bytes).unwrap_or(u64::MAX);
        Self { kernel: U32::new(kernel), ..Self::new(number, 3, 0, nbytes) }
    }

    const fn new(number: u64, kind: u32, address: u64, nbytes: u64) -> Self {
        Self {
            number: U64::new(number),
            kind: U32::new(kind),
            kernel: U32::ZERO,
            address: U64::new(address),
            nbytes: U64::new(nbytes),
        }
    }
}

/// The argument of a reply that is about none.
pub const NO_ARGUMENT: u32 = u32::MAX;

/// Bytes of the largest request: a blob of 256 tensors and 128 scalars, and an address for each tensor.
pub const MAX_REQUEST: usize = size_of::<RawRequest>()
    + RawBlobHeader::SIZE
    + (RawTensor::SIZE + size_of::<U64>()) * MAX_TENSORS
    + size_of::<U64>() * MAX_SCALARS;
#[expect(clippy::as_conversions, reason = "widening, and From is not const")]
const _: () = assert!(MAX_REQUEST as u64 <= INPUT_ARENA);

/// What a host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// These bytes were given out: tasks may name them from now on.
    Allocate {
        /// The first one's address.
        address: u64,
        /// How many.
        nbytes: u64,
    },
    /// What was given out at that address was taken back: no task may name it any more.
    Free {
        /// The first byte's address.
        address: u64,
    },
    /// Run a task.
    Run {
        /// Which kernel.
        kernel: u32,
        /// Its blob.
        blob: &'a [u8],
        /// Where the host says that each tensor's backing starts, in order.
        addresses: &'a [U64],
    },
}

impl<'a> Request<'a> {
    /// The fixed part. For a run, its blob follows and then its addresses.
    #[must_use]
    pub fn header(&self, number: u64) -> RawRequest {
        match *self {
            Self::Allocate { address, nbytes } => RawRequest::new(number, 1, address, nbytes),
            Self::Free { address } => RawRequest::new(number, 2, address, 0),
            Self::Run { kernel, blob, .. } => RawRequest::run(number, kernel, blob.len()),
        }
    }

    /// What a message that was copied out asks, and its number.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn decode(message: &'a [u8]) -> Result<(u64, Self), RequestError> {
        let short = RequestError::Short { found: message.len() };
        let (raw, rest) = RawRequest::ref_from_prefix(message).map_err(|_| short)?;
        let (address, nbytes) = (raw.address.get(), raw.nbytes.get());
        let request = match raw.kind.get() {
            1 => Self::Allocate { address, nbytes },
            2 => Self::Free { address },
            3 => {
                let length = usize::try_from(nbytes).map_err(|_| short)?;
                let (blob, rest) = rest.split_at_checked(length).ok_or(short)?;
                let addresses = <[U64]>::ref_from_bytes(rest).map_err(|_| short)?;
                return Ok((raw.number.get(), Self::Run { kernel: raw.kernel.get(), blob, addresses }));
            }
            found => return Err(RequestError::Kind { found }),
        };
        if rest.is_empty() { Ok((raw.number.get(), request)) } else { Err(short) }
    }
}

/// Why a message is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// It has fewer or more bytes than it says.
    Short {
        /// Bytes of the message.
        found: usize,
    },
    /// Nothing is asked by that number.
    Kind {
        /// The number.
        found: u32,
    },
}

impl RequestError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        Code::MessageBroken
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { found } => write!(f, "a message of {found} bytes is not as long as it says"),
            Self::Kind { found } => write!(f, "nothing is asked by number {found}"),
        }
    }
}

impl core::error::Error for RequestError {}

/// What a device answers to one request.
pub type Answer = Result<(), Refusal>;

/// Why a device did not do what it was asked. Nothing was written then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The frozen number, name and fault.
    pub code: Code,
    /// The argument that it is about, from 0.
    pub argument: Option<usize>,
}

impl Refusal {
    /// A refusal that is about no argument.
    #[must_use]
    pub const fn new(code: Code) -> Self {
        Self { code, argument: None }
    }

    /// The same, about one argument.
    #[must_use]
    pub const fn of_argument(code: Code, argument: usize) -> Self {
        Self { code, argument: Some(argument) }
    }
}

impl RawReply {
    /// The reply to request number `number`.
    #[must_use]
    pub fn new(number: u64, answer: Answer) -> Self {
        let (code, argument) = match answer {
            Ok(()) => (0, None),
            Err(Refusal { code, argument }) => (code.number(), argument),
        };
        let argument = argument.and_then(|argument| u32::try_from(argument).ok()).unwrap_or(NO_ARGUMENT);
        Self { number: U64::new(number), code: I32::new(code), argument: U32::new(argument) }
    }

    /// What the reply in a message that was copied out answers; `None` when it is none, or that of another request.
    #[must_use]
    pub fn decode(message: &[u8], number: u64) -> Option<Answer> {
        let raw = Self::ref_from_bytes(message).ok()?;
        if raw.number.get() != number {
            return None;
        }
        let argument = (raw.argument.get() != NO_ARGUMENT).then_some(raw.argument.get());
        let argument = argument.map(usize::try_from).transpose().ok()?;
        let code = Code::from_number(raw.code.get())?;
        if code == Code::Ok {
            argument.is_none().then_some(Ok(()))
        } else {
            Some(Err(Refusal { code, argument }))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn requests_come_back_and_no_other_bytes_are_one() {
        let addresses = [U64::new(7), U64::new(8)];
        let blob = [1, 2, 3];
        for request in [
            Request::Allocate { address: 64, nbytes: 9 },
            Request::Free { address: 64 },
            Request::Run { kernel: 5, blob: &blob, addresses: &addresses },
            Request::Run { kernel: 0, blob: &[], addresses: &[] },
        ] {
            let mut message = Vec::from(request.header(11).as_bytes());
            if let Request::Run { blob, addresses, .. } = request {
                message.extend_from_slice(blob);
                message.extend_from_slice(addresses.as_bytes());
            }
            assert_eq!(Request::decode(&message), Ok((11, request)));
            for shorter in 0..message.len() {
                // Whole addresses may be missing: how many there are is known from the blob.
                let missing = message.len().wrapping_sub(shorter);
                let whole =
                    matches!(request, Request::Run { .. }) && missing.is_multiple_of(8) && missing <= 16;
                let whole = whole && shorter >= 35;
                assert_eq!(Request::decode(&message[..shorter]).is_ok(), whole, "{request:?}, {shorter}");
            }
            message.push(0);
            assert!(Request::decode(&message).is_err());
        }
        let mut message = Request::Free { address: 0 }.header(1);
        for found in [0, 4, u32::MAX] {
            message.kind = U32::new(found);
            assert_eq!(Request::decode(message.as_bytes()), Err(RequestError::Kind { found }));
        }
    }

    #[test]
    fn replies_come_back_and_those_of_another_request_do_not() {
        for answer in [
            Ok(()),
            Err(Refusal::new(Code::MessageBroken)),
            Err(Refusal::of_argument(Code::AddressNotMapped, 255)),
        ] {
            let raw = RawReply::new(3, answer);
            assert_eq!(RawReply::decode(raw.as_bytes(), 3), Some(answer));
            assert_eq!(RawReply::decode(raw.as_bytes(), 4), None);
            assert_eq!(RawReply::decode(&raw.as_bytes()[..15], 3), None);
        }
        let unknown = RawReply { code: I32::new(-1), ..RawReply::new(3, Ok(())) };
        assert_eq!(RawReply::decode(unknown.as_bytes(), 3), None);
        let contradiction = RawReply { argument: U32::new(1), ..RawReply::new(3, Ok(())) };
        assert_eq!(RawReply::decode(contradiction.as_bytes(), 3), None);
    }
}
