//! Which process a task died with: it may lie several workers away, so it travels as a reply.

use core::fmt;

use zerocopy::little_endian::{I32, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::mailbox::MAX_SAID;
use crate::sys::process::Ending;

/// A worker's process that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// The worker's path.
    pub worker: String,
    /// The number that its process had.
    pub pid: i32,
    /// How it ended.
    pub ending: Ending,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worker, pid, ending } = self;
        write!(f, "worker {worker} (process {pid}) {ending}")
    }
}

/// What comes before the path in a reply.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    pid: I32,
    kind: U32,
    value: I32,
}

/// The numbers of endings in a reply.
mod kind {
    pub(super) const EXITED: u32 = 0;
    pub(super) const KILLED: u32 = 1;
    pub(super) const UNKNOWN: u32 = 2;
}

impl Death {
    /// As a reply says it; the end of a path that is too long is cut off.
    pub(super) fn encode(&self) -> heapless::Vec<u8, MAX_SAID> {
        let (kind, value) = match self.ending {
            Ending::Exited { status } => (kind::EXITED, status),
            Ending::Killed { signal } => (kind::KILLED, signal),
            Ending::Unknown => (kind::UNKNOWN, 0),
        };
        let header = Header { pid: I32::new(self.pid), kind: U32::new(kind), value: I32::new(value) };
        let room = MAX_SAID.saturating_sub(size_of::<Header>());
        let path = self.worker.as_bytes();
        let path = path.get(..self.worker.floor_char_boundary(room)).unwrap_or(path);
        header.as_bytes().iter().chain(path).copied().collect()
    }

    /// What a reply says, if it makes sense.
    pub(super) fn decode(said: &[u8]) -> Option<Self> {
        let (header, path) = Header::read_from_prefix(said).ok()?;
        let value = header.value.get();
        let ending = match header.kind.get() {
            kind::EXITED => Ending::Exited { status: value },
            kind::KILLED => Ending::Killed { signal: value },
            kind::UNKNOWN => Ending::Unknown,
            _ => return None,
        };
        let worker = core::str::from_utf8(path).ok()?.to_owned();
        Some(Self { worker, pid: header.pid.get(), ending })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_travels_whole_and_a_long_path_is_cut_off_between_characters() {
        for ending in [Ending::Exited { status: -1 }, Ending::Killed { signal: 9 }, Ending::Unknown] {
            let death = Death { worker: "l3/chip1".to_owned(), pid: 77, ending };
            assert_eq!(Death::decode(&death.encode()), Some(death));
        }
        let death = Death { worker: "é".repeat(200), pid: 1, ending: Ending::Unknown };
        assert_eq!(Death::decode(&death.encode()).map(|death| death.worker), Some("é".repeat(122)));
        assert_eq!(Death::decode(&[0; 11]), None);
        assert_eq!(Death::decode(&[3; 12]), None);
        assert_eq!(Death::decode(&[[0; 12].as_slice(), &[0xff]].concat()), None);
    }
}
