//! Why sharing device memory failed: six refusals that stay apart, and what a driver or the operating system said, word for word.

use core::fmt;
use core::num::NonZeroU64;

use bufabi_core::wire::backend::BackendKind;
use bufabi_core::wire::descriptor::FieldSet;
use bufabi_core::{Access, Code, Identity, OwnerInstanceId};

use super::memfd::REPLY_SIZE;
use crate::sys::OsError;
use crate::sys::ascendcl::{AclError, AscendCl, LoadError};

/// Why an operation on shared device memory failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmmError {
    /// The owner's process, or the broker in it, is gone.
    OwnerGone {
        /// Who it was.
        owner: OwnerInstanceId,
    },
    /// The owner's process has no file descriptor left to answer with.
    OwnerExhausted {
        /// Who it is.
        owner: OwnerInstanceId,
    },
    /// The owner exports nothing under that handle, or no longer.
    HandleUnknown {
        /// The handle.
        handle: NonZeroU64,
    },
    /// The owner does not let this process import it.
    NotPermitted {
        /// The handle.
        handle: NonZeroU64,
    },
    /// A process that was to be permitted has ended.
    PeerEnded {
        /// Its number.
        pid: i32,
    },
    /// It is the importer's own: its own mapping is the one to use.
    OwnHandle {
        /// The allocation.
        identity: Identity,
    },
    /// What the owner exports is not what the descriptor claims.
    Mismatch {
        /// Where they differ first.
        field: Claim,
        /// What the descriptor claims.
        claimed: u64,
        /// What the owner has.
        found: u64,
    },
    /// The driver does not support it here.
    NotSupported {
        /// The driver's call.
        call: &'static str,
    },
    /// A call of the driver failed. Its numbers are lossy, so nothing is concluded from them.
    Driver(AclError),
    /// A driver answers with a granularity of 0.
    GranularityZero,
    /// The driver's library cannot be loaded.
    LibraryMissing {
        /// The names that were tried.
        library: &'static str,
    },
    /// The driver's library lacks a function.
    SymbolMissing {
        /// The function.
        symbol: &'static str,
    },
    /// The driver gave handle 0, which the wire forbids, for that many allocations in turn.
    HandleZero {
        /// Allocations that were tried.
        attempts: u32,
    },
    /// A call of the operating system failed.
    Os(OsError),
    /// The machine has no such memory.
    NoMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes that it could give.
        available: u64,
    },
    /// No bytes at all.
    NbytesZero,
    /// More bytes than an address space can hold.
    NbytesTooLarge {
        /// Bytes asked for.
        nbytes: u64,
    },
    /// The bytes to map are no multiple of the driver's granularity.
    NotGranular {
        /// Bytes to map.
        mapping_bytes: u64,
        /// What they should be a multiple of.
        granularity: NonZeroU64,
    },
    /// The descriptor names another backend than VMM_SHAREABLE.
    NotShareable {
        /// The backend.
        backend_kind: BackendKind,
    },
    /// No such device can be: its number is negative.
    DeviceUnknown {
        /// The number.
        device_id: i32,
    },
    /// The owner did not answer in time.
    TimedOut {
        /// Who it is.
        owner: OwnerInstanceId,
        /// How long it was waited for.
        milliseconds: u64,
    },
    /// Somebody else serves the owner's address.
    BrokerForeign {
        /// The user that should.
        expected: u32,
        /// The user that does.
        found: u32,
    },
    /// The broker's answer keeps to no form.
    ReplyBroken(ReplyFault),
    /// The broker consents but sent no file descriptor.
    FileMissing,
    /// The broker's file could shrink under a mapping, or is no memory.
    NotSealed,
    /// As many handles are exported as the driver keeps.
    ExportsFull {
        /// How many.
        capacity: u32,
    },
    /// The memory is exported already.
    ExportedAlready,
    /// The owner does not grant that.
    Denied {
        /// What it grants.
        granted: Access,
        /// What was asked for.
        requested: Access,
    },
    /// The range does not lie within the memory.
    OutOfRange {
        /// Its first byte.
        offset: u64,
        /// Its length, bytes.
        length: u64,
        /// Bytes of the memory.
        nbytes: u64,
    },
    /// An identity that is imported came again, with another descriptor.
    DescriptorDiffers {
        /// Where they differ.
        fields: FieldSet,
    },
    /// Calls in an order that drivers forbid.
    Order(OrderFault),
    /// This is a fork of the process that may do that.
    Forked {
        /// The process that may.
        creator: u32,
        /// This process.
        current: u32,
    },
}

/// What a descriptor claims about an export, in the order in which it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The handle.
    Handle,
    /// The owner, its eight bytes as a little-endian number.
    Owner,
    /// The owner's number for the allocation.
    BufferId,
    /// How often that number has been given out.
    Generation,
    /// The exporter's device.
    DeviceId,
    /// Bytes to map.
    MappingBytes,
    /// What the owner grants, as its wire number.
    Access,
    /// Bytes of the memory itself, which must be at least those to map.
    MemoryBytes,
}

impl Claim {
    /// What it is about.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Handle => "shareable_handle",
            Self::Owner => "owner_instance_id",
            Self::BufferId => "buffer_id",
            Self::Generation => "generation",
            Self::DeviceId => "device_id",
            Self::MappingBytes => "mapping_bytes",
            Self::Access => "access",
            Self::MemoryBytes => "size of the memory",
        }
    }

    /// A value of it, as other messages show such a value.
    fn shown(self, value: u64) -> impl fmt::Display {
        fmt::from_fn(move |f| match self {
            Self::Handle => write!(f, "{value:#x}"),
            Self::Owner => write!(f, "{}", OwnerInstanceId(value.to_le_bytes())),
            Self::Access => match u8::try_from(value).ok().and_then(Access::from_wire) {
                Some(access) => write!(f, "{access}"),
                None => write!(f, "{value}"),
            },
            Self::BufferId | Self::Generation | Self::DeviceId | Self::MappingBytes | Self::MemoryBytes => {
                write!(f, "{value}")
            }
        })
    }
}

/// What is wrong with an answer's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFault {
    /// The connection was closed, twice, with no answer.
    Closed,
    /// Another number of bytes than an answer has.
    Length {
        /// Bytes that came, or as many as there was room for.
        found: usize,
    },
    /// It does not begin as an answer does.
    Magic,
    /// A status that does not exist.
    Status {
        /// The number.
        found: u32,
    },
    /// The broker says that the request keeps to no form, which it does.
    CallsRequestBroken,
    /// An identity of generation 0, or a right that does not exist.
    Field,
    /// More than one file descriptor, or one with a refusal.
    TooManyFiles,
}

impl fmt::Display for ReplyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed with no answer"),
            Self::Length { found } => write!(f, "an answer has {REPLY_SIZE} bytes, found {found}"),
            Self::Magic => f.write_str("it does not begin as an answer does"),
            Self::Status { found } => write!(f, "no answer has the status {found}"),
            Self::CallsRequestBroken => f.write_str("it calls the request broken"),
            Self::Field => f.write_str("a field has a value that does not exist"),
            Self::TooManyFiles => f.write_str("it came with more file descriptors than it should"),
        }
    }
}

/// What was done out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderFault {
    /// Addresses were to be released where something is mapped.
    ReleasedWhileMapped,
    /// Something was to be mapped where something is.
    MappedAlready,
    /// Memory was used, or unmapped, that is not mapped.
    NotMapped,
    /// A peer was to be permitted where no whitelist is kept.
    NoWhitelist,
    /// The allocation has been revoked or released.
    Revoked,
}

impl OrderFault {
    /// It in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReleasedWhileMapped => "addresses cannot be released while memory is mapped there",
            Self::MappedAlready => "memory is mapped there already",
            Self::NotMapped => "no memory is mapped there",
            Self::NoWhitelist => "the handle was exported without a whitelist",
            Self::Revoked => "the handle has been revoked",
        }
    }
}

impl VmmError {
    /// The frozen number, name and fault.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::OwnerGone { .. } => Code::VmmOwnerGone,
            Self::OwnerExhausted { .. } => Code::NoFileDescriptor,
            Self::HandleUnknown { .. } => Code::VmmHandleUnknown,
            Self::PeerEnded { .. } => Code::PeerEnded,
            Self::NotPermitted { .. } => Code::VmmNotPermitted,
            Self::OwnHandle { .. } => Code::VmmOwnHandle,
            Self::Mismatch { .. } | Self::NotGranular { .. } => Code::VmmMismatch,
            Self::NotSupported { .. } => Code::VmmNotSupported,
            Self::Driver(_) | Self::GranularityZero => Code::VmmDriverCall,
            Self::LibraryMissing { .. } => Code::VmmLibraryMissing,
            Self::SymbolMissing { .. } => Code::VmmSymbolMissing,
            Self::HandleZero { .. } => Code::VmmHandleZero,
            Self::Os(error) => error.code(),
            Self::NoMemory { .. } => Code::NoSpace,
            Self::NbytesZero => Code::NbytesZero,
            Self::NbytesTooLarge { .. } => Code::NbytesTooLarge,
            Self::NotShareable { .. } => Code::VmmNotShareable,
            Self::DeviceUnknown { .. } => Code::VmmDeviceUnknown,
            Self::TimedOut { .. } => Code::TimedOut,
            Self::BrokerForeign { .. } => Code::VmmBrokerForeign,
            // It ended, or had to make room: nobody said anything wrong.
            Self::ReplyBroken(ReplyFault::Closed) => Code::VmmOwnerGone,
            Self::ReplyBroken(_) => Code::VmmReplyBroken,
            Self::FileMissing => Code::VmmFileMissing,
            Self::NotSealed => Code::VmmNotSealed,
            Self::ExportsFull { .. } => Code::VmmExportsFull,
            Self::ExportedAlready => Code::VmmExportedAlready,
            Self::Denied { .. } => Code::VmmDenied,
            Self::OutOfRange { .. } => Code::VmmOutOfRange,
            Self::DescriptorDiffers { .. } => Code::VmmDescriptorDiffers,
            Self::Order(_) => Code::VmmOrder,
            Self::Forked { .. } => Code::Forked,
        }
    }
}

impl From<OsError> for VmmError {
    fn from(error: OsError) -> Self {
        Self::Os(error)
    }
}

impl From<LoadError> for VmmError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::LibraryMissing => Self::LibraryMissing { library: AscendCl::NAMES },
            LoadError::SymbolMissing(symbol) => Self::SymbolMissing { symbol },
            LoadError::Acl(error) => error.into(),
        }
    }
}

impl From<AclError> for VmmError {
    fn from(error: AclError) -> Self {
        match error {
            AclError { call, number: AclError::NOT_SUPPORTED } => Self::NotSupported { call },
            other => Self::Driver(other),
        }
    }
}

impl fmt::Display for VmmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OwnerGone { owner } => write!(f, "the owner {owner}, or its broker, is gone"),
            Self::PeerEnded { pid } => write!(f, "process {pid}, which was to be permitted, has ended"),
            Self::OwnerExhausted { owner } => {
                write!(f, "the process of the owner {owner} has no file descriptor left")
            }
            Self::HandleUnknown { handle } => {
                write!(f, "handle {handle:#x} was revoked, or never was")
            }
            Self::NotPermitted { handle } => {
                write!(f, "the owner does not permit this process to import handle {handle:#x}")
            }
            Self::OwnHandle { identity } => {
                write!(f, "{identity} is this endpoint's own: it is not imported, its own mapping is used")
            }
            Self::Mismatch { field, claimed, found } => {
                let (name, claimed, found) = (field.name(), field.shown(claimed), field.shown(found));
                write!(f, "{name}: the descriptor claims {claimed}, but the owner has {found}")
            }
            Self::NotSupported { call } => write!(f, "{call}: the driver does not support it here"),
            Self::Driver(error) => error.fmt(f),
            Self::GranularityZero => f.write_str("the driver says that its granularity is 0"),
            Self::LibraryMissing { library } => write!(f, "no driver: {library} cannot be loaded"),
            Self::SymbolMissing { symbol } => write!(f, "the driver's library has no {symbol}"),
            Self::HandleZero { attempts } => {
                write!(f, "the driver gave handle 0, which must not travel, {attempts} times")
            }
            Self::Os(error) => error.fmt(f),
            Self::NoMemory { requested, available } => {
                write!(f, "{requested} bytes of memory were asked for, and about {available} are left")
            }
            Self::NbytesZero => f.write_str("memory has at least one byte, but 0 were asked for"),
            Self::NbytesTooLarge { nbytes } => write!(f, "{nbytes} bytes are more than can be mapped"),
            Self::NotGranular { mapping_bytes, granularity } => {
                write!(f, "{mapping_bytes} bytes to map are no multiple of {granularity}")
            }
            Self::NotShareable { backend_kind } => {
                write!(f, "a backing of VMM_SHAREABLE is imported, but this one is {backend_kind}")
            }
            Self::DeviceUnknown { device_id } => write!(f, "no device has the number {device_id}"),
            Self::TimedOut { owner, milliseconds } => {
                write!(f, "the owner {owner} did not answer within {milliseconds} ms")
            }
            Self::BrokerForeign { expected, found } => {
                write!(f, "user {found} serves the owner's address, not user {expected}")
            }
            Self::ReplyBroken(fault) => write!(f, "the broker's answer is broken: {fault}"),
            Self::FileMissing => f.write_str("the broker consents, but sent no file descriptor"),
            Self::NotSealed => {
                f.write_str("the broker's file is not memory that is sealed against shrinking")
            }
            Self::ExportsFull { capacity } => {
                write!(f, "{capacity} handles are exported, and no more can be")
            }
            Self::ExportedAlready => f.write_str("the memory is exported already"),
            Self::Denied { granted, requested } => {
                write!(f, "{requested} was asked for, but the owner grants {granted}")
            }
            Self::OutOfRange { offset, length, nbytes } => {
                write!(f, "{length} bytes from {offset} on do not lie within {nbytes} bytes")
            }
            Self::DescriptorDiffers { fields } => {
                write!(f, "the identity is imported under a descriptor that differs in {fields}")
            }
            Self::Order(fault) => f.write_str(fault.name()),
            Self::Forked { creator, current } => {
                write!(f, "only process {creator} may do that, and this is its fork {current}")
            }
        }
    }
}

impl std::error::Error for VmmError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told_as_it_is_told_elsewhere() {
        let told = |field, claimed, found| VmmError::Mismatch { field, claimed, found }.to_string();
        let owner = |byte| u64::from_le_bytes([byte; 8]);
        for (message, expected) in [
            (
                told(Claim::Handle, 0x1_0000_0002, 3),
                "shareable_handle: the descriptor claims 0x100000002, but the owner has 0x3",
            ),
            (
                told(Claim::Owner, owner(0xab), owner(1)),
                "owner_instance_id: the descriptor claims abababababababab, but the owner has 0101010101010101",
            ),
            (told(Claim::Access, 2, 0), "access: the descriptor claims READWRITE, but the owner has READ"),
            (told(Claim::Generation, 2, 3), "generation: the descriptor claims 2, but the owner has 3"),
        ] {
            assert_eq!(message, expected);
        }
        let short = VmmError::ReplyBroken(ReplyFault::Length { found: 71 });
        assert_eq!(short.to_string(), "the broker's answer is broken: an answer has 72 bytes, found 71");
    }
}
