//! How an importer asks an owner's broker, and what it believes of the answer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use bufabi_core::OwnerInstanceId;
use zerocopy::IntoBytes;

use super::protocol::{RawReply, RawRequest, Refusal, address};
use super::{MemfdOptions, check_granular};
use crate::sys::event::deadline;
use crate::sys::memfd::{Seals, seals};
use crate::sys::process::Process;
use crate::sys::socket::{self, Received};
use crate::sys::{OsError, shm};
use crate::vmm::{Claim, ReplyFault, Shareable, VmmError};

/// The file of what a descriptor names, after everything that can be checked was: the user that serves, the answer field by
/// field, the file's seals, its size.
pub(super) fn import(shareable: &Shareable, options: &MemfdOptions) -> Result<OwnedFd, VmmError> {
    check_granular(shareable.mapping_bytes)?;
    let (reply, file) = ask(shareable, options)?;
    reply.check(shareable)?;
    // The seals first: what cannot shrink any more keeps the size that is seen afterwards.
    if !seals(file.as_fd())?.is_some_and(Seals::hold_shrink) {
        return Err(VmmError::NotSealed);
    }
    let (claimed, found) = (shareable.mapping_bytes, shm::status(file.as_fd())?.nbytes);
    if found < claimed {
        return Err(VmmError::Mismatch { field: Claim::MemoryBytes, claimed, found });
    }
    Ok(file)
}

/// How one exchange ended that brought no file.
enum Failure {
    /// The connection was closed with no answer: the owner ended, or its broker had to make room.
    Closed,
    Final(VmmError),
}

impl<E: Into<VmmError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Final(error.into())
    }
}

/// Asks, and asks once more if the connection was closed with no answer.
fn ask(shareable: &Shareable, options: &MemfdOptions) -> Result<(RawReply, OwnedFd), VmmError> {
    let until = deadline(options.patience);
    for _ in 0..2 {
        match exchange(shareable, options, until) {
            Ok(answer) => return Ok(answer),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Closed) => {}
        }
    }
    Err(VmmError::ReplyBroken(ReplyFault::Closed))
}

fn exchange(
    shareable: &Shareable,
    options: &MemfdOptions,
    until: Instant,
) -> Result<(RawReply, OwnedFd), Failure> {
    let owner = shareable.identity.owner_instance_id();
    let handle = shareable.handle;
    let milliseconds = u64::try_from(options.patience.as_millis()).unwrap_or(u64::MAX);
    let timed_out = VmmError::TimedOut { owner, milliseconds };
    let socket = socket::connect(&address(owner), until).map_err(|error| match error.errno {
        libc::ECONNREFUSED => VmmError::OwnerGone { owner },
        libc::ETIMEDOUT => timed_out,
        _ => VmmError::Os(error),
    })?;
    let server = socket::peer(socket.as_fd())?;
    if server.uid != options.owner_user {
        let (expected, found) = (options.owner_user, server.uid);
        return Err(VmmError::BrokerForeign { expected, found }.into());
    }
    let process = server_process(server.pid, owner)?;
    match socket::send(socket.as_fd(), RawRequest::new(handle).as_bytes(), None) {
        // A broker that turns everybody away may have answered before it was asked.
        Ok(()) | Err(OsError { errno: libc::EPIPE | libc::ECONNRESET, .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let received = wait_for_reply(socket.as_fd(), process.as_ref(), owner, until, timed_out)?;
    let (bytes, received) = received;
    if received.length == 0 {
        return Err(Failure::Closed);
    }
    let bytes = bytes.get(..received.length).unwrap_or_default();
    let reply = RawReply::decode(bytes).map_err(VmmError::ReplyBroken)?;
    let too_many = VmmError::ReplyBroken(ReplyFault::TooManyFiles);
    match (reply, received.fd) {
        _ if received.has_more_fds => Err(too_many.into()),
        (Ok(reply), Some(file)) => Ok((reply, file)),
        (Ok(_), None) => Err(VmmError::FileMissing.into()),
        (Err(_), Some(_)) => Err(too_many.into()),
        (Err(Refusal::HandleUnknown), None) => Err(VmmError::HandleUnknown { handle }.into()),
        (Err(Refusal::NotPermitted), None) => Err(VmmError::NotPermitted { handle }.into()),
        (Err(Refusal::RequestBroken), None) => {
            Err(VmmError::ReplyBroken(ReplyFault::CallsRequestBroken).into())
        }
        (Err(Refusal::NoFileDescriptor), None) => Err(VmmError::OwnerExhausted { owner }.into()),
    }
}

/// The process that listens, so that its end can be waited for as well: a name lives on in forks of it, which do not answer. `None`
/// when it cannot be seen from here.
fn server_process(pid: i32, owner: OwnerInstanceId) -> Result<Option<Process>, VmmError> {
    if pid <= 0 {
        return Ok(None);
    }
    match Process::open(pid) {
        Ok(process) => Ok(Some(process)),
        Err(OsError { errno: libc::ESRCH, .. }) => Err(VmmError::OwnerGone { owner }),
        Err(error @ OsError { errno: libc::EMFILE | libc::ENFILE | libc::ENOMEM, .. }) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// Room for an answer, and for one byte more, so that a longer one is seen to be longer.
type ReplyBytes = [u8; RawReply::SIZE + 1];

fn wait_for_reply(
    socket: BorrowedFd<'_>,
    process: Option<&Process>,
    owner: OwnerInstanceId,
    until: Instant,
    timed_out: VmmError,
) -> Result<(ReplyBytes, Received), Failure> {
    let mut bytes = [0; RawReply::SIZE + 1];
    loop {
        let ready = socket::wait(socket, process.map(AsFd::as_fd), until)?;
        match socket::receive(socket, &mut bytes) {
            Ok(Some(received)) => return Ok((bytes, received)),
            Ok(None) if ready.process => return Err(VmmError::OwnerGone { owner }.into()),
            Ok(None) if Instant::now() >= until => return Err(timed_out.into()),
            Ok(None) => {}
            // The broker closed before it had read the request. What it said before is still there.
            Err(OsError { errno: libc::ECONNRESET, .. }) => {
                let received = socket::receive(socket, &mut bytes);
                return received.ok().flatten().map(|received| (bytes, received)).ok_or(Failure::Closed);
            }
            Err(error) => return Err(error.into()),
        }
    }
}
