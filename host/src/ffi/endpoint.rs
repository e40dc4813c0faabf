//! Endpoints of this process, and what unfinished tasks hold of them.

use bufabi_core::{RawTensor, Tensor};
use zerocopy::{FromBytes, Immutable};

use super::boundary::{answer, noted};
use super::handle::{Kind, Table};
use super::parameter::{Out, OutSlice, apart_from, given_slice, span_of_slice};
use super::record::tensor;
use super::status::Status;
use crate::owner::{DEFAULT_CAPACITY, Endpoint, Holds};

/// An endpoint incarnation: what it makes has its name. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct EndpointHandle {
    /// Nothing to be read into.
    pub token: u64,
}

/// What an unfinished task names of an endpoint, which cannot be released meanwhile. 0 is none.
#[derive(Clone, Copy, FromBytes, Immutable)]
#[repr(C)]
pub struct HoldHandle {
    /// Nothing to be read into.
    pub token: u64,
}

/// Endpoints.
pub(super) static ENDPOINTS: Table<Endpoint> = Table::new(Kind::Endpoint);
static HOLDS: Table<Holds> = Table::new(Kind::Hold);

/// Makes an endpoint incarnation of this process, after any fork, with a random name. It has up to `capacity` buffers alive at once; 0
/// stands for 65,536.
///
/// # Safety
/// `endpoint` points to a handle that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_endpoint_create(capacity: u32, endpoint: *mut EndpointHandle) -> Status {
    answer("endpoint_create", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(endpoint) }?;
        let capacity = if capacity == 0 { DEFAULT_CAPACITY } else { usize::try_from(capacity).unwrap_or(0) };
        let endpoint = Endpoint::with_capacity(capacity).map_err(|error| noted(error.code(), &error))?;
        out.set(EndpointHandle { token: ENDPOINTS.insert(endpoint)? });
        Ok(())
    })
}

/// Its name, the first part of every identity that it gives out.
///
/// # Safety
/// `owner_instance_id` points to 8 bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_endpoint_owner_instance_id(
    endpoint: EndpointHandle,
    owner_instance_id: *mut u8,
) -> Status {
    answer("endpoint_owner_instance_id", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { OutSlice::new(owner_instance_id, 8) }?;
        out.set(&ENDPOINTS.get(endpoint.token)?.owner_instance_id().0);
        Ok(())
    })
}

/// Buffers that are alive, those whose release has begun included.
///
/// # Safety
/// `live` points to a uint32_t that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_endpoint_live(endpoint: EndpointHandle, live: *mut u32) -> Status {
    answer("endpoint_live", || {
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(live) }?;
        out.set(ENDPOINTS.get(endpoint.token)?.live());
        Ok(())
    })
}

/// A task that this program runs by itself names these tensors: those of this endpoint, and those that it wraps, cannot be released
/// until the hold is. All or none: of the first tensor that is not to be had, `*index` is the place.
///
/// # Safety
/// `tensors` points to `tensor_count` tensors that nobody writes during the call, `index` and `hold` to a size_t and a handle that
/// may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bufabi_endpoint_hold(
    endpoint: EndpointHandle,
    tensors: *const RawTensor,
    tensor_count: usize,
    index: *mut usize,
    hold: *mut HoldHandle,
) -> Status {
    answer("endpoint_hold", || {
        // SAFETY: the caller's promise above.
        let raw = unsafe { given_slice(tensors, tensor_count) }?;
        // SAFETY: the caller's promise above.
        let index = unsafe { Out::new(index) }?;
        // SAFETY: the caller's promise above.
        let out = unsafe { Out::new(hold) }?;
        apart_from(&[index.span(), out.span()], &[span_of_slice(raw)])?;
        let mut tensors: Vec<Tensor> = Vec::with_capacity(raw.len());
        for raw in raw {
            let place = tensors.len();
            tensors.push(tensor(raw).inspect_err(|_| index.set(place))?.to_owned());
        }
        let hold = ENDPOINTS.get(endpoint.token)?.hold(&tensors).map_err(|(place, error)| {
            index.set(place);
            noted(error.code(), &error)
        })?;
        out.set(HoldHandle { token: HOLDS.insert(hold)? });
        Ok(())
    })
}

/// The task is over: it holds nothing any more.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_hold_release(hold: HoldHandle) -> Status {
    answer("hold_release", || HOLDS.remove(hold.token).map(drop))
}

/// Releases the handle. The endpoint lives on in its buffers.
#[unsafe(no_mangle)]
pub extern "C" fn bufabi_endpoint_release(endpoint: EndpointHandle) -> Status {
    answer("endpoint_release", || ENDPOINTS.remove(endpoint.token).map(drop))
}
