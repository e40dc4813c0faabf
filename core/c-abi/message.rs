//! What is sent and received through a message queue, in C, at either of its ends.

use bufabi_core::Code;
use bufabi_core::queue::{Kind, Message as Received, Opcode};

/// Work, or its result.
pub const QUEUE_DATA: i32 = 1;
/// Something went wrong; the bytes say what.
pub const QUEUE_ERROR: i32 = 3;

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Message {
    /// Its name until it is released: how many came before it.
    pub handle: u64,
    /// Where its bytes lie, for reading them in place until it is released; 0 when they are not mapped here. The other side can
    /// still write there, if it breaks the protocol: bytes on which something depends are read by `bufabi_queue_read` and
    /// checked then.
    pub address: u64,
    /// Bytes of it.
    pub nbytes: u64,
    /// DATA 1, STOP 2, ERROR 3.
    pub opcode: u64,
}

/// Room for one message that is written in place, until it is committed or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct QueueReservation {
    /// Its name.
    pub number: u64,
    /// Where the message's bytes go; 0 when they are not mapped here. Nobody else reads or writes there before it is committed.
    pub address: u64,
    /// Bytes reserved.
    pub nbytes: u64,
}

/// One of `BUFABI_QUEUE_...`.
pub(super) const fn kind(number: i32) -> Result<Kind, Code> {
    match number {
        QUEUE_DATA => Ok(Kind::Data),
        QUEUE_ERROR => Ok(Kind::Error),
        _ => Err(Code::OptionUnknown),
    }
}

/// The opcode's number, as in a slot.
pub(super) const fn opcode(opcode: Opcode) -> u64 {
    opcode.to_wire()
}

/// What C is told of a message, whose bytes lie at that address.
pub(super) const fn described(message: &Received, address: u64) -> Message {
    let opcode = opcode(message.opcode());
    Message { handle: message.handle().number(), address, nbytes: message.nbytes(), opcode }
}
