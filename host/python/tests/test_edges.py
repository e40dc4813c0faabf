"""What is not believed of what Python says, lengths, numbers, codes and orders: it is refused by name, and nothing dies of it."""

import copy
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from bufabi import (
    AccessMode,
    AddressSpace,
    BackendKind,
    BufferDescriptor,
    CanonicalIdentity,
    DataType,
    ImportContext,
    ImportRegistry,
    Registration,
    Sidecar,
    TaskArgs,
    Tensor,
    TensorArgType,
    create_host_shared_buffer,
    mint_owner_instance_id,
    read_args_from_blob,
    write_blob,
)
from conftest import PRELUDE, blob_of, descriptor, program

LIAR = """
import collections.abc, itertools
class Liar(collections.abc.Sequence):
    def __len__(self): return 1 << 42
    def __getitem__(self, index): raise IndexError
"""


def test_what_a_sequence_says_of_its_length_is_not_believed() -> None:
    program(
        LIAR
        + """
raises(ValueError, "needs chips, sub-workers or children", lambda: Worker(4, children=Liar()))
raises(ValueError, "children: there are more than 1024", lambda: Worker(4, children=(Worker(3, subs=1) for _ in itertools.count())))
raises(ValueError, "up to 1024", lambda: Worker(3, chips=itertools.repeat(Device.simulated())))
raises(TypeError, "children: a sequence is needed, not <class 'int'>", lambda: Worker(4, children=3))
raises(TypeError, "'int' object", lambda: Worker(4, children=[3]))
blob = write_blob(TaskArgs())
TaskArgs().__setstate__((blob, Liar()))
raises(ValueError, "tags: there are more than 256", lambda: TaskArgs().__setstate__((blob, itertools.repeat(Tag.INPUT))))
tracker = Tracker(tasks=2)
assert tracker.submit(Liar()).edges == ()
raises(ValueError, "args: there are more than 65536", lambda: tracker.submit(itertools.repeat(TaskArgs())))
with Worker(3, chips=1, subs=1) as worker:
    held = worker.create_shareable(64)
    worker.permit(held, Liar())
    raises(ValueError, "workers: there are more than 65536", lambda: worker.permit(held, itertools.repeat(0)))
    raises(TypeError, "workers: a sequence is needed, not <class 'str'>", lambda: worker.permit(held, "chip0"))
    raises(ValueError, "workers: a domain is of one chip at least", lambda: worker.create_domain(Liar(), [64]))
    raises(ValueError, "parts: there are more than 65536", lambda: worker.create_domain([0], itertools.repeat(64)))
    def orchestration(orchestrator):
        raises(ValueError, "", lambda: orchestrator.submit_sub_group("copy", Liar()))
        raises(ValueError, "args: there are more than 65536", lambda: orchestrator.submit_sub_group("copy", itertools.repeat(TaskArgs())))
        raises(ValueError, "workers: 0 are named for 1", lambda: orchestrator.submit_next_level_group("copy", [TaskArgs()], Liar()))
        raises(TypeError, "'int' object", lambda: orchestrator.submit_sub_group("copy", [3]))
    worker.run(orchestration, timeout=60)
"""
    )


def test_a_shape_without_an_end_is_one_of_too_many_dimensions() -> None:
    program(
        """
import itertools
with create_host_shared_buffer(64) as buffer:
    for shapes in (itertools.repeat(1), iter([1] * 6), range(1, 1 << 40)):
        raises(ValueError, "ndims: a view has 1 to 5 dimensions, found 6", lambda: buffer.tensor(shapes, DataType.INT8))
    raises(ValueError, "ndims", lambda: buffer.mapped([1], DataType.INT8, itertools.repeat(1)))
    assert buffer.tensor(iter((2, 3)), DataType.INT8).shapes == (2, 3)
"""
    )


def test_sizes_are_looked_at_before_anything_is_copied() -> None:
    program(
        """
import mmap, resource, tempfile
identity = CanonicalIdentity(bytes(8), 1)
with Worker(3, chips=1) as worker, tempfile.TemporaryFile() as file:
    held = worker.malloc(4096)
    file.truncate(1 << 43)
    with mmap.mmap(file.fileno(), 1 << 43) as sparse:
        for call in (worker.copy_from, worker.copy_to, worker.fill):
            raises(ValueError, f"device_range: {1 << 43} bytes from 0 on do not all lie in the buffer's 4096", lambda: call(held, sparse))
        for record, size in ((BufferDescriptor, 88), (Tensor, 144), (CanonicalIdentity, 32)):
            raises(ValueError, f"exactly {size} bytes, found {1 << 43}", lambda: record.from_bytes(sparse))
        raises(ValueError, "sidecar_inline", lambda: Sidecar(address_space=AddressSpace.HOST, identity=identity, byte_offset=0, nbytes=4, data=sparse))
        describe = lambda body: BufferDescriptor(identity=identity, address_space=AddressSpace.HOST, access=AccessMode.READ, backend_kind=BackendKind.POSIX_SHM, nbytes=1, body=body)
        raises(ValueError, "body_len", lambda: describe(sparse))
    raises(ValueError, "sidecar_inline", lambda: Sidecar(address_space=AddressSpace.HOST, identity=identity, byte_offset=0, nbytes=4, data=bytes(4097)))
    big = bytearray(600 << 20)
    used = int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
    raises(MemoryError, "", lambda: read_args_from_blob(big))
    raises(MemoryError, "", lambda: RemoteArgs().add_inline(describe(b"x") and Tensor(buffer=describe(b"x"), shapes=[1], dtype=DataType.INT8), Tag.INPUT, big))
    assert worker.malloc(64).nbytes == 64
"""
    )


def test_bytes_are_bytes_whatever_their_elements_are_called() -> None:
    with create_host_shared_buffer(4096) as buffer:
        tensor = buffer.tensor([4, 4], DataType.FLOAT32)
        given, raw = buffer.to_descriptor(), buffer.to_descriptor().to_bytes()
        blob = blob_of(tensor, scalars=(7,))
        kinds = (
            bytearray,
            memoryview,
            lambda raw: np.frombuffer(raw, "i1"),
            lambda raw: np.frombuffer(raw, "<i4"),
            lambda raw: np.frombuffer(raw, "V4"),
            lambda raw: np.frombuffer(raw, "u1").reshape(-1, 4),
            lambda raw: np.repeat(np.frombuffer(raw, "u1"), 2)[::2],
            lambda raw: memoryview(raw).cast("b"),
            lambda raw: memoryview(raw).cast("c"),
        )
        for kind in kinds:
            assert BufferDescriptor.from_bytes(kind(raw)) == given
            assert Tensor.from_bytes(kind(tensor.to_bytes())) == tensor
            assert read_args_from_blob(kind(blob)).scalars == (7,)
        for no_bytes in ([1], raw.hex(), 5):
            with pytest.raises(TypeError):
                BufferDescriptor.from_bytes(no_bytes)  # type: ignore[arg-type]
        args = read_args_from_blob(blob)
        flat = bytearray(400)
        places = (
            np.zeros((100, 4), "u1"),
            np.zeros(50, "i4,i4"),
            memoryview(flat).cast("b"),
            memoryview(flat).cast("c"),
        )
        for place in places:
            assert write_blob(args, place) == len(blob)
            assert bytes(place)[: len(blob)] == blob
        with pytest.raises(ValueError, match=r"too_many_arguments|needs|size|1 bytes"):
            write_blob(args, np.zeros((), "u1"))
        with pytest.raises(BufferError, match="into: the object is not dense"):
            write_blob(args, np.zeros(800, "u1")[::2])
        with pytest.raises(BufferError, match="into: the object is read-only"):
            write_blob(args, bytes(400))


def test_versions_and_devices_of_dlpack_are_refused_by_name() -> None:
    with create_host_shared_buffer(64) as buffer:
        view = buffer.mapped([4], DataType.INT32)
        for version in ((1 << 40, 0), (1, 1 << 40), (np.int64(1), np.int64(0))):
            assert "dltensor_versioned" in repr(view.__dlpack__(max_version=version))
        refused = (
            ({"max_version": (-1, 0)}, ValueError, "max_version: (-1, 0) is no version"),
            ({"max_version": (1 << 64, 0)}, ValueError, "max_version: (18446744073709551616, 0) does not fit 64 bits"),
            ({"max_version": 1}, TypeError, "max_version: a tuple of two ints is needed, not 1"),
            ({"max_version": ("1", "0")}, TypeError, "max_version: a tuple of two ints"),
            ({"dl_device": (1 << 40, 0)}, BufferError, "and (1099511627776, 0) was asked for"),
            ({"dl_device": (1 << 64, 0)}, ValueError, "dl_device: (18446744073709551616, 0) does not fit 64 bits"),
        )
        for given, kind, message in refused:
            with pytest.raises(kind, match=re.escape(message)):
                view.__dlpack__(**given)
        del view


def test_only_what_is_raised_here_has_a_number_of_ours() -> None:
    program(
        """
import pickle, time
class Other(Exception):
    code = 57
class Slow(ValueError):
    @property
    def code(self): time.sleep(1000)
    @property
    def _bufabi(self): time.sleep(1000)
ours = raises(ValueError, "nbytes_zero", lambda: create_host_shared_buffer(0))
copied = pickle.loads(pickle.dumps(ours))
assert (copied.rule, copied.code) == ("nbytes_zero", ours.code)
named = ValueError("named alike")
named.code, named.rule = ours.code, ours.rule
worker = Worker(3, subs=1)
kinds = [lambda: sys.exit(57), lambda: sys.exit(404), Other("x"), Slow("x"), named, copied]
@worker.register
def fail(args):
    kind = kinds[args.scalar(0)]
    if callable(kind):
        kind()
    raise kind
@worker.register
def fail_of_ours(args):
    create_host_shared_buffer(0)
def run(function, number=0):
    return lambda: worker.run(lambda orchestrator: orchestrator.submit_sub(function, args_of(scalars=(number,))), timeout=30)
for number in range(len(kinds)):
    assert raises(ValueError, "kernel_failed", run(fail, number)).rule == "kernel_failed"
assert raises(ValueError, "nbytes_zero", run(fail_of_ours)).code == ours.code
worker.close()
"""
    )


def test_a_scope_ends_what_it_began_and_nothing_else() -> None:
    program(
        """
worker = Worker(3, subs=1)
def orchestration(orchestrator):
    kept = orchestrator.alloc([16], F32)
    raises(RuntimeError, "scope: it was not entered", lambda: orchestrator.scope().__exit__(None, None, None))
    worker.mapped(kept)
    outer, inner = orchestrator.scope(), orchestrator.scope()
    for _ in range(2):
        outer.__enter__()
        raises(RuntimeError, "scope: it is open", outer.__enter__)
        of_outer = orchestrator.alloc([16], F32)
        inner.__enter__()
        of_inner = orchestrator.alloc([16], F32)
        raises(RuntimeError, "scope: one that began in it has not ended", lambda: outer.__exit__(None, None, None))
        worker.mapped(of_inner), worker.mapped(of_outer)
        inner.__exit__(None, None, None)
        raises(KeyError, "stale", lambda: worker.mapped(of_inner))
        raises(RuntimeError, "scope: it was not entered, or has ended", lambda: inner.__exit__(None, None, None))
        worker.mapped(of_outer)
        outer.__exit__(None, None, None)
        raises(KeyError, "stale", lambda: worker.mapped(of_outer))
    worker.mapped(kept)
    def generator():
        with orchestrator.scope():
            yield
    begun = generator()
    next(begun)
    with orchestrator.scope():
        tensor = orchestrator.alloc([16], F32)
        raises(RuntimeError, "scope: one that began in it", begun.close)
        worker.mapped(tensor)
    raises(KeyError, "stale", lambda: worker.mapped(tensor))
worker.run(orchestration, timeout=60)
worker.run(lambda orchestrator: orchestrator.alloc([4], F32), timeout=60)
worker.close()
"""
    )


def on_chip(chip: bytes, number: int, base: int = 4096) -> BufferDescriptor:
    return descriptor(
        identity=CanonicalIdentity(chip, number),
        address_space=AddressSpace.DEVICE,
        backend_kind=BackendKind.DEVICE_MALLOC,
        access=AccessMode.READ,
        body=base.to_bytes(8, "little"),
    )


def test_a_registry_that_was_closed_resolves_nothing_wherever_it_lies() -> None:
    chip = mint_owner_instance_id()
    registry = ImportRegistry(ImportContext(False, chip))
    with create_host_shared_buffer(64) as buffer:
        assert registry.resolve(on_chip(chip, 1)) == 4096
        registry.resolve(buffer.to_descriptor())
        registry.close()
        for gone in (on_chip(chip, 1), on_chip(chip, 2), buffer.to_descriptor()):
            with pytest.raises(ValueError, match="the consumer was closed"):
                registry.resolve(gone)


def test_a_chips_own_memory_makes_room_in_the_order_in_which_it_came() -> None:
    chip = mint_owner_instance_id()
    with ImportRegistry(ImportContext(False, chip)) as registry:
        for number in range(4096):
            registry.resolve(on_chip(chip, number))
        with pytest.raises(ValueError, match="import_conflict"):
            registry.resolve(on_chip(chip, 0, base=8192))
        assert registry.resolve(on_chip(chip, 4096)) == 4096
        # Nothing is known of the first one now, and everything of the second.
        with pytest.raises(ValueError, match="import_conflict"):
            registry.resolve(on_chip(chip, 1, base=8192))
        assert registry.resolve(on_chip(chip, 0, base=8192)) == 8192
        registry.unregister(CanonicalIdentity(chip, 2))
        assert registry.resolve(on_chip(chip, 2, base=8192)) == 8192


HELD = """
import threading, time
def hold(kept, view):
    time.sleep(1000)
def exists(name):
    print(os.path.exists("/dev/shm/" + name))
buffer = create_host_shared_buffer(4096)
threading.Thread(target=hold, args=(buffer, buffer.mapped([4], F32)), daemon=True).start()
print(buffer.to_descriptor().body.decode(), flush=True)
"""


@pytest.mark.parametrize(
    "end",
    [
        "",
        "raise SystemExit(0)",
        # Whoever is told earlier still finds it, and a fork takes nothing away.
        "import atexit; atexit.register(exists, buffer.to_descriptor().body.decode())",
        "pid = os.fork()\nif pid: os.waitpid(pid, 0); exists(buffer.to_descriptor().body.decode())",
    ],
)
def test_a_buffer_that_a_daemon_thread_holds_leaves_no_name(end: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRELUDE + HELD + end],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    name, *rest = ran.stdout.splitlines()
    assert not os.path.exists("/dev/shm/" + name), ran.stderr
    assert [line for line in rest if line != name] == (["True"] if "exists" in end else []), ran.stdout


def test_more_bytes_than_a_file_may_have_are_the_machines_limit() -> None:
    program(
        """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
refused = raises(OSError, "4096 bytes are more than a file may have, by RLIMIT_FSIZE", lambda: create_host_shared_buffer(4096))
assert type(refused) is OSError
create_host_shared_buffer(1024).close()
"""
    )


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_of_pickle_gives_an_equal_object(protocol: int) -> None:
    args = TaskArgs()
    with create_host_shared_buffer(4096) as buffer:
        args.add_tensor(buffer.tensor([4, 4], DataType.FLOAT32), TensorArgType.INOUT)
        args.add_scalar(-1)
        identity = buffer.identity
    place = {"address_space": AddressSpace.HOST, "identity": identity, "byte_offset": 0, "nbytes": 4}
    objects = (
        args,
        TaskArgs(),
        Registration(address=1, remote_key=2, nbytes=3),
        Sidecar(**place, address=1, remote_key=2),
        Sidecar(**place, data=b"abcd"),
    )
    for given in objects:
        assert pickle.loads(pickle.dumps(given, protocol)) == given
        assert copy.copy(given) == given and copy.deepcopy(given) == given


def test_task_arguments_are_equal_when_all_of_them_are() -> None:
    with create_host_shared_buffer(4096) as buffer:
        tensor, other = buffer.tensor([4], DataType.INT8), buffer.tensor([5], DataType.INT8)
    made = []
    for first, tag, scalar in ((tensor, 0, 1), (other, 0, 1), (tensor, 1, 1), (tensor, 0, 2)):
        args = TaskArgs()
        args.add_tensor(first, TensorArgType(tag))
        args.add_scalar(scalar)
        made.append(args)
    assert [args == made[0] for args in made] == [True, False, False, False]
    assert made[0] != TaskArgs() and made[0] != 1
    with pytest.raises(TypeError):
        hash(made[0])
