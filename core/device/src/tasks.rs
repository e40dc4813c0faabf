//! The device's side of the mailbox: it answers each request from its own table of what is live, and runs tasks.

use core::time::Duration;

use bufabi_core::queue::{Kind, L2End, Opcode, ReceiveError};
use bufabi_core::region::{Clock, Part, RegionAccess};
use bufabi_core::wire::chip_args::{MAX_SCALARS, MAX_TENSORS, MaterializeError};
use bufabi_core::{Access, Blob, BlobError, ChipStorageTaskArgs, ChipTensor, Code, View};
use heapless::Vec;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use crate::kernel::{Call, KernelError, Operand, SCRATCH_WORDS};
use crate::live::{Backing, LiveMemory};
use crate::mailbox::Start;
use crate::message::{Answer, MAX_REQUEST, RawReply, Refusal, Request};

/// The memory that a device's kernels reach.
pub trait Memory {
    /// A view of it.
    type Operand: Operand;

    /// The view whose offset counts from `address`; `None` when not all of it lies in memory that a host may give out.
    fn operand(&self, address: u64, view: View, access: Access) -> Option<Self::Operand>;
}

/// What a device knows of its memory and what it computes in. It is large: a static, or the bottom of a large stack.
pub struct Tasks<const ALLOCATIONS: usize, const IMPORTS: usize, const BUCKETS: usize> {
    live: LiveMemory<ALLOCATIONS, IMPORTS, BUCKETS>,
    arguments: ChipStorageTaskArgs,
    scratch: [u64; SCRATCH_WORDS],
}

impl<const ALLOCATIONS: usize, const IMPORTS: usize, const BUCKETS: usize>
    Tasks<ALLOCATIONS, IMPORTS, BUCKETS>
{
    /// Nothing is live yet.
    #[must_use]
    pub fn new(start: &Start) -> Self {
        Self {
            live: LiveMemory::new(start.heap, start.seed),
            arguments: ChipStorageTaskArgs::EMPTY,
            scratch: [0; SCRATCH_WORDS],
        }
    }

    /// Does what a message that was copied out asks, and gives the reply to it.
    pub fn reply<M: Memory>(&mut self, memory: &M, message: &[u8]) -> RawReply {
        match Request::decode(message) {
            Ok((number, request)) => RawReply::new(number, self.answer(memory, request)),
            Err(error) => RawReply::new(0, Err(Refusal::new(error.code()))),
        }
    }

    fn answer<M: Memory>(&mut self, memory: &M, request: Request<'_>) -> Answer {
        match request {
            Request::Allocate { address, nbytes } => {
                self.live.allocate(Part { base: address, nbytes }).map_err(Refusal::new)
            }
            Request::Free { address } => self.live.free(address).map_err(Refusal::new),
            Request::Run { kernel, blob, addresses } => self.run(memory, kernel, blob, addresses),
        }
    }

    /// Runs a task as a chip does: makes its arguments from the blob, each backing resolved once, and launches the kernel on what
    /// those say.
    fn run<M: Memory>(&mut self, memory: &M, kernel: u32, blob: &[u8], addresses: &[U64]) -> Answer {
        let blob = Blob::from_bytes(blob).map_err(|error| match error {
            BlobError::Tensor { index, .. } => {
                Refusal::of_argument(error.code(), usize::try_from(index).unwrap_or(usize::MAX))
            }
            BlobError::Short { .. }
            | BlobError::Negative { .. }
            | BlobError::PastEnd { .. }
            | BlobError::Scratch { .. } => Refusal::new(error.code()),
        })?;
        if blob.tensor_count() != addresses.len() {
            return Err(Refusal::new(Code::MessageBroken));
        }
        let mut backings = Vec::<Backing, MAX_TENSORS>::new();
        let live = &mut self.live;
        let materialized = self.arguments.materialize(&blob, |index, tensor| {
            let address = addresses.get(index).map_or(0, |address| address.get());
            let backing = live.resolve(&tensor.descriptor(), address)?;
            backings.push(backing).map_err(|_| Code::TooManyArguments)?;
            Ok(backing.address)
        });
        materialized.map_err(|error| match error {
            MaterializeError::Resolve { index, error } => Refusal::of_argument(error, index),
            MaterializeError::Chip { index, error } => Refusal::of_argument(error.code(), index),
            MaterializeError::TooMany(error) => Refusal::new(error.code()),
        })?;
        self.launch(memory, kernel, &backings)
    }

    /// Launches a kernel on what the arguments say, and on nothing else.
    fn launch<M: Memory>(&mut self, memory: &M, kernel: u32, backings: &[Backing]) -> Answer {
        let mut operands = Vec::<M::Operand, MAX_TENSORS>::new();
        for (index, (tensor, backing)) in self.arguments.tensors().iter().zip(backings).enumerate() {
            let not_mapped = Refusal::of_argument(Code::AddressNotMapped, index);
            let operand = operand(memory, tensor, backing).ok_or(not_mapped)?;
            operands.push(operand).map_err(|_| not_mapped)?;
        }
        let scalars: Vec<u64, MAX_SCALARS> =
            self.arguments.scalars().iter().map(|scalar| scalar.get()).collect();
        let call = Call::from_number(kernel).ok_or(KernelError::Unknown { kernel });
        let done = call.and_then(|call| call.run(&operands, &scalars, &mut self.scratch));
        done.map_err(|error| Refusal { code: error.code(), argument: error.operand() })
    }
}

/// The operand that a chip's tensor describes, if all of it lies in the backing.
fn operand<M: Memory>(memory: &M, tensor: &ChipTensor, backing: &Backing) -> Option<M::Operand> {
    let (address, size) = (tensor.addr.get(), tensor.size.get());
    if !backing.holds(address, size) {
        return None;
    }
    let (shapes, strides) = (tensor.shapes.map(|slot| slot.get()), tensor.strides.map(|slot| slot.get()));
    let view = View::from_slots(0, tensor.ndims.get(), tensor.element_type()?, shapes, strides, size).ok()?;
    memory.operand(address, view, backing.access)
}

/// How long one call waits; it is called again.
const A_WHILE: Duration = Duration::from_secs(1);

/// A device's whole life: says that it has started, answers request after request, and returns when it is told to stop.
///
/// # Errors
/// Why it gives up: the queue has ended, or the host broke what a queue is.
pub fn serve<
    M: Memory,
    A: RegionAccess,
    const ALLOCATIONS: usize,
    const IMPORTS: usize,
    const BUCKETS: usize,
>(
    tasks: &mut Tasks<ALLOCATIONS, IMPORTS, BUCKETS>,
    memory: &M,
    queue: &mut L2End<A, impl AsRef<[u64]> + AsMut<[u64]>, 1>,
    clock: &mut impl Clock,
) -> Result<(), Code> {
    let mut message = [0; MAX_REQUEST];
    send(queue, RawReply::new(0, Ok(())), clock)?;
    loop {
        let received = match queue.receive(A_WHILE, clock) {
            Ok(received) => received,
            Err(ReceiveError::TimedOut) => continue,
            Err(error) => return Err(error.code()),
        };
        let handle = received.handle();
        match received.opcode() {
            Opcode::Stop => return queue.release(handle).map_err(ReceiveError::code),
            Opcode::Data => {}
            Opcode::Error => return Err(Code::MessageBroken),
        }
        // Copied once, and the copy is what is checked and used.
        let length = queue.read_into(handle, &mut message).map_err(ReceiveError::code)?;
        queue.release(handle).map_err(ReceiveError::code)?;
        let reply = tasks.reply(memory, message.get(..length).unwrap_or_default());
        send(queue, reply, clock)?;
    }
}

fn send<A: RegionAccess>(
    queue: &mut L2End<A, impl AsRef<[u64]> + AsMut<[u64]>, 1>,
    reply: RawReply,
    clock: &mut impl Clock,
) -> Result<(), Code> {
    // The host has one request under way, so there is room for its reply.
    queue.send(Kind::Data, reply.as_bytes(), A_WHILE, clock).map_err(|error| error.code())
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "test arithmetic")]
mod tests;
