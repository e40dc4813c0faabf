//! The two descriptors by which a process attaches to a region, and how one knows that they belong together.

use core::fmt;

use crate::code::Code;
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
    /// Checks that two descriptors are PAYLOAD and COUNTER of one region: the same owner, and COUNTER's `buffer_id` is one
    /// more than PAYLOAD's, which is not 0.
    ///
    /// # Errors
    /// The first of these that does not hold.
    pub fn check<H: Holds<RawDescriptor>>(
        payload: &Descriptor<H>,
        counter: &Descriptor<H>,
    ) -> Result<Self, PartsError> {
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
}

impl PartsError {
    /// The frozen number, name and fault.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::IdZero => Code::RegionId,
            Self::Owner { .. } | Self::NotConsecutive { .. } => Code::RegionParts,
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
        }
    }
}

impl core::error::Error for PartsError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::Access;
    use crate::wire::body::{Body, ShmName};
    use crate::wire::descriptor::DescriptorFields;
    use crate::wire::identity::OwnerInstanceId;
    use core::num::NonZeroU32;

    fn part(owner: u8, buffer_id: u64) -> Descriptor {
        Descriptor::new(&DescriptorFields {
            identity: Identity::new(OwnerInstanceId([owner; 8]), buffer_id, NonZeroU32::MIN),
            access: Access::ReadWrite,
            nbytes: 64,
            owner_worker_path_id: 0,
            body: Body::PosixShm { name: ShmName::new("part").unwrap() },
        })
        .unwrap()
    }

    #[test]
    fn parts_of_one_step_are_a_region() {
        let parts = RegionParts::check(&part(1, 7), &part(1, 8)).unwrap();
        assert_eq!((parts.region_id(), parts.payload().buffer_id(), parts.counter().buffer_id()), (7, 7, 8));
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
}
