//! A chip leaf: what it is asked about its memory, and how it says that something did not work.

use core::fmt;

use bufabi_core::{Blob, Code, Identity};
use zerocopy::FromBytes;

use super::call::{Piece, Wanted, read_identity, read_permission, write_descriptors};
use super::failure::Failure;
use super::mailbox::MemoryCall;
use crate::device::chip::RunError;
use crate::device::memory::WindowPart;
use crate::device::{Chip, LaunchError};

/// Runs a task.
pub(super) fn run(chip: &mut Chip<'_>, kernel: u32, blob: &Blob<'_>) -> Result<(), Failure> {
    chip.run(kernel, blob).map_err(|error| {
        if let RunError::Launch(LaunchError::Kernel(error)) = error {
            return Failure::from(error);
        }
        Failure::new(error.code(), error.argument(), &error)
    })
}

/// Does what is asked about the chip's memory. What comes back is the answer.
pub(super) fn call(chip: &mut Chip<'_>, call: MemoryCall, asked: &[u8]) -> Result<Vec<u8>, Failure> {
    match call {
        MemoryCall::Malloc => {
            let WindowPart { nbytes, access } = wanted(asked)?.part().ok_or_else(broken)?;
            let made = chip.allocate(|memory| memory.malloc(nbytes, access));
            made.map(|made| write_descriptors(&[made])).map_err(|error| failure(error.code(), &error))
        }
        MemoryCall::CreateShareable => {
            let wanted = wanted(asked)?;
            let WindowPart { nbytes, access } = wanted.part().ok_or_else(broken)?;
            let admission = wanted.admission().ok_or_else(broken)?;
            let made = chip.allocate(|memory| memory.create_shareable(nbytes, access, admission));
            made.map(|made| write_descriptors(&[made])).map_err(|error| failure(error.code(), &error))
        }
        MemoryCall::CreateWindow => {
            let parts = <[Wanted]>::ref_from_bytes(asked).map_err(|_| broken())?;
            let parts = parts.iter().map(Wanted::part).collect::<Option<Vec<_>>>().ok_or_else(broken)?;
            let made = chip.allocate(|memory| memory.create_window(&parts));
            made.map(|made| write_descriptors(&made)).map_err(|error| failure(error.code(), &error))
        }
        MemoryCall::Free => {
            let freed = chip.free(read_identity(asked).ok_or_else(broken)?);
            freed.map(|()| Vec::new()).map_err(|error| failure(error.code(), &error))
        }
        MemoryCall::FreeWindow => {
            let freed = chip.free_window(read_identity(asked).ok_or_else(broken)?);
            freed.map(|()| Vec::new()).map_err(|error| failure(error.code(), &error))
        }
        MemoryCall::CopyTo => {
            let (identity, offset, bytes) = piece(asked)?;
            let copied = chip.memory().copy_to(identity, offset, bytes);
            copied.map(|()| Vec::new()).map_err(|error| failure(error.code(), &error))
        }
        MemoryCall::Fill => {
            let (identity, offset, bytes) = piece(asked)?;
            let filled = chip.memory().fill(identity, offset, bytes);
            filled.map(|()| Vec::new()).map_err(|error| failure(error.code(), &error))
        }
        MemoryCall::CopyFrom => {
            let piece = Piece::ref_from_bytes(asked).map_err(|_| broken())?;
            let identity = piece.identity().ok_or_else(broken)?;
            let mut out = vec![0; piece.nbytes().ok_or_else(broken)?];
            let copied = chip.memory().copy_from(identity, piece.offset(), &mut out);
            copied.map(|()| out).map_err(|error| failure(error.code(), &error))
        }
        MemoryCall::Permit => {
            let (identity, peers) = read_permission(asked).ok_or_else(broken)?;
            let permitted = chip.memory().permit(identity, &peers);
            permitted.map(|()| Vec::new()).map_err(|error| failure(error.code(), &error))
        }
    }
}

fn wanted(asked: &[u8]) -> Result<&Wanted, Failure> {
    Wanted::ref_from_bytes(asked).map_err(|_| broken())
}

/// Bytes, with where they go.
fn piece(asked: &[u8]) -> Result<(Identity, u64, &[u8]), Failure> {
    let (piece, bytes) = Piece::ref_from_prefix(asked).map_err(|_| broken())?;
    let identity = piece.identity().ok_or_else(broken)?;
    if piece.nbytes() == Some(bytes.len()) { Ok((identity, piece.offset(), bytes)) } else { Err(broken()) }
}

fn failure(code: Code, what: &dyn fmt::Display) -> Failure {
    Failure::new(code, None, what)
}

/// The request is none that a parent writes.
pub(super) fn broken() -> Failure {
    Failure::new(Code::MessageBroken, None, &"the request has another form than what it asks for")
}
