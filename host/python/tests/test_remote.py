"""Arguments for a worker on another machine: sidecars, and bytes that move by a transport in Python."""

import copy
import gc
import pickle

import numpy as np
import pytest
from bufabi import (
    AccessMode,
    AddressSpace,
    BackendKind,
    Buffer,
    CanonicalIdentity,
    DataType,
    Fetched,
    ImportRegistry,
    Registration,
    RemoteArgs,
    RemoteTask,
    Sidecar,
    Tensor,
    TensorArgType,
    Transport,
    remote_sidecar_tensor,
)
from conftest import descriptor, program

F32, U8, I32, Tag = DataType.FLOAT32, DataType.UINT8, DataType.INT32, TensorArgType


class Loopback:
    """Memory that "another machine" reaches through a table, and what it was asked for."""

    def __init__(self) -> None:
        self.table: dict[int, memoryview] = {}
        self.asked: list[tuple[str, int, int]] = []

    def register(self, buffer: Buffer) -> Registration:
        key = 0x1000 + len(self.table)
        # Not an address of this process.
        self.table[key] = memoryview(buffer.mapped([buffer.nbytes], U8))
        return Registration(address=key << 32, remote_key=key, nbytes=buffer.nbytes)

    def read(self, address: int, remote_key: int, nbytes: int) -> bytes:
        start = address - (remote_key << 32)
        self.asked.append(("read", start, nbytes))
        return self.table[remote_key][start : start + nbytes].tobytes()

    def write(self, address: int, remote_key: int, data: bytes) -> None:
        start = address - (remote_key << 32)
        self.asked.append(("write", start, len(data)))
        self.table[remote_key][start : start + len(data)] = data


@pytest.fixture
def transport() -> Loopback:
    return Loopback()


def test_bytes_go_to_another_machine_and_those_of_the_elements_come_back(make, transport: Loopback) -> None:
    first, second = make(24, AccessMode.READ), make(48)
    np.asarray(first.mapped([6], I32))[:] = range(1, 7)
    np.asarray(second.mapped([12], I32))[:] = 9
    small = make(12, AccessMode.READ).tensor([3], I32)
    odd, column = first.tensor([3], I32, [2], 4), second.tensor([3], I32, [4], 8)
    args = RemoteArgs()
    assert args.add_registered(odd, Tag.INPUT, transport.register(first)) == 0
    assert args.add_inline(small, Tag.INPUT, np.array([10, 20, 30], np.int32)) == 1
    assert args.add_registered(column, Tag.INPUT, transport.register(second)) == 2
    args.set_tag(-1, Tag.OUTPUT_EXISTING)
    with pytest.raises(IndexError, match="there is no tensor 3 among 3"):
        args.set_tag(3, Tag.INPUT)
    assert [args.add_scalar(2), args.add_scalar(0.5)] == [0, 1]
    assert (args.tensor_count, args.scalar_count, repr(args)) == (3, 2, "RemoteArgs(3 tensors, 2 scalars)")
    with args.submit(transport) as task:
        assert task.tags == (Tag.INPUT, Tag.INPUT, Tag.OUTPUT_EXISTING)
        assert task.scalars == (2, 0x3FE0000000000000)
        assert repr(task) == "RemoteTask(3 tensors, 2 scalars)"
        for remote, local in zip(task.tensors, (odd, small, column), strict=True):
            assert remote == remote_sidecar_tensor(local)
            assert remote.buffer.backend_kind is BackendKind.REMOTE_SIDECAR
        # What it names cannot be closed meanwhile.
        transport.table.clear()
        with pytest.raises(BufferError, match="busy"):
            second.close()
        transport.register(first), transport.register(second)
        # To the other machine and there, by whatever moves Python's objects.
        sent = pickle.loads(
            pickle.dumps([(tensor, sidecar) for tensor, sidecar in zip(task.tensors, task.sidecars, strict=True)])
        )
        fetched = [Fetched(tensor, sidecar, transport) for tensor, sidecar in sent]
        left, right, out = (np.asarray(one.mapped()) for one in fetched)
        assert (left.tolist(), right.tolist(), out.tolist()) == ([2, 4, 6], [10, 20, 30], [9, 9, 9])
        assert (left.flags.writeable, right.flags.writeable, out.flags.writeable) == (False, False, True)
        np.add(left, right, out=out)
        # Somebody writes beside the column meanwhile: that is not sent over.
        np.asarray(second.mapped([12], I32))[3] = 7
        for one in fetched[:2]:
            with pytest.raises(
                ValueError, match="denied: the owner grants READ, and sending back needs WRITE"
            ) as refused:
                one.send_back(transport)
            assert (refused.value.rule, refused.value.code) == ("denied", 81)  # type: ignore[attr-defined]
        assert fetched[2].send_back(transport) == 12
        assert transport.asked == [
            ("read", 4, 20),
            ("read", 8, 36),
            ("write", 8, 4),
            ("write", 24, 4),
            ("write", 40, 4),
        ]
        assert np.asarray(second.mapped([12], I32)).tolist() == [9, 9, 12, 7, 9, 9, 24, 9, 9, 9, 36, 9]
        assert repr(fetched[0]) == "Fetched([3], INT32, READ)"
    del left, right, out
    transport.table.clear()


def test_what_was_fetched_lives_as_long_as_a_view_of_it(make, transport: Loopback) -> None:
    buffer = make(64)
    np.asarray(buffer.mapped([16], F32))[:] = 3
    args = RemoteArgs()
    args.add_registered(buffer.tensor([16], F32), Tag.INOUT, transport.register(buffer))
    task = args.submit(transport)
    view = np.asarray(Fetched(task.tensors[0], task.sidecars[0], transport).mapped())
    transport.table.clear()
    task.close()
    task.close()
    buffer.close()
    gc.collect()
    assert view.tolist() == [3.0] * 16


def test_a_task_that_is_lost_lets_go(make, transport: Loopback) -> None:
    buffer = make(64)
    args = RemoteArgs()
    args.add_registered(buffer.tensor([16], F32), Tag.INPUT, transport.register(buffer))
    task = args.submit(transport)
    transport.table.clear()
    with pytest.raises(BufferError, match="busy"):
        buffer.close()
    del task
    buffer.close()


def test_what_the_transport_raises_reaches_who_asked(make, transport: Loopback) -> None:
    buffer = make(64)
    registration = transport.register(buffer)
    args = RemoteArgs()
    args.add_registered(buffer.tensor([16], F32), Tag.INOUT, registration)
    task = args.submit(transport)
    tensor, sidecar = task.tensors[0], task.sidecars[0]

    class Broken:
        def read(self, address: int, remote_key: int, nbytes: int) -> bytes:
            raise ConnectionResetError(104, f"{nbytes} bytes of {remote_key:#x}")

        def write(self, address: int, remote_key: int, data: bytes) -> None:
            raise ZeroDivisionError("nothing is sent")

    class Short(Broken):
        def read(self, address: int, remote_key: int, nbytes: int) -> bytes:
            return bytes(nbytes - 1)

    with pytest.raises(ConnectionResetError, match="64 bytes of 0x1000"):
        Fetched(tensor, sidecar, Broken())
    with pytest.raises(ValueError, match="read: the transport gave 63 bytes, and 64 were asked for"):
        Fetched(tensor, sidecar, Short())
    with pytest.raises(TypeError, match="transport: an object with read and write is needed, not <class 'object'>"):
        Fetched(tensor, sidecar, object())  # type: ignore[arg-type]
    with pytest.raises(OSError, match="transport_missing: argument 0"):
        Fetched(tensor, sidecar)
    fetched = Fetched(tensor, sidecar, transport)
    with pytest.raises(ZeroDivisionError, match="nothing is sent"):
        fetched.send_back(Broken())
    for none in (None, 3):
        with pytest.raises(TypeError, match="transport: an object with read and write is needed, not <class"):
            fetched.send_back(none)  # type: ignore[arg-type]
    for call in (lambda: RemoteArgs().submit(3), lambda: Fetched(tensor, sidecar, 3)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="transport: an object with read and write is needed, not <class 'int'>"):
            call()
    assert isinstance(transport, Transport)
    assert not isinstance(object(), Transport)
    task.close()
    transport.table.clear()


def test_tensor_and_sidecar_go_together_or_are_refused(make, transport: Loopback) -> None:
    buffer, constant = make(64), make(64, AccessMode.READ)
    local = buffer.tensor([16], F32)
    remote = remote_sidecar_tensor(local)
    sidecar = Sidecar(
        address_space=AddressSpace.HOST, identity=local.identity, byte_offset=0, nbytes=64, address=1, remote_key=2
    )

    def refused(kind: type[Exception], words: str, tensor, sidecar, transport=transport) -> None:
        args = RemoteArgs()
        args.add_received(tensor, Tag.INPUT, sidecar)
        with pytest.raises(kind, match=words):
            args.submit(transport)

    refused(ValueError, "sidecar_missing: argument 0", remote, None)
    refused(ValueError, "sidecar_unexpected: argument 0", local, sidecar)
    refused(ValueError, "not_resolvable: argument 0", local, None)
    refused(OSError, "transport_missing: argument 0", remote, sidecar, None)
    other = Sidecar(
        address_space=AddressSpace.HOST,
        identity=CanonicalIdentity(b"another!", 1),
        byte_offset=0,
        nbytes=64,
        address=1,
        remote_key=2,
    )
    refused(
        ValueError,
        "sidecar_differs: argument 0: the tensor is of .*, its sidecar of 616e6f7468657221:1.1",
        remote,
        other,
    )
    with pytest.raises(ValueError, match="sidecar_differs: the tensor is of"):
        other.check(remote)
    sidecar.check(remote)
    args = RemoteArgs()
    short = Registration(address=0, remote_key=0, nbytes=32)
    with pytest.raises(
        ValueError, match="sidecar_differs: argument 0: the view takes bytes 0 to 64, its sidecar reaches 0 to 32"
    ):
        args.add_registered(local, Tag.INPUT, short)
    last = Registration(address=2**64 - 1, remote_key=0, nbytes=64)
    with pytest.raises(
        ValueError, match="sidecar_differs: .*64 bytes from 0xffffffffffffffff on pass the last address"
    ):
        args.add_registered(local, Tag.INPUT, last)
    with pytest.raises(
        ValueError,
        match="sidecar_inline: argument 0: bytes travel along for READ alone, and the owner grants READWRITE",
    ):
        args.add_inline(local, Tag.INPUT, bytes(64))
    with pytest.raises(ValueError, match="sidecar_differs: argument 0: the view takes bytes 0 to 64"):
        args.add_inline(constant.tensor([16], F32), Tag.INPUT, bytes(63))
    with pytest.raises(ValueError, match="denied"):
        args.add_inline(constant.tensor([16], F32), Tag.INOUT, bytes(64))
    big = make(8192, AccessMode.READ)
    with pytest.raises(
        ValueError, match="sidecar_inline: argument 0: 4100 bytes are too many to travel along: at most 4096"
    ):
        args.add_inline(big.tensor([1025], F32), Tag.INPUT, bytes(4100))
    # Nothing was added.
    assert args.submit().tensors == ()
    with pytest.raises(ValueError, match="sidecar_unexpected"):
        Fetched(local, sidecar, transport)


def test_a_buffer_that_is_gone_is_no_argument(make, transport: Loopback) -> None:
    buffer = make(64)
    args = RemoteArgs()
    args.add_registered(buffer.tensor([16], F32), Tag.INPUT, transport.register(buffer))
    transport.table.clear()
    buffer.close()
    with pytest.raises(KeyError, match="stale: argument 0"):
        args.submit(transport)


def test_sidecars_and_registrations_are_values() -> None:
    identity = CanonicalIdentity(b"somebody", 3)
    fields = {"address_space": AddressSpace.DEVICE, "identity": identity, "byte_offset": 8, "nbytes": 4}
    there, inline = Sidecar(**fields, address=0x1000, remote_key=7), Sidecar(**fields, data=b"abcd")
    assert (there.address_space, there.identity, there.byte_offset, there.nbytes) == tuple(fields.values())
    assert (there.address, there.remote_key, there.data) == (0x1000, 7, None)
    assert (inline.address, inline.remote_key, inline.data) == (None, None, b"abcd")
    assert repr(there) == "Sidecar(736f6d65626f6479:3.1, byte_offset=8, nbytes=4, address=0x1000, remote_key=0x7)"
    assert repr(inline) == "Sidecar(736f6d65626f6479:3.1, byte_offset=8, nbytes=4, 4 bytes inline)"
    registration = Registration(address=1 << 40, remote_key=9, nbytes=64)
    assert repr(registration) == "Registration(address=0x10000000000, remote_key=0x9, nbytes=64)"
    for value in (there, inline, registration):
        assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
        assert hash(copy.copy(value)) == hash(value)
    assert len({there, inline, registration}) == 3
    for wrong in ({}, {"address": 1}, {"remote_key": 1}, {"address": 1, "remote_key": 1, "data": b""}):
        with pytest.raises(TypeError, match="a sidecar has an address and a remote_key, or data"):
            Sidecar(**fields, **wrong)
    with pytest.raises(ValueError, match="remote_key: -1 is not 0 to"):
        Registration(address=0, remote_key=-1, nbytes=1)
    with pytest.raises(TypeError, match="RemoteTask"):
        RemoteTask()


def test_workers_here_have_no_way_to_another_machine() -> None:
    program("""
with Worker(3, chips=1, subs=1) as worker:
    buffer = worker.create_buffer(64)
    remote = remote_sidecar_tensor(buffer.tensor([16], F32))
    for submit in (lambda o: o.submit_next_level("none", args_of((remote, Tag.INPUT))), lambda o: o.submit_sub("none", args_of((remote, Tag.INPUT)))):
        raises(OSError, "transport_missing: argument 0", lambda: worker.run(submit))
    worker.release_buffer(buffer)
""")


def test_a_remote_tensor_never_resolves_alone(make, registry: ImportRegistry) -> None:
    remote = remote_sidecar_tensor(Tensor(buffer=descriptor(), shapes=[16], dtype=F32))
    with pytest.raises(ValueError, match="not_resolvable"):
        registry.resolve(remote)
    # Of one's own there is another descriptor.
    with pytest.raises(ValueError, match="import_conflict: .* is known with another backend_kind, body"):
        registry.resolve(remote_sidecar_tensor(make(64).tensor([16], F32)))
