//! Local sockets under an abstract name: one message each way, with at most one file descriptor beside it, and who the peer is.
//!
//! An abstract name vanishes with its last socket, so a crash leaves nothing to sweep. Anyone can take one, which is why both
//! sides ask the kernel who the other one is; and it does not cross network namespaces.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use super::error::{OsError, retry};
use super::event::milliseconds_until;

/// Bytes that an abstract name can have, its leading NUL aside.
pub const NAME_CAPACITY: usize = 107;

/// File descriptors that one message is looked through for. A message of ours has at most one; the kernel closes what is past these.
const FDS: usize = 2;
/// Bytes of control data that [`FDS`] descriptors need, a multiple of the header's alignment.
const CONTROL: usize = 24;

/// Control data, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

const _: () = {
    let fds = size_of::<[RawFd; FDS]>();
    let needed = size_of::<libc::cmsghdr>();
    assert!(fds <= CONTROL && needed <= CONTROL - fds);
    assert!(align_of::<Control>() >= align_of::<libc::cmsghdr>());
};

/// Who is at the other end, by the kernel's word: for a server whoever connected, for a client whoever listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process, in this namespace; 0 when it cannot be seen from here.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
}

/// This process's user, as a peer sees it.
#[must_use]
pub fn current_user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

fn open(flags: i32) -> Result<OwnedFd, OsError> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | flags;
    // SAFETY: it takes numbers alone.
    let fd = retry("socket", || unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: the call just opened it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An abstract name as an address, for `call`: a leading NUL, and exactly its own bytes.
fn address(name: &[u8], call: &'static str) -> Result<(libc::sockaddr_un, u32), OsError> {
    let too_long = OsError { call, errno: libc::ENAMETOOLONG };
    // SAFETY: all zero bits are a legal address.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    address.sun_family = u16::try_from(libc::AF_UNIX).map_err(|_| too_long)?;
    let place = address.sun_path.get_mut(1..).and_then(|path| path.get_mut(..name.len())).ok_or(too_long)?;
    // A character of C is signed on some machines and not on others.
    place.iter_mut().zip(name).for_each(|(slot, &byte)| *slot = libc::c_char::from_le_bytes([byte]));
    let length = size_of::<libc::sa_family_t>().saturating_add(1).saturating_add(name.len());
    Ok((address, u32::try_from(length).map_err(|_| too_long)?))
}

/// Listens under an abstract name. Accepting never waits.
///
/// # Errors
/// [`OsError`]: EADDRINUSE when somebody has that name, EMFILE, ENFILE, ENAMETOOLONG.
pub fn listen(name: &[u8], backlog: i32) -> Result<OwnedFd, OsError> {
    let (address, length) = address(name, "bind")?;
    let socket = open(libc::SOCK_NONBLOCK)?;
    // SAFETY: `address` is readable for `length` bytes, which is less than its size.
    retry("bind", || unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    // SAFETY: it takes numbers alone.
    retry("listen", || unsafe { libc::listen(socket.as_raw_fd(), backlog) })?;
    Ok(socket)
}

/// The next connection, or `None` when nobody waits. Nothing on it ever waits.
///
/// # Errors
/// [`OsError`]: EMFILE, ENFILE, ENOMEM; the connection still waits then.
pub fn accept(listener: BorrowedFd<'_>) -> Result<Option<OwnedFd>, OsError> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let none = core::ptr::null_mut();
    loop {
        // SAFETY: no address is asked for.
        match retry("accept4", || unsafe {
            libc::accept4(listener.as_raw_fd(), none, core::ptr::null_mut(), flags)
        }) {
            // SAFETY: the call just opened it, and nobody else knows it.
            Ok(fd) => return Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
            Err(OsError { errno: libc::EAGAIN, .. }) => return Ok(None),
            // It went away before it was accepted.
            Err(OsError { errno: libc::ECONNABORTED, .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Connects to whoever listens under an abstract name.
///
/// # Errors
/// [`OsError`]: ECONNREFUSED when nobody listens, ETIMEDOUT when the queue stays full, EMFILE, ENFILE.
pub fn connect(name: &[u8], until: Instant) -> Result<OwnedFd, OsError> {
    let call = "connect";
    let (address, length) = address(name, call)?;
    let socket = open(0)?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(OsError { call, errno: libc::ETIMEDOUT });
        }
        // A full queue makes it wait as long as a send may; a signal starts that time again, so it is set again.
        limit_sends(&socket, left)?;
        // SAFETY: `address` is readable for `length` bytes, which is less than its size.
        let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
        if result == 0 {
            return Ok(socket);
        }
        match OsError::last(call) {
            OsError { errno: libc::EINTR | libc::EAGAIN, .. } => {}
            error => return Err(error),
        }
    }
}

/// How long a send on a socket, or connecting it, may take: at least a microsecond, since 0 would be for ever.
fn limit_sends(socket: &OwnedFd, limit: Duration) -> Result<(), OsError> {
    let limit = limit.max(Duration::from_micros(1));
    let time = libc::timeval {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_usec: i64::from(limit.subsec_micros()),
    };
    let length = u32::try_from(size_of::<libc::timeval>()).unwrap_or(0);
    // SAFETY: `time` is readable for `length` bytes.
    retry("setsockopt", || unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDTIMEO,
            (&raw const time).cast(),
            length,
        )
    })?;
    Ok(())
}

/// Who is at the other end.
///
/// # Errors
/// [`OsError`].
pub fn peer(socket: BorrowedFd<'_>) -> Result<Peer, OsError> {
    let mut found = MaybeUninit::<libc::ucred>::zeroed();
    let mut length = u32::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    // SAFETY: `found` is writable for `length` bytes.
    retry("getsockopt", || unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            found.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    // SAFETY: all zero bits are an answer too.
    let found = unsafe { found.assume_init() };
    Ok(Peer { pid: found.pid, uid: found.uid })
}

/// Sends one message, with a descriptor beside it if one is given, and never waits.
///
/// # Errors
/// [`OsError`]: EPIPE and ECONNRESET when nobody is at the other end, EAGAIN when it does not read.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> Result<(), OsError> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL]);
    // SAFETY: all zero bits are a legal message: no address, no parts, no control data.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Some(fd) = fd {
        let width = u32::try_from(size_of::<RawFd>()).unwrap_or(4);
        message.msg_control = (&raw mut control).cast();
        // SAFETY: it only adds numbers up.
        let space = unsafe { libc::CMSG_SPACE(width) };
        message.msg_controllen = usize::try_from(space).unwrap_or(0).min(CONTROL);
        // SAFETY: the message has control data of at least one header.
        let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        // SAFETY: it only adds numbers up.
        let length = unsafe { libc::CMSG_LEN(width) };
        let length = usize::try_from(length).unwrap_or(0);
        let value =
            libc::cmsghdr { cmsg_len: length, cmsg_level: libc::SOL_SOCKET, cmsg_type: libc::SCM_RIGHTS };
        // SAFETY: the header lies within `control`, which is aligned for it.
        unsafe { header.write(value) };
        // SAFETY: as above.
        let data = unsafe { libc::CMSG_DATA(header) };
        // SAFETY: the data of one descriptor lie within `control`, behind the header.
        unsafe { data.cast::<RawFd>().write_unaligned(fd.as_raw_fd()) };
    }
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the message's parts outlive the call, which writes none of them.
    retry("sendmsg", || unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) })?;
    Ok(())
}

/// One message that came.
#[derive(Debug)]
pub struct Received {
    /// Its bytes; 0 when the other end is closed.
    pub length: usize,
    /// It had more bytes than there was room for, and they are lost.
    pub is_cut: bool,
    /// The descriptor beside it.
    pub fd: Option<OwnedFd>,
    /// More descriptors were beside it, and are closed.
    pub has_more_fds: bool,
}

/// Takes one message, and never waits: `None` when none has come. All descriptors beside it are closed on exec.
///
/// # Errors
/// [`OsError`]: ECONNRESET; EMFILE when a descriptor came and this process can have no more.
pub fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> Result<Option<Received>, OsError> {
    let call = "recvmsg";
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut control = Control([0; CONTROL]);
    // SAFETY: all zero bits are a legal message.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = CONTROL;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the message's parts are writable and outlive the call.
    let length = match retry(call, || unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) }) {
        Ok(length) => usize::try_from(length).unwrap_or(0),
        Err(OsError { errno: libc::EAGAIN, .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let (fd, more) = received_fds(&message);
    let control_is_cut = message.msg_flags & libc::MSG_CTRUNC != 0;
    if fd.is_none() && control_is_cut {
        // There was room for two, so what the kernel could not do is give this process another descriptor.
        return Err(OsError { call, errno: libc::EMFILE });
    }
    let is_cut = message.msg_flags & libc::MSG_TRUNC != 0;
    Ok(Some(Received { length, is_cut, fd, has_more_fds: more || control_is_cut }))
}

/// The first descriptor beside a message, and whether there was another one, which is closed here.
fn received_fds(message: &libc::msghdr) -> (Option<OwnedFd>, bool) {
    // SAFETY: the kernel has written the control data that the message points at, and their length.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    if header.is_null() {
        return (None, false);
    }
    // SAFETY: a header that is there lies within the control data, which are aligned for it.
    let found = unsafe { header.read() };
    if found.cmsg_level != libc::SOL_SOCKET || found.cmsg_type != libc::SCM_RIGHTS {
        return (None, false);
    }
    // SAFETY: as above.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: it only adds numbers up.
    let before = usize::try_from(unsafe { libc::CMSG_LEN(0) }).unwrap_or(usize::MAX);
    let count = found.cmsg_len.saturating_sub(before).checked_div(size_of::<RawFd>()).unwrap_or(0);
    let take = |index: usize| {
        if index >= count.min(FDS) {
            return None;
        }
        // SAFETY: at most `FDS` descriptors lie behind the header, within the control data.
        let place = unsafe { data.cast::<RawFd>().add(index) };
        // SAFETY: as above; their alignment is not known.
        let fd = unsafe { place.read_unaligned() };
        // SAFETY: the kernel just opened it for this process, and nobody else knows it.
        Some(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    let (first, second) = (take(0), take(1));
    (first, second.is_some())
}

/// What [`wait`] waited for came, or the time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The socket has something to read, or its other end is closed.
    pub socket: bool,
    /// The process has ended.
    pub process: bool,
}

/// Waits until a socket can be read or a process, given by its descriptor, has ended; neither is ready when the time is up.
///
/// # Errors
/// [`OsError`].
pub fn wait(
    socket: BorrowedFd<'_>,
    process: Option<BorrowedFd<'_>>,
    until: Instant,
) -> Result<Ready, OsError> {
    // The kernel passes over a negative descriptor.
    let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut fds = [wanted(socket.as_raw_fd()), wanted(process.map_or(-1, |process| process.as_raw_fd()))];
    // SAFETY: `fds` is writable and has two elements. The time left is worked out anew for each attempt.
    retry("poll", || unsafe { libc::poll(fds.as_mut_ptr(), 2, milliseconds_until(Some(until))) })?;
    let [socket, process] = fds;
    Ok(Ready { socket: socket.revents != 0, process: process.revents != 0 })
}
