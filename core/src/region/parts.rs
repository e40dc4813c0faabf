//! The two descriptors by which a process attaches to a region, and how one knows that they belong together.

use core::fmt;

use crate::code::Code;
use crate::wire::backend::BackendKind;
use crate::wire::body::Body;
use crate::wire::descriptor::{Descriptor, RawDescriptor};
use crate::wire::identity::Identity;
use crate::wire::record::Holds;

/// The identities of a region's two parts. Holding one proves that its owner's allocator gave them out in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionParts {
    payload: Identity,
    counter: Identity,
}

impl RegionParts {
    /// Checks that two descriptors are PAYLOAD and COUNTER of one region: the same owner, COUNTER's `buffer_id` is one more than
    /// PAYLOAD's, which is not 0, and both are what a provider makes: `VMM_SHAREABLE` of one device, or `POSIX_SHM` of a host.
    ///
    /// # Errors
    /// The first of these that does not hold.
    pub fn check<H: Holds<RawDescriptor>>(
        payload: &Descriptor<H>,
        counter: &Descriptor<H>,
    ) -> Result<Self, PartsError> {
        let backings = (payload.body(), counter.body());
        let (payload, counter) = (payload.identity(), counter.identity());
        if payload.owner_instance_id() != counter.owner_instance_id() {
            return Err(PartsError::Owner { payload, counter });
        }
        if payload.buffer_id() == 0 {
            return Err(PartsError::IdZero);
        }
        if payload.buffer_id().checked_add(1) != Some(counter.buffer_id()) {
            return Err(PartsError::NotConsecutive { payload, counter });
        }
        match backings {
            (Body::PosixShm { .. }, Body::PosixShm { .. }) => {}
            (
                Body::VmmShareable { device_id: payload, .. },
                Body::VmmShareable { device_id: counter, .. },
            ) => {
                if payload != counter {
                    return Err(PartsError::Devices { payload, counter });
                }
            }
            (payload, counter) => {
                let (payload, counter) = (payload.backend_kind(), counter.backend_kind());
                return Err(PartsError::Kinds { payload, counter });
            }
        }
        Ok(Self { payload, counter })
    }

    /// The region's number: PAYLOAD's `buffer_id`, never 0.
    #[must_use]
    pub const fn region_id(self) -> u64 {
        self.payload.buffer_id()
    }

    /// The identity of PAYLOAD.
    #[must_use]
    pub const fn payload(self) -> Identity {
        self.payload
    }

    /// The identity of COUNTER.
    #[must_use]
    pub const fn counter(self) -> Identity {
        self.counter
    }
}

/// Why two descriptors are no region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartsError {
    /// Two owners.
    Owner {
        /// PAYLOAD's identity.
        payload: Identity,
        /// COUNTER's identity.
        counter: Identity,
    },
    /// PAYLOAD's `buffer_id` is 0, which no region may have.
    IdZero,
    /// COUNTER's `buffer_id` is not one more than PAYLOAD's.
    NotConsecutive {
        /// PAYLOAD's identity.
        payload: Identity,
        /// COUNTER's identity.
        counter: Identity,
    },
    /// Backings of two kinds, or of one that no region is made of.
    Kinds {
        /// What PAYLOAD is made of.
        payload: BackendKind,
        /// What COUNTER is made of.
        counter: BackendKind,
    },
    /// Memory of two devices.
    Devices {
        /// PAYLOAD's device.
        payload: i32,
        /// COUNTER's device.
        counter: i32,
    },
}

impl PartsError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::IdZero => Code::RegionId,
            Self::Owner { .. } | Self::NotConsecutive { .. } | Self::Kinds { .. } | Self::Devices { .. } => {
                Code::RegionParts
            }
        }
    }
}

impl fmt::Display for PartsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner { payload, counter } => {
                write!(f, "payload {payload} and counter {counter} have different owners")
            }
            Self::IdZero => f.write_str("a region's payload has a buffer id other than 0"),
            Self::NotConsecutive { payload, counter } => {
                write!(f, "the counter of payload {payload} has the next buffer id, found {counter}")
            }
            Self::Kinds { payload, counter } => write!(
                f,
                "both parts of a region are {}, or both {}, found {payload} and {counter}",
                BackendKind::PosixShm,
                BackendKind::VmmShareable
            ),
            Self::Devices { payload, counter } => {
                write!(f, "both parts of a region are of one device, found devices {payload} and {counter}")
            }
        }
    }
}

impl core::error::Error for PartsError {}

#[cfg(test)]
mod tests {
    use core::num::{NonZeroU32, NonZeroU64};

    use super::*;
    use crate::rights::Access;
    use crate::wire::backend::AddressSpace;
    use crate::wire::body::ShmName;
    use crate::wire::descriptor::DescriptorFields;
    use crate::wire::identity::OwnerInstanceId;

    fn part_of(owner: u8, buffer_id: u64, generation: u32, body: Body) -> Descriptor {
        Descriptor::new(&DescriptorFields {
            identity: Identity::new(
                OwnerInstanceId([owner; 8]),
                buffer_id,
                NonZeroU32::new(generation).unwrap(),
            ),
            access: Access::ReadWrite,
            nbytes: 64,
            owner_worker_path_id: 0,
            body,
        })
        .unwrap()
    }

    fn shm() -> Body {
        Body::PosixShm { name: ShmName::new("part").unwrap() }
    }

    fn part(owner: u8, buffer_id: u64) -> Descriptor {
        part_of(owner, buffer_id, 1, shm())
    }

    #[test]
    fn parts_of_one_step_are_a_region() {
        let parts = RegionParts::check(&part(1, 7), &part(1, 8)).unwrap();
        assert_eq!((parts.region_id(), parts.payload().buffer_id(), parts.counter().buffer_id()), (7, 7, 8));
        // Each number has generations of its own.
        let generations = RegionParts::check(&part_of(1, 7, 3, shm()), &part_of(1, 8, 9, shm())).unwrap();
        assert_eq!(generations.counter().generation().get(), 9);
        assert!(RegionParts::check(&part(1, u64::MAX - 1), &part(1, u64::MAX)).is_ok());
    }

    #[test]
    fn other_pairs_are_not() {
        for (payload, counter, code) in [
            (part(1, 7), part(2, 8), Code::RegionParts),
            (part(1, 0), part(1, 1), Code::RegionId),
            (part(1, 7), part(1, 7), Code::RegionParts),
            (part(1, 7), part(1, 9), Code::RegionParts),
            (part(1, 8), part(1, 7), Code::RegionParts),
            (part(1, u64::MAX), part(1, 0), Code::RegionParts),
        ] {
            assert_eq!(RegionParts::check(&payload, &counter).map_err(PartsError::code), Err(code));
        }
    }

    /// Of every kind with every kind, the two that a provider makes are a region, and of a device its own alone.
    #[test]
    fn both_parts_are_shared_memory_of_a_host_or_both_of_one_device() {
        let base = NonZeroU64::new(4096).unwrap();
        let vmm =
            |device_id| Body::VmmShareable { device_id, shareable_handle: base, mapping_bytes: 2 << 20 };
        let bodies = [
            Body::ForkShm { base },
            shm(),
            Body::VmmWindow { base },
            Body::RemoteSidecar { address_space: AddressSpace::Host },
            Body::DeviceMalloc { base },
            Body::ForkCow { base },
            vmm(3),
        ];
        for payload in bodies {
            for counter in bodies {
                let kinds = (payload.backend_kind(), counter.backend_kind());
                let checked = RegionParts::check(&readable(7, payload), &readable(8, counter));
                if let (BackendKind::PosixShm, BackendKind::PosixShm)
                | (BackendKind::VmmShareable, BackendKind::VmmShareable) = kinds
                {
                    assert!(checked.is_ok(), "{kinds:?}");
                } else {
                    let refused = PartsError::Kinds { payload: kinds.0, counter: kinds.1 };
                    assert_eq!(checked, Err(refused));
                }
            }
        }
        let checked = RegionParts::check(&part_of(1, 7, 1, vmm(3)), &part_of(1, 8, 1, vmm(4)));
        assert_eq!(checked, Err(PartsError::Devices { payload: 3, counter: 4 }));
    }

    /// A right that every kind may grant.
    fn readable(buffer_id: u64, body: Body) -> Descriptor {
        let mut fields = part(1, buffer_id).fields();
        (fields.access, fields.body) = (Access::Read, body);
        Descriptor::new(&fields).unwrap()
    }
}
