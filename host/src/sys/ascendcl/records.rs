//! The structures that the Ascend driver's functions read, laid out as its interface says.

use core::mem::{offset_of, size_of};

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct MemLocation {
    /// The device's number.
    pub id: u32,
    /// Host 0, device 1.
    pub kind: i32,
}

impl MemLocation {
    const DEVICE: i32 = 1;

    /// On that device.
    #[must_use]
    pub const fn device(id: u32) -> Self {
        Self { id, kind: Self::DEVICE }
    }
}

/// What physical memory is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PhysicalProperties {
    handle_type: i32,
    allocation_type: i32,
    memory_attribute: i32,
    location: MemLocation,
    padding: [u8; 4],
    reserve: u64,
}

/// What may be done with mapped memory, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct AccessDescription {
    flags: i32,
    location: MemLocation,
    reserved: [u8; 12],
}

const _: () = {
    assert!(size_of::<MemLocation>() == 8 && offset_of!(MemLocation, kind) == 4);
    assert!(size_of::<PhysicalProperties>() == 32 && align_of::<PhysicalProperties>() == 8);
    assert!(offset_of!(PhysicalProperties, handle_type) == 0);
    assert!(offset_of!(PhysicalProperties, allocation_type) == 4);
    assert!(offset_of!(PhysicalProperties, memory_attribute) == 8);
    assert!(offset_of!(PhysicalProperties, location) == 12);
    assert!(offset_of!(PhysicalProperties, reserve) == 24);
    assert!(size_of::<AccessDescription>() == 24 && align_of::<AccessDescription>() == 4);
    assert!(offset_of!(AccessDescription, flags) == 0);
    assert!(offset_of!(AccessDescription, location) == 4);
    assert!(offset_of!(AccessDescription, reserved) == 12);
};

/// Which pages physical memory is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryAttribute {
    /// Huge ones.
    #[default]
    HbmHuge,
    /// Ordinary ones.
    HbmNormal,
    /// Ones of 1 GiB.
    HbmHuge1Gib,
}

impl MemoryAttribute {
    const fn number(self) -> i32 {
        match self {
            Self::HbmHuge => 4,
            Self::HbmNormal => 5,
            Self::HbmHuge1Gib => 10,
        }
    }
}

impl PhysicalProperties {
    /// Memory on the device with that logical number.
    #[must_use]
    pub const fn new(device: i32, attribute: MemoryAttribute) -> Self {
        Self {
            handle_type: 0,
            allocation_type: 0,
            memory_attribute: attribute.number(),
            location: MemLocation::device(device.cast_unsigned()),
            padding: [0; 4],
            reserve: 0,
        }
    }
}

impl AccessDescription {
    /// Loads and stores from the device with that driver-visible number.
    #[must_use]
    pub const fn read_write(visible_device: u32) -> Self {
        Self { flags: 3, location: MemLocation::device(visible_device), reserved: [0; 12] }
    }
}
