"""ImportContext and ImportRegistry: each identity mapped once."""

import struct
import threading

import numpy as np
import pytest
from bufabi import (
    AccessMode,
    AddressSpace,
    BackendKind,
    BufferDescriptor,
    CanonicalIdentity,
    ChipStorageTaskArgs,
    DataType,
    ImportContext,
    ImportRegistry,
    TaskArgs,
    Tensor,
    TensorArgType,
    materialize_task_args,
    mint_owner_instance_id,
    owner_instance_id,
    wrap_device_malloc,
    wrap_vmm_window,
)
from conftest import IDENTITY, blob_of, descriptor, in_a_new_process

F32 = DataType.FLOAT32


def test_a_context_is_a_host_or_a_chip() -> None:
    assert ImportContext(True).is_host_endpoint
    assert ImportContext(True).owning_chip_instance_id is None
    chip = ImportContext(False, b"12345678")
    assert not chip.is_host_endpoint
    assert chip.owning_chip_instance_id == b"12345678"
    with pytest.raises(ValueError, match="a host endpoint owns no chip"):
        ImportContext(True, b"12345678")
    with pytest.raises(ValueError, match="a chip endpoint needs"):
        ImportContext(False)
    with pytest.raises(ValueError, match="exactly 8 bytes, found 3"):
        ImportContext(False, b"123")
    with pytest.raises(TypeError):
        ImportRegistry(True)  # type: ignore[arg-type]
    host, chip = ImportContext(True), ImportContext(False, b"the chip")
    assert (host, chip) == (ImportContext(True), ImportContext(False, b"the chip"))
    assert len({host, chip, ImportContext(False, b"a chip's"), ImportContext(True)}) == 3


def test_ones_own_identity_is_ones_own_mapping_and_no_import(make, registry) -> None:
    buffer = make()
    address = registry.resolve(buffer.to_descriptor())
    assert address == buffer.mapped([1], F32).address
    assert registry.resolve(buffer.tensor([4], F32, byte_offset=16)) == address
    assert (registry.live, registry.imports) == (0, 0)


CONSUMER = """
import sys, bufabi, numpy as np
from bufabi import *
described = BufferDescriptor.from_bytes(bytes.fromhex(sys.argv[1]))
registry = ImportRegistry(ImportContext(True))
"""


def test_another_process_maps_once_and_sees_the_same_bytes(make) -> None:
    buffer = make()
    ours = np.asarray(buffer.mapped([4, 256], F32))
    ours[1, :] = 3.0
    script = (
        CONSUMER
        + """
first = registry.resolve(described)
assert registry.resolve(described) == registry.resolve(Tensor(buffer=described, shapes=[1], dtype=0)) == first
assert (registry.live, registry.imports, registry.hits) == (1, 1, 2)
args = TaskArgs()
args.add_tensor(Tensor(buffer=described, byte_offset=1024, shapes=[256], dtype=DataType.FLOAT32), TensorArgType.INOUT)
mapped = registry.mapped_args_from_blob(write_blob(args))
assert mapped[0].address == first + 1024
row = np.asarray(mapped[0])
assert row.sum() == 768.0
row *= 2
del row, mapped
registry.unregister(described.identity)
registry.unregister(described.identity)
assert registry.live == 0
assert registry.resolve(described) != 0 and registry.imports == 2
registry.close()
try:
    registry.resolve(described)
except ValueError as error:
    assert error.rule == "released", error
print("done")
"""
    )
    ran = in_a_new_process(script, buffer.to_descriptor().to_bytes().hex())
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    assert ours.sum() == 1536.0
    del ours


def test_a_store_through_a_right_to_read_faults(make) -> None:
    buffer = make(4096, AccessMode.READ)
    script = (
        CONSUMER
        + """
import ctypes
address = registry.resolve(described)
assert ctypes.c_uint8.from_address(address).value == 0
mapped = registry.mapped_args_from_blob(bytes.fromhex(sys.argv[2]))
assert mapped[0].readonly and not np.asarray(mapped[0]).flags.writeable
print("mapped", flush=True)
ctypes.c_uint8.from_address(address).value = 1
"""
    )
    blob = blob_of(buffer.tensor([4], F32))
    ran = in_a_new_process(script, buffer.to_descriptor().to_bytes().hex(), blob.hex())
    assert ran.stdout == "mapped\n"
    assert ran.returncode == -11


def test_an_identity_that_comes_again_otherwise_is_refused_and_the_first_stays(make) -> None:
    buffer = make()
    script = (
        CONSUMER
        + """
first = registry.resolve(described)
for change in ({"nbytes": 100}, {"access": AccessMode.READ}, {"body": b"other"}):
    fields = dict(identity=described.identity, address_space=0, access=described.access,
                  backend_kind=described.backend_kind, nbytes=described.nbytes, body=described.body) | change
    try:
        registry.resolve(BufferDescriptor(**fields))
    except ValueError as error:
        assert error.rule == "import_conflict" and next(iter(change)) in str(error), error
    else:
        raise SystemExit("it was not refused")
padded = bytearray(described.to_bytes())
padded[5] = padded[30] = 0xFF
assert registry.resolve(BufferDescriptor.from_bytes(padded)) == first
assert registry.live == 1
print("done")
"""
    )
    ran = in_a_new_process(script, buffer.to_descriptor().to_bytes().hex())
    assert (ran.stdout, ran.stderr) == ("done\n", "")


def test_ones_own_identity_is_known_as_its_owner_knows_it(make, registry) -> None:
    buffer = make()
    forged = bytearray(buffer.to_descriptor().to_bytes())
    forged[3] = AccessMode.READ
    with pytest.raises(ValueError, match="^import_conflict: .*access"):
        registry.resolve(BufferDescriptor.from_bytes(forged))
    unknown = CanonicalIdentity(owner_instance_id(), 2**40)
    with pytest.raises(KeyError, match="never_existed"):
        registry.resolve(descriptor(identity=unknown))
    described = buffer.to_descriptor()
    buffer.close()
    with pytest.raises(KeyError, match="stale"):
        registry.resolve(described)


def test_what_is_not_there_is_not_found(registry) -> None:
    with pytest.raises(FileNotFoundError, match="shm_not_found: .*nobody-made-it"):
        registry.resolve(descriptor(body=b"nobody-made-it"))
    for name in (b".", b".."):
        with pytest.raises(ValueError, match="shm_name_invalid"):
            registry.resolve(descriptor(body=name))
    with pytest.raises(KeyError, match="not_inherited"):
        registry.resolve(descriptor(backend_kind=BackendKind.FORK_SHM, body=struct.pack("<Q", 4096)))
    assert registry.live == 0
    for wrong in (None, 1, b"", IDENTITY):
        with pytest.raises(TypeError, match="a BufferDescriptor or a Tensor is needed"):
            registry.resolve(wrong)


def device(kind: BackendKind, owner: bytes, base: int = 0x40000000, **fields: object) -> BufferDescriptor:
    identity = CanonicalIdentity(owner, 1)
    body = struct.pack("<Q", base)
    return descriptor(identity=identity, address_space=AddressSpace.DEVICE, backend_kind=kind, body=body, **fields)


@pytest.mark.parametrize("kind", [BackendKind.DEVICE_MALLOC, BackendKind.VMM_WINDOW])
def test_device_memory_resolves_on_the_chip_that_owns_it_alone(registry, kind: BackendKind) -> None:
    chip, other = mint_owner_instance_id(), mint_owner_instance_id()
    described = device(kind, chip)
    for elsewhere in (registry, ImportRegistry(ImportContext(False, other))):
        with pytest.raises(ValueError, match=f"not_resolvable: a {kind.name} backing"):
            elsewhere.resolve(described)
    here = ImportRegistry(ImportContext(False, chip))
    assert here.resolve(described) == here.resolve(described) == 0x40000000
    with pytest.raises(ValueError, match="import_conflict: .*nbytes"):
        here.resolve(device(kind, chip, nbytes=8192))
    here.unregister(described.identity)
    assert here.resolve(device(kind, chip, base=0x50000000)) == 0x50000000
    here.close()


def test_what_has_only_a_sidecar_never_resolves(registry) -> None:
    with pytest.raises(ValueError, match="not_resolvable: a REMOTE_SIDECAR"):
        registry.resolve(descriptor(backend_kind=BackendKind.REMOTE_SIDECAR, body=b""))


def test_device_tensors_are_refused_to_host_compute_naming_the_argument(make, registry) -> None:
    with wrap_device_malloc(0x1000, 64) as on_chip:
        blob = blob_of(make().tensor([1], F32), on_chip.tensor([1], F32))
        with pytest.raises(ValueError, match="not_resolvable: argument 1: a DEVICE_MALLOC backing"):
            registry.mapped_args_from_blob(blob)
    foreign = device(BackendKind.VMM_WINDOW, mint_owner_instance_id())
    blob = blob_of(Tensor(buffer=foreign, shapes=[1], dtype=F32))
    with pytest.raises(ValueError, match="^not_resolvable: argument 0: a VMM_WINDOW backing"):
        registry.mapped_args_from_blob(blob)


def test_a_chip_reads_addresses_and_geometry(make, registry) -> None:
    buffer = make()
    made = registry.materialize(buffer.tensor([3, 4], F32, [16, 2], 64))
    base = registry.resolve(buffer.to_descriptor())
    assert (made.addr, made.size, made.ndims) == (base + 64, (1 + 2 * 16 + 3 * 2) * 4, 2)
    assert (made.shapes, made.strides, made.extent_elem) == ((3, 4), (16, 2), 39)
    assert (made.dtype, made.address_space, made.is_contiguous) == (F32, AddressSpace.HOST, False)
    assert (made.owner_task_id, made.start_offset, made.version, made.manual_dep) == (2**64 - 1, 0, 0, False)
    assert len(made.to_bytes()) == 128
    assert registry.materialize(buffer.tensor([3], F32)).is_contiguous
    with pytest.raises(BufferError):
        buffer.close()


def test_all_arguments_of_a_task_as_a_chip_reads_them(make) -> None:
    chip = owner_instance_id()
    buffer = make()
    with ImportRegistry(ImportContext(False, chip)) as registry, wrap_vmm_window(0x7000, 4096) as window:
        args = TaskArgs()
        args.add_tensor(buffer.tensor([4], F32), TensorArgType.INPUT)
        args.add_tensor(window.tensor([8], DataType.INT8, byte_offset=9), TensorArgType.OUTPUT)
        args.add_scalar(77)
        for made in (
            registry.materialize_args(args),
            materialize_task_args(blob_of(*args.tensors, scalars=args.scalars), registry),
        ):
            assert isinstance(made, ChipStorageTaskArgs)
            assert (made.tensor_count, made.scalar_count, len(made), made.scalar(0)) == (2, 1, 2, 77)
            assert made[0].to_bytes() == registry.materialize(args.tensor(0)).to_bytes()
            assert made.tensor(-1).addr == 0x7009
            record = made.to_bytes()
            assert len(record) == 33856
            assert record[128:256] == made[1].to_bytes()
            assert struct.unpack_from("<Qii", record, 32768 + 0)[0] == 77
            assert struct.unpack_from("<ii", record, 33792) == (2, 1)
            for index in (2, -3):
                with pytest.raises(IndexError):
                    made[index]
            with pytest.raises(IndexError):
                made.scalar(1)
        del made
        with pytest.raises(ValueError, match="computes on its own memory"):
            registry.mapped_args_from_blob(blob_of(buffer.tensor([1], F32)))


def test_a_function_may_say_where_backings_lie(make) -> None:
    first, second = make(64).tensor([4], F32, byte_offset=16), make(64).tensor([2], F32, [3])
    asked: list[Tensor] = []

    def resolve(tensor: Tensor) -> int:
        asked.append(tensor)
        return 0x1000 * len(asked)

    blob = blob_of(first, second, scalars=(5,))
    args = materialize_task_args(blob, resolve)
    assert asked == [first, second]
    assert [(tensor.addr, tensor.shapes, tensor.strides) for tensor in args] == [
        (0x1010, (4,), (1,)),
        (0x2000, (2,), (3,)),
    ]
    assert args.scalar(0) == 5

    def fails(tensor: Tensor) -> int:
        raise LookupError(f"nothing lies at {tensor.byte_offset}")

    with pytest.raises(LookupError, match="nothing lies at 16"):
        materialize_task_args(blob, fails)
    with pytest.raises(ValueError, match="base: -1 is not 0 to 18446744073709551615"):
        materialize_task_args(blob, lambda tensor: -1)
    with pytest.raises(TypeError, match="base: an int is needed, not <class 'NoneType'>"):
        materialize_task_args(blob, lambda tensor: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="address_overflow: argument 0: ") as refused:
        materialize_task_args(blob, lambda tensor: 2**64 - 8)
    assert refused.value.rule == "address_overflow"  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="registry: an ImportRegistry or a function is needed, not <class 'int'>"):
        materialize_task_args(blob, 0x1000)  # type: ignore[arg-type]
    many = blob_of(*[first] * 256, scalars=tuple(range(128)))
    assert (len(materialize_task_args(many, resolve)), materialize_task_args(many, resolve).scalar(-1)) == (256, 127)


def test_an_address_that_no_chip_has_is_refused() -> None:
    chip = mint_owner_instance_id()
    with ImportRegistry(ImportContext(False, chip)) as registry:
        described = device(BackendKind.DEVICE_MALLOC, chip, base=2**64 - 100)
        with pytest.raises(ValueError, match="^address_overflow: "):
            registry.materialize(Tensor(buffer=described, shapes=[1024], dtype=F32))


@pytest.mark.parametrize(
    "view",
    [
        "mapped",
        "mapped[0]",
        "memoryview(mapped[0])",
        "np.asarray(mapped[0])",
        "np.asarray(mapped[0])[1:2]",
        "np.from_dlpack(mapped[0])",
        "mapped[0].__dlpack__()",
        "mapped[0].__dlpack__(max_version=(1, 0))",
        "registry.materialize(tensor)",
        "registry.materialize_args(args)",
    ],
)
def test_unregister_and_close_are_refused_while_a_view_is_alive(make, view: str) -> None:
    buffer = make()
    script = (
        CONSUMER
        + f"""
args, tensor = TaskArgs(), Tensor(buffer=described, shapes=[4], dtype=DataType.FLOAT32)
args.add_tensor(tensor, TensorArgType.NO_DEP)
mapped = registry.mapped_args_from_blob(write_blob(args))
view = {view}
del mapped
for call in (lambda: registry.unregister(described.identity), registry.close):
    try:
        call()
    except BufferError as error:
        assert error.rule == "views_alive", error
        del error
    else:
        raise SystemExit("it was not refused")
assert registry.live == 1
del view
registry.unregister(described.identity)
registry.close()
registry.close()
print("done")
"""
    )
    ran = in_a_new_process(script, buffer.to_descriptor().to_bytes().hex())
    assert (ran.stdout, ran.stderr) == ("done\n", "")


def test_many_threads_map_once(make) -> None:
    buffer = make()
    script = (
        CONSUMER
        + """
import threading
found, barrier = [], threading.Barrier(8)
def work():
    barrier.wait()
    found.append(registry.resolve(described))
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(set(found)) == 1 and len(found) == 8
assert (registry.imports, registry.live, registry.hits) == (1, 1, 7)
print("done")
"""
    )
    ran = in_a_new_process(script, buffer.to_descriptor().to_bytes().hex())
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    assert threading.active_count() == 1


def test_what_nobody_uses_is_evicted(make) -> None:
    buffer = make()
    script = (
        CONSUMER
        + """
registry.resolve(described)
assert registry.evict_unused() == 1 and registry.live == 0 and registry.evict_unused() == 0
print("done")
"""
    )
    ran = in_a_new_process(script, buffer.to_descriptor().to_bytes().hex())
    assert (ran.stdout, ran.stderr) == ("done\n", "")
