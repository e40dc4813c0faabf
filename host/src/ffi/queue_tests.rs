//! The host's end of a queue as C uses it, beside a task's end in Rust that attached to the same region.

use core::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use bufabi_core::queue::{Kind, L2End, Opcode, QueueLayout, QueueView};
use bufabi_core::{Code, Descriptor};
use zerocopy::FromZeros;

use super::consumer::{ConsumerHandle, bufabi_consumer_create, bufabi_consumer_release};
use super::endpoint::{
    EndpointHandle, bufabi_endpoint_create, bufabi_endpoint_live, bufabi_endpoint_release,
};
use super::message::{Message, QUEUE_DATA, QUEUE_ERROR, QueueReservation};
use super::queue::*;
use super::region::*;
use super::vmm::VmmHandle;
use crate::consumer::Consumer;
use crate::region::{AttachedRegion, RegionMemory};

const LIMIT: u64 = 20_000_000_000;
const NONE: QueueHandle = QueueHandle { token: 0 };

/// An endpoint with a region, and what the region has in C.
struct Board {
    endpoint: EndpointHandle,
    region: RegionHandle,
}

impl Board {
    fn new() -> Self {
        Self::with(4, 128)
    }

    /// With that many slots, and that many bytes in each arena.
    fn with(depth: u64, arena: u64) -> Self {
        let mut board = Self { endpoint: EndpointHandle { token: 0 }, region: RegionHandle { token: 0 } };
        let (mut payload, mut counter) = (0, 0);
        // SAFETY: everything written is a local.
        unsafe {
            assert_eq!(bufabi_endpoint_create(8, &raw mut board.endpoint), 0);
            assert_eq!(bufabi_queue_bytes(depth, arena, arena, &raw mut payload, &raw mut counter), 0);
            let expected = depth.saturating_mul(64).saturating_add(arena.saturating_mul(2));
            assert_eq!((payload, counter), (expected, 384));
            assert_eq!(bufabi_region_create(board.endpoint, payload, counter, &raw mut board.region), 0);
        }
        board
    }

    fn descriptors(&self) -> [Descriptor; 2] {
        let (mut payload, mut counter) = (FromZeros::new_zeroed(), FromZeros::new_zeroed());
        // SAFETY: both are locals.
        assert_eq!(unsafe { bufabi_region_descriptors(self.region, &raw mut payload, &raw mut counter) }, 0);
        [payload, counter].map(|raw| Descriptor::from_raw(&raw).unwrap().to_owned())
    }

    fn queue(&self) -> QueueHandle {
        let mut queue = NONE;
        // SAFETY: the handle is a local.
        assert_eq!(unsafe { bufabi_queue_attach(self.region, 4, 128, 128, 0, &raw mut queue) }, 0);
        queue
    }

    fn release(self) {
        let mut live = 9;
        // SAFETY: the number is a local.
        unsafe {
            assert_eq!(bufabi_region_release(self.region, LIMIT), 0);
            assert_eq!(bufabi_region_release(self.region, LIMIT), Code::HandleReleased.number());
            assert_eq!(bufabi_endpoint_live(self.endpoint, &raw mut live), 0);
            assert_eq!(bufabi_endpoint_release(self.endpoint), 0);
        }
        assert_eq!(live, 0);
    }
}

fn task(region: &AttachedRegion<'_>) -> L2End<RegionMemory, [u64; 4], 2> {
    L2End::new(QueueLayout::new(4, 128, 128).unwrap(), region.memory().unwrap(), [0; 4]).unwrap()
}

fn enqueue(queue: QueueHandle, kind: i32, bytes: &[u8], limit: u64) -> i32 {
    let at = if bytes.is_empty() { null() } else { bytes.as_ptr().cast() };
    // SAFETY: the bytes are readable.
    unsafe { bufabi_queue_enqueue(queue, kind, at, bytes.len(), limit) }
}

fn dequeue(queue: QueueHandle, capacity: usize) -> Result<(u64, Vec<u8>), (i32, usize)> {
    let (mut out, mut opcode, mut nbytes) = (vec![0_u8; capacity], 0, 0);
    let at = if capacity == 0 { null_mut() } else { out.as_mut_ptr().cast() };
    // SAFETY: everything written is a local.
    match unsafe { bufabi_queue_dequeue(queue, at, capacity, 0, &raw mut opcode, &raw mut nbytes) } {
        0 => Ok((opcode, out[..nbytes].to_vec())),
        status => Err((status, nbytes)),
    }
}

#[test]
fn messages_go_both_ways_until_stop() {
    let (board, consumer) = (Board::new(), Consumer::new(None).unwrap());
    let [payload, counter] = board.descriptors();
    let mut attached = AttachedRegion::attach(&consumer, &payload, &counter).unwrap();
    let (queue, mut task) = (board.queue(), task(&attached));
    assert_eq!(enqueue(queue, QUEUE_DATA, &[1; 100], 0), 0);
    assert_eq!(enqueue(queue, QUEUE_ERROR, &[], 0), 0);
    assert_eq!(enqueue(queue, QUEUE_DATA, &[2; 100], 0), Code::TimedOut.number());
    assert_eq!(enqueue(queue, QUEUE_DATA, &[2; 129], 0), Code::MessageTooLarge.number());
    assert_eq!(enqueue(queue, 2, &[], 0), Code::OptionUnknown.number(), "STOP has a function of its own");
    assert_eq!(bufabi_queue_request_stop(queue, 0), 0);
    assert_eq!(enqueue(queue, QUEUE_DATA, &[], LIMIT), Code::QueueStopped.number());
    for (opcode, expected) in [(Opcode::Data, &[1; 100][..]), (Opcode::Error, &[]), (Opcode::Stop, &[])] {
        let (message, mut out) = (task.try_receive().unwrap(), [0; 128]);
        assert_eq!(message.opcode(), opcode);
        let nbytes = task.read_into(message.handle(), &mut out).unwrap();
        assert_eq!(&out[..nbytes], expected);
        task.release(message.handle()).unwrap();
    }
    assert!(task.is_drained());
    assert_eq!(dequeue(queue, 9), Err((Code::TimedOut.number(), 0)));
    task.try_send(Kind::Error, &[7; 5]).unwrap();
    task.try_send(Kind::Data, &[]).unwrap();
    assert_eq!(dequeue(queue, 4), Err((Code::BufferTooSmall.number(), 5)));
    let mut message = Message { handle: 9, address: 0, nbytes: 0, opcode: 0 };
    // SAFETY: the message is a local, and its bytes are mapped.
    unsafe {
        assert_eq!(bufabi_queue_peek(queue, 0, &raw mut message), 0);
        assert_eq!((message.handle, message.nbytes, message.opcode), (0, 5, 3));
        let at = core::ptr::with_exposed_provenance::<u8>(usize::try_from(message.address).unwrap());
        assert_eq!(at.read_volatile(), 7, "it can be read in place");
    }
    let (mut out, mut nbytes) = ([0_u8; 5], 0);
    // SAFETY: everything written is a local.
    unsafe {
        assert_eq!(bufabi_queue_read(queue, 0, out.as_mut_ptr().cast(), 5, &raw mut nbytes), 0);
    }
    assert_eq!((out, nbytes), ([7; 5], 5));
    assert_eq!(bufabi_queue_release(queue, 0), 0);
    assert_eq!(dequeue(queue, 0), Ok((1, vec![])));
    assert_eq!(bufabi_queue_release(queue, 0), Code::QueueHandle.number());
    assert_eq!(bufabi_queue_poison(queue), Code::QueueHandle.number(), "the first cause is kept");
    assert_eq!(task.peer_aborted(), Ok(true));
    drop(task);
    attached.close(Instant::now() + Duration::from_secs(20)).unwrap();
    assert_eq!(bufabi_region_release(board.region, 0), Code::ViewsAlive.number(), "the queue uses it");
    assert_eq!(enqueue(queue, QUEUE_DATA, &[], 0), Code::QueueHandle.number());
    assert_eq!(bufabi_queue_detach(queue), 0);
    assert_eq!(bufabi_queue_detach(queue), Code::HandleReleased.number());
    board.release();
}

#[test]
fn an_input_is_written_in_place_and_committed_shorter_or_given_up() {
    let (board, consumer) = (Board::new(), Consumer::new(None).unwrap());
    let [payload, counter] = board.descriptors();
    let attached = AttachedRegion::attach(&consumer, &payload, &counter).unwrap();
    let (queue, mut task) = (board.queue(), task(&attached));
    let mut reservation = QueueReservation { number: 0, address: 0, nbytes: 0 };
    // SAFETY: everything written is a local, or lies at the reservation's address.
    unsafe {
        assert_eq!(bufabi_queue_reserve(queue, 90, 0, &raw mut reservation), 0);
        let at = usize::try_from(reservation.address).unwrap();
        core::ptr::with_exposed_provenance_mut::<u8>(at).write_bytes(3, 10);
        let bytes = [4_u8; 5].as_ptr().cast();
        assert_eq!(bufabi_queue_write(queue, reservation.number, 10, bytes, 5), 0);
        assert_eq!(bufabi_queue_write(queue, reservation.number, 86, bytes, 5), Code::RegionRange.number());
        assert_eq!(bufabi_queue_commit(queue, reservation.number, QUEUE_DATA, 15), 0);
        assert_eq!(bufabi_queue_reserve(queue, 1, 0, &raw mut reservation), 0);
    }
    assert_eq!(bufabi_queue_cancel(queue, reservation.number), 0);
    let (message, mut out) = (task.try_receive().unwrap(), [0; 128]);
    assert_eq!(task.read_into(message.handle(), &mut out), Ok(15));
    assert_eq!(out[..15], [[3; 10].as_slice(), &[4; 5]].concat());
    let mut aborted = 9;
    // SAFETY: the number is a local.
    unsafe {
        assert_eq!(bufabi_queue_peer_aborted(queue, &raw mut aborted), 0);
        assert_eq!(aborted, 0);
        task.abort().unwrap();
        assert_eq!(bufabi_queue_peer_aborted(queue, &raw mut aborted), 0);
    }
    assert_eq!(aborted, 1);
    assert_eq!(enqueue(queue, QUEUE_DATA, &[1; 128], LIMIT), Code::QueuePeerAborted.number());
    assert_eq!(bufabi_queue_abort(queue), 0);
    assert_eq!(bufabi_queue_poison(queue), Code::QueueAborted.number());
    assert_eq!(bufabi_queue_detach(queue), 0);
    drop((task, attached));
    board.release();
}

#[test]
fn a_task_is_told_of_a_queue_by_twelve_scalars_and_attaches_by_two_descriptors() {
    let board = Board::new();
    let (mut region, mut scalars) = ([0_u64; 6], [0_u64; 12]);
    // SAFETY: everything written is a local.
    unsafe {
        assert_eq!(bufabi_region_scalars(board.region, region.as_mut_ptr()), 0);
        assert_eq!(bufabi_queue_scalars(region.as_ptr(), 4, 128, 128, scalars.as_mut_ptr()), 0);
        let wrong = bufabi_queue_scalars(region.as_ptr(), 4, 128, 192, scalars.as_mut_ptr());
        assert_eq!(wrong, Code::QueueSize.number());
        let overlapping = bufabi_queue_scalars(region.as_ptr(), 4, 128, 128, region.as_mut_ptr());
        assert_eq!(overlapping, Code::Overlapping.number());
    }
    let view = QueueView::from_scalars(scalars).unwrap();
    assert_eq!(view.layout(), QueueLayout::new(4, 128, 128).unwrap());
    let (mut consumer, mut attached) = (ConsumerHandle { token: 0 }, RegionHandle { token: 0 });
    let [payload, counter] = board.descriptors();
    // SAFETY: everything written is a local; the descriptors are there.
    unsafe {
        let (none, vmm) = (EndpointHandle { token: 0 }, VmmHandle { token: 0 });
        assert_eq!(bufabi_consumer_create(none, vmm, 4, &raw mut consumer), 0);
        let swapped = bufabi_region_attach(consumer, counter.raw(), payload.raw(), &raw mut attached);
        assert_eq!(swapped, Code::RegionParts.number());
        assert_eq!(bufabi_region_attach(consumer, payload.raw(), counter.raw(), &raw mut attached), 0);
        let (mut one, mut two) = (*payload.raw(), *counter.raw());
        let not_ours = bufabi_region_descriptors(attached, &raw mut one, &raw mut two);
        assert_eq!(not_ours, Code::OtherOwner.number());
        let mut queue = NONE;
        let code =
            |depth, pid, queue: *mut QueueHandle| bufabi_queue_attach(attached, depth, 128, 128, pid, queue);
        assert_eq!(code(3, 0, &raw mut queue), Code::QueueDepth.number());
        assert_eq!(code(8, 0, &raw mut queue), Code::QueueSize.number());
        assert_eq!(
            code(1 << 30, 0, &raw mut queue),
            Code::QueueSize.number(),
            "before memory for it is taken"
        );
        assert_eq!(code(4, 0, null_mut()), Code::NullPointer.number());
        assert_ne!(code(4, -7, &raw mut queue), 0, "no such process");
        assert_eq!(queue.token, 0);
    }
    assert_eq!(bufabi_region_release(attached, LIMIT), 0);
    assert_eq!(bufabi_consumer_release(consumer), 0);
    board.release();
}

/// The other side ends while C waits: for an output, or for room in a full ring.
#[test]
fn every_wait_learns_within_a_second_that_the_other_side_has_ended() {
    let dequeue_for_ever = |queue| {
        let (mut opcode, mut nbytes) = (0, 0);
        // SAFETY: everything written is a local.
        unsafe { bufabi_queue_dequeue(queue, null_mut(), 0, u64::MAX, &raw mut opcode, &raw mut nbytes) }
    };
    let peek = |queue| {
        let mut message = Message { handle: 0, address: 0, nbytes: 0, opcode: 0 };
        // SAFETY: the message is a local.
        unsafe { bufabi_queue_peek(queue, u64::MAX, &raw mut message) }
    };
    let reserve = |queue| {
        let mut reservation = QueueReservation { number: 0, address: 0, nbytes: 0 };
        // SAFETY: the reservation is a local.
        unsafe { bufabi_queue_reserve(queue, 0, u64::MAX, &raw mut reservation) }
    };
    let waits: [&dyn Fn(QueueHandle) -> i32; 5] =
        [&dequeue_for_ever, &peek, &reserve, &|queue| enqueue(queue, QUEUE_DATA, &[], u64::MAX), &|queue| {
            bufabi_queue_request_stop(queue, u64::MAX)
        }];
    for wait in waits {
        let board = Board::new();
        let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let (pid, mut queue) = (i32::try_from(other.id()).unwrap(), NONE);
        // SAFETY: the handle is a local.
        assert_eq!(unsafe { bufabi_queue_attach(board.region, 4, 128, 128, pid, &raw mut queue) }, 0);
        while enqueue(queue, QUEUE_DATA, &[], 0) == 0 {}
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            let now = Instant::now();
            other.kill().and_then(|()| other.wait()).unwrap();
            now
        });
        assert_eq!(wait(queue), Code::WorkerDied.number());
        let elapsed = killer.join().unwrap().elapsed();
        assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
        assert_eq!(enqueue(queue, QUEUE_DATA, &[], 0), Code::WorkerDied.number(), "and every later call");
        assert_eq!(bufabi_queue_detach(queue), 0);
        board.release();
    }
}

/// One thread waits for an output; meanwhile others send, look, and give up.
#[test]
fn a_wait_holds_up_no_other_thread_and_ends_when_one_gives_up() {
    let board = Board::new();
    let queue = board.queue();
    let peek = || {
        let mut message = Message { handle: 0, address: 0, nbytes: 0, opcode: 0 };
        // SAFETY: the message is a local.
        unsafe { bufabi_queue_peek(queue, u64::MAX, &raw mut message) }
    };
    std::thread::scope(|scope| {
        let receivers = [scope.spawn(peek), scope.spawn(peek)];
        std::thread::sleep(Duration::from_millis(20));
        let start = Instant::now();
        while enqueue(queue, QUEUE_DATA, &[], 0) == 0 {}
        assert_eq!(enqueue(queue, QUEUE_DATA, &[], 0), Code::TimedOut.number());
        assert_eq!(dequeue(queue, 0), Err((Code::TimedOut.number(), 0)));
        let sender = scope.spawn(|| enqueue(queue, QUEUE_DATA, &[], u64::MAX));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!sender.is_finished() && receivers.iter().all(|receiver| !receiver.is_finished()));
        assert_eq!(bufabi_queue_abort(queue), 0);
        for waiting in receivers.into_iter().chain([sender]) {
            assert_eq!(waiting.join().unwrap(), Code::QueueAborted.number());
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    });
    assert_eq!(bufabi_queue_detach(queue), 0);
    board.release();
}

/// In a process of its own, whose memory is limited and then taken.
#[test]
fn without_memory_an_end_is_refused_and_an_output_is_copied_all_the_same() {
    const ALONE: &str = "BUFABI_TEST_WITHOUT_MEMORY";
    if std::env::var_os(ALONE).is_some() {
        return use_queues_without_memory();
    }
    let name = "ffi::queue_tests::without_memory_an_end_is_refused_and_an_output_is_copied_all_the_same";
    let mut command = std::process::Command::new("prlimit");
    command.arg("--as=1073741824").arg(std::env::current_exe().unwrap()).args(["--exact", name]);
    let output = command.env(ALONE, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{}: {told}", output.status);
}

fn use_queues_without_memory() {
    // The marks of an end take 1 MiB.
    const DEPTH: u64 = 1 << 17;
    const ARENA: u64 = 2 << 20;
    let (board, consumer) = (Board::with(DEPTH, ARENA), Consumer::new(None).unwrap());
    let [payload, counter] = board.descriptors();
    let attached = AttachedRegion::attach(&consumer, &payload, &counter).unwrap();
    let layout = QueueLayout::new(DEPTH, ARENA, ARENA).unwrap();
    let marks = vec![0; 1 << 17];
    let mut task: L2End<RegionMemory, Vec<u64>, 2> =
        L2End::new(layout, attached.memory().unwrap(), marks).unwrap();
    let attach = || {
        let mut queue = NONE;
        // SAFETY: the handle is a local.
        let status = unsafe { bufabi_queue_attach(board.region, DEPTH, ARENA, ARENA, 0, &raw mut queue) };
        (status, queue)
    };
    let (status, queue) = attach();
    assert_eq!(status, 0);
    // Neither words nor pieces come out even.
    let bytes: Vec<u8> = (0..(1_u32 << 20) + 5).map(|index| (index % 251).to_le_bytes()[0]).collect();
    task.try_send(Kind::Data, &bytes).unwrap();
    let (mut out, mut opcode, mut nbytes) = (vec![0_u8; bytes.len()], 0, 0);
    let little: [Vec<u8>; 8] = core::array::from_fn(|_| Vec::with_capacity(32 << 10));
    let mut taken: Vec<Vec<u8>> = Vec::with_capacity(8192);
    for size in [64 << 20, 8 << 20, 512 << 10] {
        let mut more = Vec::new();
        while more.try_reserve_exact(size).is_ok() {
            taken.push(core::mem::take(&mut more));
        }
    }
    drop(little);
    let (refused, _) = attach();
    // SAFETY: everything written is a local.
    let copied = unsafe {
        let at = out.as_mut_ptr().cast();
        bufabi_queue_dequeue(queue, at, out.len(), 0, &raw mut opcode, &raw mut nbytes)
    };
    drop(taken);
    assert_eq!((refused, copied), (Code::NoSpace.number(), 0));
    assert_eq!((opcode, nbytes), (1, bytes.len()));
    assert!(out == bytes, "other bytes");
    assert_eq!(bufabi_queue_detach(queue), 0);
    drop((task, attached));
    board.release();
}
