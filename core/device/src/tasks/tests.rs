//! Requests as a host writes them, legal and broken, on memory that is an array.

use core::cell::Cell;
use core::num::{NonZeroU32, NonZeroU64};
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use bufabi_core::import_table::ImportBucket;
use bufabi_core::wire::blob::{self, encoded_size};
use bufabi_core::wire::body::{Body, ShmName};
use bufabi_core::wire::descriptor::DescriptorFields;
use bufabi_core::{DType, Descriptor, Identity, OwnerInstanceId, Tensor};

use super::*;
use crate::kernel::{Bits, Elements, Geometry, Kernel};
use crate::mailbox::HEAP;

/// The heap's first bytes.
struct Heap(Vec<Cell<u8>>);

struct View1<'a> {
    cells: &'a [Cell<u8>],
    view: View,
    access: Access,
}

struct Elements1<'a> {
    cells: &'a [Cell<u8>],
    geometry: Geometry,
}

impl<'a> Memory for &'a Heap {
    type Operand = View1<'a>;

    fn operand(&self, address: u64, view: View, access: Access) -> Option<View1<'a>> {
        let start = usize::try_from(address - HEAP).ok()?;
        let cells = self.0.get(start..)?;
        (view.end() <= u64::try_from(cells.len()).ok()?).then_some(View1 { cells, view, access })
    }
}

impl<'a> Operand for View1<'a> {
    type Elements<T: Bits> = Elements1<'a>;

    fn view(&self) -> &View {
        &self.view
    }

    fn access(&self) -> Access {
        self.access
    }

    fn elements<T: Bits>(&self) -> Option<Elements1<'a>> {
        Some(Elements1 {
            cells: self.cells,
            geometry: Geometry::new(&self.view, self.access, size_of::<T>())?,
        })
    }
}

impl<T: Bits> Elements<T> for Elements1<'_> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn load(&self, start: usize, step: usize, line: &mut [T]) {
        let count = self.geometry.readable(start, step, line.len());
        for (index, slot) in line.iter_mut().take(count).enumerate() {
            let at = (start + index * step) * size_of::<T>();
            let bytes: Vec<u8> = self.cells[at..at + size_of::<T>()].iter().map(Cell::get).collect();
            *slot = T::read_from_bytes(&bytes).unwrap();
        }
    }

    fn store(&self, start: usize, step: usize, line: &[T]) {
        let count = self.geometry.writable(start, step, line.len());
        for (index, value) in line.iter().take(count).enumerate() {
            let at = (start + index * step) * size_of::<T>();
            self.cells[at..].iter().zip(value.as_bytes()).for_each(|(cell, byte)| cell.set(*byte));
        }
    }
}

struct Device {
    heap: Heap,
    tasks: Box<Tasks<8, 4, { ImportBucket::count_for(4) }>>,
    number: u64,
}

impl Device {
    fn new() -> Self {
        let start = Start::for_memory(8 << 20, [5, 6]).unwrap();
        let heap = Heap(vec![Cell::new(0); 4096]);
        Self { heap, tasks: Box::new(Tasks::new(&start)), number: 0 }
    }

    fn ask(&mut self, request: Request<'_>) -> Answer {
        self.number += 1;
        let mut message = Vec::from(request.header(self.number).as_bytes());
        if let Request::Run { blob, addresses, .. } = request {
            message.extend_from_slice(blob);
            message.extend_from_slice(addresses.as_bytes());
        }
        let reply = self.tasks.reply(&&self.heap, &message);
        RawReply::decode(reply.as_bytes(), self.number).unwrap()
    }

    fn allocate(&mut self, address: u64, nbytes: u64) -> Answer {
        self.ask(Request::Allocate { address, nbytes })
    }

    fn run(&mut self, kernel: Kernel, tensors: &[Tensor], scalars: &[u64], addresses: &[u64]) -> Answer {
        let mut bytes = vec![0; encoded_size(tensors.len(), scalars.len()).unwrap()];
        blob::encode(tensors, scalars, &mut bytes).unwrap();
        let addresses: Vec<U64> = addresses.iter().copied().map(U64::new).collect();
        let kernel = Call { kernel, accumulate: false }.number();
        self.ask(Request::Run { kernel, blob: &bytes, addresses: &addresses })
    }

    fn floats(&self, address: u64, count: usize) -> Vec<f32> {
        let start = usize::try_from(address - HEAP).unwrap();
        let cells = self.heap.0[start..].chunks(4).take(count);
        cells.map(|cells| f32::from_le_bytes([0, 1, 2, 3].map(|index| cells[index].get()))).collect()
    }
}

fn tensor(buffer_id: u64, body: Body, access: Access, view: &View) -> Tensor {
    let identity = Identity::new(OwnerInstanceId([7; 8]), buffer_id, NonZeroU32::MIN);
    let fields = DescriptorFields { identity, access, nbytes: 64, owner_worker_path_id: 0, body };
    Tensor::new(&Descriptor::new(&fields).unwrap(), view).unwrap()
}

fn matrix() -> View {
    View::row_major(0, DType::Float32, &[2, 2], 64).unwrap()
}

fn on_the_device(buffer_id: u64, base: u64, access: Access) -> Tensor {
    tensor(buffer_id, Body::DeviceMalloc { base: NonZeroU64::new(base).unwrap() }, access, &matrix())
}

fn staged(buffer_id: u64, access: Access, view: &View) -> Tensor {
    tensor(buffer_id, Body::PosixShm { name: ShmName::new("x").unwrap() }, access, view)
}

const A: u64 = HEAP;
const B: u64 = HEAP + 64;
const C: u64 = HEAP + 128;

#[test]
fn a_task_runs_on_strided_views_of_staged_and_of_device_memory() {
    let mut device = Device::new();
    for address in [A, B, C] {
        device.allocate(address, 64).unwrap();
    }
    let (a, c) = (on_the_device(1, A, Access::ReadWrite), on_the_device(3, C, Access::Write));
    let bits = |value: f32| u64::from(value.to_bits());
    assert_eq!(device.run(Kernel::Fill, &[a], &[bits(1.5)], &[A]), Ok(()));
    let rows = View::new(0, DType::Float32, &[2, 2], &[4, 1], 64).unwrap();
    let b = staged(2, Access::ReadWrite, &rows);
    assert_eq!(device.run(Kernel::Fill, &[b], &[bits(2.0)], &[B]), Ok(()));
    assert_eq!(device.floats(B, 8), [2.0, 2.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0], "gaps stay as they are");
    assert_eq!(device.run(Kernel::MatMul, &[a, b, c], &[], &[A, B, C]), Ok(()));
    assert_eq!(device.floats(C, 5), [6.0, 6.0, 6.0, 6.0, 0.0]);
}

#[test]
fn what_a_task_may_not_do_is_refused_with_its_argument() {
    let mut device = Device::new();
    device.allocate(A, 64).unwrap();
    device.allocate(C, 64).unwrap();
    let (a, c) = (on_the_device(1, A, Access::Read), on_the_device(3, C, Access::ReadWrite));
    let refused = |code, argument| Err(Refusal { code, argument });
    let found = device.run(Kernel::Copy, &[c, a], &[], &[C, A]);
    assert_eq!(found, refused(Code::Denied, Some(1)), "the output's owner grants reading alone");
    let found = device.run(Kernel::Copy, &[a, on_the_device(2, B, Access::Write)], &[], &[A, B]);
    assert_eq!(found, refused(Code::DeviceAllocation, Some(1)), "nothing is live there");
    let found = device.run(Kernel::Copy, &[a, c], &[], &[A, A]);
    assert_eq!(found, refused(Code::ImportConflict, Some(1)), "it says itself where it is");
    assert_eq!(device.run(Kernel::Copy, &[a, c], &[], &[A]), refused(Code::MessageBroken, None));
    assert_eq!(device.run(Kernel::Add, &[a, c], &[], &[A, C]), refused(Code::KernelCounts, None));
    device.ask(Request::Free { address: A }).unwrap();
    let found = device.run(Kernel::Copy, &[a, c], &[], &[A, C]);
    assert_eq!(found, refused(Code::DeviceAllocation, Some(0)), "it was freed");
    let found = device.ask(Request::Run { kernel: 99, blob: &[0; 8], addresses: &[] });
    assert_eq!(found, refused(Code::KernelUnknown, None));
    let found = device.ask(Request::Run { kernel: 0, blob: &[0; 7], addresses: &[] });
    assert_eq!(found, refused(Code::Short, None));
    let mut bad = [0; 152];
    bad[0] = 1;
    let found = device.ask(Request::Run { kernel: 0, blob: &bad, addresses: &[U64::ZERO] });
    assert_eq!(found, refused(Code::Magic, Some(0)));
    assert_eq!(device.floats(C, 4), [0.0; 4], "nothing was written");
}

#[test]
fn a_message_that_is_no_request_is_answered_as_broken() {
    let mut device = Device::new();
    let reply = device.tasks.reply(&&device.heap, &[1; 31]);
    assert_eq!(RawReply::decode(reply.as_bytes(), 0), Some(Err(Refusal::new(Code::MessageBroken))));
}

/// The bytes of a legal run, each byte changed in turn, and changed at random several at a time: every one is answered, and no
/// byte of the heap outside of what is live is ever written.
#[test]
fn damaged_requests_are_answered_and_write_nothing_that_is_not_theirs() {
    let mut device = Device::new();
    device.allocate(A, 64).unwrap();
    device.allocate(C, 64).unwrap();
    let (a, c) = (on_the_device(1, A, Access::Read), on_the_device(3, C, Access::ReadWrite));
    let mut blob = vec![0; encoded_size(2, 0).unwrap()];
    blob::encode(&[a, c], &[], &mut blob).unwrap();
    let addresses = [U64::new(A), U64::new(C)];
    let run = Request::Run { kernel: 2, blob: &blob, addresses: &addresses };
    let mut message = Vec::from(run.header(7).as_bytes());
    message.extend_from_slice(&blob);
    message.extend_from_slice(addresses.as_bytes());
    let mut answered = |message: &[u8]| {
        let reply = device.tasks.reply(&&device.heap, message);
        let number = reply.number.get();
        assert!(RawReply::decode(reply.as_bytes(), number).is_some());
        let outside = |at: usize| (64..128).contains(&at) || at >= 192;
        assert!(device.heap.0.iter().enumerate().all(|(at, cell)| !outside(at) || cell.get() == 0));
    };
    answered(&message);
    // Allocating and freeing are legal requests that a damaged one can become; they would change what is live.
    let mut state = 1_u64;
    let mut random = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % end
    };
    for at in (0..message.len()).filter(|at| !(8..12).contains(at)) {
        for change in [0xff, 1, 0x80] {
            let mut damaged = message.clone();
            damaged[at] ^= change;
            answered(&damaged);
        }
    }
    for _ in 0..if cfg!(miri) { 20 } else { 3000 } {
        let mut damaged = message.clone();
        for _ in 0..=random(4) {
            let at = random(message.len());
            if !(8..12).contains(&at) {
                damaged[at] = u8::try_from(random(256)).unwrap();
            }
        }
        damaged.truncate(message.len() - random(3) * random(40));
        answered(&damaged);
    }
}
