//! Device memory in software, that processes share by handle.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bufabi_core::{Code, Descriptor, RawDescriptor};
use zerocopy::{FromBytes, Immutable};

use super::boundary::{answer, noted};
use super::endpoint::{ENDPOINTS, EndpointHandle};
use super::handle::{Kind, Table};
use super::parameter::{Out, given, given_slice};
use super::status::Status;
use crate::vmm::memfd::{Broker, BrokerThread, MemfdOptions};
use crate::vmm::{Admission, MemfdDriver, Shareable, VmmDriver};

/// Processes that the owner permits.
pub const ADMISSION_LISTED: i32 = 0;
/// Any process that knows the handle.
pub const ADMISSION_ANYONE: i32 = 1;

/// The driver of one endpoint's device memory. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct VmmHandle {
    /// Nothing to be read into.
    pub token: u64,
}

/// A driver, and the thread that serves its importers.
#[derive(Debug)]
pub(super) struct Shared {
    driver: Arc<MemfdDriver>,
    broker: Mutex<Option<BrokerThread>>,
}

/// Drivers.
pub(super) static VMMS: Table<Shared> = Table::new(Kind::Vmm);

impl Shared {
    pub(super) const fn driver(&self) -> &Arc<MemfdDriver> {
        &self.driver
    }
}

/// One of `BUFABI_ADMISSION_...`.
pub(super) const fn admission(number: i32) -> Result<Admission, Code> {
    match number {
        ADMISSION_LISTED => Ok(Admission::Listed),
        ADMISSION_ANYONE => Ok(Admission::Anyone),
        _ => Err(Code::OptionUnknown),
    }
}

/// Makes the driver of an endpoint's device memory, of this machine's memory and as device number `device_id`. Its imports wait up to
/// so long for an owner; 0 stands for half a second.
///
/// # Safety
/// `vmm` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_vmm_create(
    endpoint: EndpointHandle,
    device_id: i32,
    patience_nanoseconds: u64,
    vmm: *mut VmmHandle,
) -> Status {
    answer("vmm_create", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(vmm) }?;
        if device_id < 0 {
            return Err(Code::VmmDeviceUnknown);
        }
        let owner = ENDPOINTS.get(endpoint.token)?.owner_instance_id();
        let mut options = MemfdOptions::default();
        if patience_nanoseconds != 0 {
            options.patience = Duration::from_nanos(patience_nanoseconds);
        }
        let driver = Arc::new(MemfdDriver::new(owner, device_id, options));
        out.set(VmmHandle { token: VMMS.insert(Shared { driver, broker: Mutex::new(None) })? });
        Ok(())
    })
}

/// Serves the importers of this endpoint's memory, from a thread of its own, until the driver is released. A process that has it is
/// not forked any more: workers are started first. A second call changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_vmm_serve(vmm: VmmHandle) -> Status {
    answer("vmm_serve", || {
        let shared = VMMS.get(vmm.token)?;
        let mut broker = shared.broker.lock().unwrap_or_else(PoisonError::into_inner);
        if broker.is_none() {
            let served = Broker::new(&shared.driver).and_then(Broker::spawn);
            *broker = Some(served.map_err(|error| noted(error.code(), &error))?);
        }
        Ok(())
    })
}

/// The number by which owners permit this process to import.
///
/// # Safety
/// `peer` points to an int32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_vmm_peer_number(vmm: VmmHandle, peer: *mut i32) -> Status {
    answer("vmm_peer_number", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(peer) }?;
        let number = VMMS.get(vmm.token)?.driver.peer_number();
        out.set(number.map_err(|error| noted(error.code(), &error))?);
        Ok(())
    })
}

/// Lets processes, by their `bufabi_vmm_peer_number`, import a buffer of this driver's endpoint. They must run already.
///
/// # Safety
/// `descriptor` points to a descriptor and `peers` to `peer_count` numbers that nobody writes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_vmm_permit(
    vmm: VmmHandle,
    descriptor: *const RawDescriptor,
    peers: *const i32,
    peer_count: usize,
) -> Status {
    answer("vmm_permit", || {
        // SAFETY: the caller's promise above.
        let descriptor = unsafe { given(descriptor) }?;
        // SAFETY: the caller's promise above.
        let peers = unsafe { given_slice(peers, peer_count) }?;
        let shared = VMMS.get(vmm.token)?;
        let descriptor = Descriptor::from_raw(descriptor).map_err(|error| noted(error.code(), &error))?;
        let shareable =
            Shareable::from_descriptor(&descriptor).map_err(|error| noted(error.code(), &error))?;
        if shareable.identity.owner_instance_id() != shared.driver.owner_instance_id() {
            return Err(Code::OtherOwner);
        }
        shared.driver.permit(shareable.handle, peers).map_err(|error| noted(error.code(), &error))
    })
}

/// Releases the driver, and ends its serving. Buffers of it stay, and so do mappings.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_vmm_release(vmm: VmmHandle) -> Status {
    answer("vmm_release", || VMMS.remove(vmm.token).map(drop))
}
