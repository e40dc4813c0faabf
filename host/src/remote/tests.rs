//! Remote arguments over a transport within this process, which proves the interface.

use std::collections::HashMap;
use std::sync::Mutex;

use bufabi_core::task_args::Scratch;
use bufabi_core::wire::backend::{AddressSpace, BackendKind};
use bufabi_core::{Access, Code, DType, Tag, Tensor};

use super::*;
use crate::consumer::{Consumer, Import};
use crate::kernels::{Call, Kernel, StandardKernels};
use crate::memory::Strided;
use crate::owner::{Buffer, Endpoint};
use crate::worker::Kernels;

/// Memory that "another machine" reaches through a table.
#[derive(Debug, Default)]
struct Loopback(Mutex<HashMap<u64, (u64, Import)>>);

impl Loopback {
    fn at<R>(
        &self,
        address: u64,
        remote_key: u64,
        length: usize,
        work: impl FnOnce(usize, &Import) -> R,
    ) -> Result<R, TransportError> {
        let table = self.0.lock().unwrap();
        let (base, memory) = table.get(&remote_key).ok_or(TransportError::KeyUnknown { remote_key })?;
        let out_of_range = TransportError::OutOfRange { address, length };
        let start = address.checked_sub(*base).ok_or(out_of_range)?;
        let room = memory.nbytes().checked_sub(start).ok_or(out_of_range)?;
        if u64::try_from(length).unwrap() > room {
            return Err(out_of_range);
        }
        Ok(work(usize::try_from(start).unwrap(), memory))
    }
}

impl Transport for Loopback {
    fn name(&self) -> &str {
        "loopback"
    }

    fn register(&self, memory: Import) -> Result<Registration, TransportError> {
        let mut table = self.0.lock().unwrap();
        let remote_key = u64::try_from(table.len()).unwrap() + 0x1000;
        // Not an address of this process.
        let address = remote_key << 32;
        let nbytes = memory.nbytes();
        table.insert(remote_key, (address, memory));
        Ok(Registration { address, remote_key, nbytes })
    }

    fn deregister(&self, &Registration { remote_key, .. }: &Registration) -> Result<(), TransportError> {
        let removed = self.0.lock().unwrap().remove(&remote_key);
        removed.map(drop).ok_or(TransportError::KeyUnknown { remote_key })
    }

    fn read(&self, address: u64, remote_key: u64, out: &mut [u8]) -> Result<(), TransportError> {
        self.at(address, remote_key, out.len(), |start, memory| memory.read(start, out).unwrap())
    }

    fn write(&self, address: u64, remote_key: u64, bytes: &[u8]) -> Result<(), TransportError> {
        self.at(address, remote_key, bytes.len(), |start, memory| {
            let granted = memory.access();
            if !granted.writes() {
                return Err(TransportError::Denied { granted });
            }
            memory.write(start, bytes).unwrap();
            Ok(())
        })?
    }
}

struct Machine {
    endpoint: Endpoint,
    consumer: Consumer,
    transport: Loopback,
}

impl Machine {
    fn new() -> Self {
        let endpoint = Endpoint::new().unwrap();
        let consumer = Consumer::new(Some(endpoint.clone())).unwrap();
        Self { endpoint, consumer, transport: Loopback::default() }
    }

    fn buffer(&self, access: Access, numbers: &[i32]) -> Buffer {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let buffer = self.endpoint.create_buffer(u64::try_from(bytes.len()).unwrap(), access).unwrap();
        buffer.mapping().unwrap().write(0, &bytes).unwrap();
        buffer
    }

    fn register(&self, buffer: &Buffer) -> Registration {
        self.transport.register(self.consumer.import(&buffer.descriptor().unwrap()).unwrap()).unwrap()
    }
}

fn numbers(buffer: &Buffer) -> Vec<i32> {
    let mut bytes = vec![0; usize::try_from(buffer.nbytes()).unwrap()];
    buffer.mapping().unwrap().read(0, &mut bytes).unwrap();
    bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()
}

fn row(buffer: &Buffer) -> Tensor {
    buffer.row_major(0, DType::Int32, &[u32::try_from(buffer.nbytes() / 4).unwrap()]).unwrap()
}

#[test]
fn bytes_go_to_another_machine_and_those_of_the_elements_come_back() {
    let here = Machine::new();
    let small = here.buffer(Access::Read, &[10, 20, 30]);
    let a = here.buffer(Access::Read, &[1, 2, 3, 4, 5, 6]);
    let mut c = here.buffer(Access::ReadWrite, &[9; 12]);
    let registered = [&a, &c].map(|buffer| here.register(buffer));
    // Every other element of a, from the second on, plus small, into a column of a 3 x 4 matrix.
    let odd = a.strided(4, DType::Int32, &[3], &[2]).unwrap();
    let column = c.strided(8, DType::Int32, &[3], &[4]).unwrap();
    let mut arguments = RemoteArgs::new();
    arguments.add_registered(&odd, Tag::Input, &registered[0]).unwrap();
    let bytes: Vec<u8> = [10_i32, 20, 30].iter().flat_map(|number| number.to_le_bytes()).collect();
    arguments.add_inline(&row(&small), Tag::Input, &bytes).unwrap();
    arguments.add_registered(&column, Tag::OutputExisting, &registered[1]).unwrap();
    let mut scratch = Scratch::<256>::new();
    let transport: Option<&dyn Transport> = Some(&here.transport);
    let task = arguments.submit(&here.endpoint, transport, &mut scratch).unwrap();

    // Identity, rights, size and view are kept; how to reach it here is not told.
    for (remote, local) in task.submission.tensors().iter().zip([odd, row(&small), column]) {
        let (there, here) = (remote.descriptor(), local.descriptor());
        assert_eq!(there.backend_kind(), BackendKind::RemoteSidecar);
        assert_eq!((there.identity(), there.access()), (here.identity(), here.access()));
        assert_eq!((there.nbytes(), there.address_space()), (here.nbytes(), AddressSpace::Host));
        assert_eq!(remote.view(), local.view());
        // Never from the descriptor alone.
        let error = Consumer::new(None).unwrap().import(&there).unwrap_err();
        assert_eq!(error.code(), Code::NotResolvable);
    }
    assert_eq!(c.release().unwrap_err().code(), Code::Busy);

    let pairs = task.submission.tensors().iter().zip(&task.sidecars);
    let fetched: Vec<_> =
        pairs.map(|(tensor, sidecar)| Fetched::new(tensor, sidecar, transport).unwrap()).collect();
    let operands: Vec<_> = fetched.iter().map(|fetched| fetched.operand().unwrap()).collect();
    let add = Call { kernel: Kernel::Add, accumulate: false }.number();
    StandardKernels.run(add, &operands, &[]).unwrap();
    // Somebody writes beside the column meanwhile: that is not sent over.
    c.mapping().unwrap().write(12, &7_i32.to_le_bytes()).unwrap();
    let sent: Vec<_> = fetched.iter().map(|fetched| fetched.send_back(&here.transport).unwrap()).collect();
    assert_eq!(sent, [0, 0, 12]);
    assert_eq!(numbers(&c), [9, 9, 12, 7, 9, 9, 24, 9, 9, 9, 36, 9]);
    drop(task);

    // What is registered is a view of it.
    assert_eq!(c.release().unwrap_err().code(), Code::ViewsAlive);
    here.transport.deregister(&registered[1]).unwrap();
    c.release().unwrap();
    let unknown = TransportError::KeyUnknown { remote_key: registered[1].remote_key };
    assert_eq!(here.transport.deregister(&registered[1]), Err(unknown));
    let late = arguments.submit(&here.endpoint, transport, &mut scratch).unwrap_err();
    assert_eq!((late.code(), matches!(late, RemoteError::Own { argument: 2, .. })), (Code::Stale, true));
    assert_eq!(fetched[2].send_back(&here.transport), Err(RemoteError::Transport(unknown)));
}

#[test]
fn whoever_has_no_transport_is_refused_by_name() {
    let here = Machine::new();
    let a = here.buffer(Access::Read, &[1, 2]);
    let mut arguments = RemoteArgs::new();
    arguments.add_registered(&row(&a), Tag::Input, &here.register(&a)).unwrap();
    let refused = arguments.submit(&here.endpoint, None, &mut Scratch::<256>::new()).unwrap_err();
    assert_eq!(refused, RemoteError::TransportMissing { argument: 0, identity: a.identity() });
    assert_eq!(refused.code(), Code::TransportMissing);
    let text = refused.to_string();
    assert_eq!(text, format!("argument 0: {} is remote, and there is no transport", a.identity()));
    // What travels along needs none.
    let mut inline = RemoteArgs::new();
    inline.add_inline(&row(&a), Tag::Input, &[1, 0, 0, 0, 2, 0, 0, 0]).unwrap();
    let mut scratch = Scratch::<256>::new();
    let task = inline.submit(&here.endpoint, None, &mut scratch).unwrap();
    let fetched = Fetched::new(&task.submission.tensors()[0], task.sidecars[0], None).unwrap();
    let mut out = [0];
    Strided::<i32>::new(&fetched.operand().unwrap()).unwrap().load(1, 1, &mut out);
    assert_eq!(out, [2]);
}

#[test]
fn a_large_argument_goes_and_comes_in_pieces() {
    let here = Machine::new();
    let count = 3 << 17;
    let sent: Vec<i32> = (0..count).collect();
    let buffer = here.buffer(Access::ReadWrite, &sent);
    let remote = remote_tensor(&row(&buffer)).unwrap();
    let sidecar = Sidecar::registered(&buffer.descriptor().unwrap(), &here.register(&buffer));
    let fetched = Fetched::new(&remote, &sidecar, Some(&here.transport)).unwrap();
    buffer.mapping().unwrap().write(0, &vec![0; 3 << 19]).unwrap();
    assert_eq!(fetched.send_back(&here.transport), Ok(3 << 19));
    assert_eq!(numbers(&buffer), sent);
}

#[test]
fn tensor_and_sidecar_come_together_or_not_at_all() {
    let here = Machine::new();
    let a = here.buffer(Access::Read, &[1, 2]);
    let transport: Option<&dyn Transport> = Some(&here.transport);
    let sidecar = Sidecar::registered(&a.descriptor().unwrap(), &here.register(&a));
    let remote = remote_tensor(&row(&a)).unwrap();
    let kind = BackendKind::PosixShm;
    for (tensor, sidecar, expected) in [
        (remote, None, RemoteError::SidecarMissing { argument: 1 }),
        (row(&a), Some(sidecar.clone()), RemoteError::SidecarUnexpected { argument: 1, backend_kind: kind }),
        (row(&a), None, RemoteError::Local { argument: 1, backend_kind: kind }),
    ] {
        let mut arguments = RemoteArgs::new();
        arguments.add_inline(&row(&a), Tag::Input, &[0; 8]).unwrap();
        arguments.add_received(&tensor, Tag::Input, sidecar).unwrap();
        let refused = arguments.submit(&here.endpoint, transport, &mut Scratch::<256>::new());
        assert_eq!(refused.unwrap_err(), expected);
    }
    let mut arguments = RemoteArgs::new();
    arguments.add_received(&remote, Tag::Input, Some(sidecar)).unwrap();
    // Tags change in between, and are judged on their final values.
    arguments.set_tag(0, Tag::Inout).unwrap();
    let refused = arguments.submit(&here.endpoint, transport, &mut Scratch::<256>::new()).unwrap_err();
    assert_eq!(refused.code(), Code::Denied);
    arguments.set_tag(0, Tag::NoDep).unwrap();
    assert!(arguments.submit(&here.endpoint, transport, &mut Scratch::<256>::new()).is_ok());
}

#[test]
fn a_sidecar_that_contradicts_its_tensor_is_refused_and_says_how() {
    let here = Machine::new();
    let (a, other) = (here.buffer(Access::Read, &[1, 2, 3, 4]), here.buffer(Access::Read, &[5]));
    let tensor = remote_tensor(&a.row_major(4, DType::Int32, &[2]).unwrap()).unwrap();
    let inline = |byte_offset, nbytes, bytes: &[u8]| Sidecar {
        address_space: AddressSpace::Host,
        identity: a.identity(),
        byte_offset,
        nbytes,
        reach: Reach::Inline(bytes.into()),
    };
    let good = inline(4, 8, &[0; 8]);
    assert_eq!(good.check(&tensor), Ok(()));
    assert_eq!(inline(0, 16, &[0; 16]).check(&tensor), Ok(()));
    let reach = Reach::Remote { address: u64::MAX - 8, remote_key: 1 };
    let (host, device) = (AddressSpace::Host, AddressSpace::Device);
    let cases = [
        (
            Sidecar { address_space: device, ..good.clone() },
            SidecarError::AddressSpace { expected: host, found: device },
        ),
        (
            Sidecar { identity: other.identity(), ..good.clone() },
            SidecarError::Identity { expected: a.identity(), found: other.identity() },
        ),
        (inline(4, 13, &[0; 13]), SidecarError::Range { byte_offset: 4, nbytes: 13, backing: 16 }),
        (inline(u64::MAX, 2, &[0; 2]), SidecarError::Range { byte_offset: u64::MAX, nbytes: 2, backing: 16 }),
        (inline(8, 8, &[0; 8]), SidecarError::View { view: [4, 12], reached: [8, 16] }),
        (inline(0, 8, &[0; 8]), SidecarError::View { view: [4, 12], reached: [0, 8] }),
        (inline(4, 8, &[0; 7]), SidecarError::InlineLength { expected: 8, found: 7 }),
        (Sidecar { nbytes: 9, reach, ..good }, SidecarError::Address { address: u64::MAX - 8, nbytes: 9 }),
    ];
    for (sidecar, expected) in cases {
        assert_eq!(sidecar.check(&tensor), Err(expected));
        assert_eq!(expected.code(), Code::SidecarDiffers);
        let refused = Fetched::new(&tensor, &sidecar, Some(&here.transport)).unwrap_err();
        assert_eq!(refused, RemoteError::Sidecar { argument: 0, error: expected });
    }
}

#[test]
fn bytes_travel_along_only_when_few_and_read_alone() {
    let here = Machine::new();
    let written = here.buffer(Access::ReadWrite, &[1]);
    let large = here.buffer(Access::Read, &[0; MAX_INLINE / 4 + 1]);
    let mut arguments = RemoteArgs::new();
    let refused = arguments.add_inline(&row(&written), Tag::Input, &[0; 4]).unwrap_err();
    assert_eq!(refused.code(), Code::SidecarInline);
    assert_eq!(
        refused.to_string(),
        "argument 0: bytes travel along for READ alone, and the owner grants READWRITE"
    );
    let refused = arguments.add_inline(&row(&large), Tag::Input, &[0; MAX_INLINE + 4]).unwrap_err();
    let (found, limit) = (MAX_INLINE + 4, MAX_INLINE);
    let error = SidecarError::InlineSize { found, limit };
    assert_eq!(refused, RemoteError::Sidecar { argument: 0, error });
    let exact = u32::try_from(MAX_INLINE / 4).unwrap();
    let page = large.row_major(4, DType::Int32, &[exact]).unwrap();
    assert_eq!(arguments.add_inline(&page, Tag::Input, &[0; MAX_INLINE]), Ok(0));
    // Rights are checked when it is added, too.
    let refused = arguments.add_inline(&page, Tag::Output, &[0; MAX_INLINE]).unwrap_err();
    assert_eq!(refused.code(), Code::Denied);
    assert_eq!(arguments.add_scalar(3), Ok(0));
    let refused = arguments.add_inline(&page, Tag::Input, &[0; MAX_INLINE]).unwrap_err();
    assert_eq!(refused.code(), Code::TensorAfterScalar);
}
