"""Names for what somebody else allocated."""

import mmap
import struct

import numpy as np
import pytest
from bufabi import (
    AccessMode,
    BackendKind,
    CanonicalIdentity,
    DataType,
    owner_instance_id,
    wrap_device_malloc,
    wrap_fork_inherited,
    wrap_vmm_shareable,
    wrap_vmm_window,
)
from conftest import blob_of, in_a_new_process

F32 = DataType.FLOAT32


def test_private_memory_is_copied_on_write_and_grants_reading(registry) -> None:
    array = np.arange(16, dtype=np.float32)
    with wrap_fork_inherited(array) as buffer:
        described = buffer.to_descriptor()
        assert (described.backend_kind, described.access, described.nbytes) == (
            BackendKind.FORK_COW,
            AccessMode.READ,
            64,
        )
        assert described.body == struct.pack("<Q", array.ctypes.data)
        assert described.identity.owner_instance_id == owner_instance_id()
        mapped = registry.mapped_args_from_blob(blob_of(buffer.tensor([4, 4], F32)))[0]
        assert np.asarray(mapped).tolist() == array.reshape(4, 4).tolist()
        assert mapped.readonly
        assert mapped.address == array.ctypes.data
        with pytest.raises(BufferError):
            buffer.close()
        del mapped
    with pytest.raises(ValueError, match="fork_cow_access"):
        wrap_fork_inherited(array, AccessMode.READWRITE)


def test_shared_memory_stays_shared(registry) -> None:
    with mmap.mmap(-1, 8192) as memory:
        with wrap_fork_inherited(memory) as buffer:
            described = buffer.to_descriptor()
            assert (described.backend_kind, described.access) == (BackendKind.FORK_SHM, AccessMode.READWRITE)
            mapped = registry.mapped_args_from_blob(blob_of(buffer.tensor([8192], DataType.UINT8)))[0]
            np.asarray(mapped)[5] = 9
            del mapped
            with pytest.raises(BufferError):
                memory.close()
        assert memory[5] == 9
        with wrap_fork_inherited(memory, AccessMode.READ) as buffer:
            assert buffer.to_descriptor().access is AccessMode.READ
        with pytest.raises(ValueError, match="denied: the memory is read-only"):
            wrap_fork_inherited(memoryview(memory).toreadonly(), AccessMode.READWRITE)


def test_the_object_is_kept_until_the_buffer_is_closed() -> None:
    import gc
    import weakref

    array = np.zeros(4, np.float32)
    alive = weakref.ref(array)
    buffer = wrap_fork_inherited(array)
    del array
    gc.collect()
    assert alive() is not None
    buffer.close()
    gc.collect()
    assert alive() is None


def test_a_fork_sees_the_memory_as_its_kind_says() -> None:
    script = """
import mmap, os, bufabi, numpy as np
from bufabi import *
private, shared = np.arange(8, dtype=np.int32), mmap.mmap(-1, 4096)
copied, common = wrap_fork_inherited(private), wrap_fork_inherited(shared)
late = np.arange(8, dtype=np.int32)
def blob(buffer, dtype=DataType.INT32):
    args = TaskArgs()
    args.add_tensor(buffer.tensor([8], dtype), TensorArgType.NO_DEP)
    return write_blob(args)
blobs = blob(copied), blob(common)
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    os.read(read, 1)
    registry = ImportRegistry(ImportContext(True))
    mine = np.asarray(registry.mapped_args_from_blob(blobs[0])[0])
    assert mine.tolist() == list(range(8)), mine
    ours = np.asarray(registry.mapped_args_from_blob(blobs[1])[0])
    assert ours[1] == 77
    ours[0] = 42
    os._exit(0)
private[:] = 0
np.frombuffer(shared, np.int32)[1] = 77
os.write(write, b"x")
assert os.waitpid(pid, 0)[1] == 0
assert np.frombuffer(shared, np.int32)[0] == 42
print("done")
"""
    ran = in_a_new_process(script)
    assert (ran.stdout, ran.stderr) == ("done\n", "")


def test_memory_that_has_no_one_range_of_bytes_is_refused() -> None:
    with pytest.raises(BufferError, match="not C-contiguous"):
        wrap_fork_inherited(np.zeros((4, 4))[:, ::2])
    with pytest.raises(ValueError, match="nbytes_zero"):
        wrap_fork_inherited(np.zeros(0))
    with pytest.raises(TypeError):
        wrap_fork_inherited(4096)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrap", "kind"), [(wrap_device_malloc, BackendKind.DEVICE_MALLOC), (wrap_vmm_window, BackendKind.VMM_WINDOW)]
)
def test_device_memory_is_named_by_its_address(wrap, kind: BackendKind) -> None:
    with wrap(0x1000, 64, AccessMode.READ) as buffer:
        described = buffer.to_descriptor()
        assert (described.backend_kind, described.access, described.nbytes) == (kind, AccessMode.READ, 64)
        assert described.body == struct.pack("<Q", 0x1000)
        assert buffer.tensor([16], F32).extent == 64
        with pytest.raises(ValueError, match="not_resolvable"):
            buffer.mapped([16], F32)
    with pytest.raises(ValueError, match="released"):
        buffer.tensor([16], F32)
    with pytest.raises(ValueError, match="body_null_base"):
        wrap(0, 64)
    with pytest.raises(ValueError, match="nbytes_zero"):
        wrap(0x1000, 0)
    with pytest.raises(ValueError, match="address_overflow"):
        wrap(2**64 - 1, 2)
    with pytest.raises(ValueError, match="base: -1 is not"):
        wrap(-1, 64)


def test_exported_device_memory_keeps_the_identity_that_it_has() -> None:
    identity = CanonicalIdentity(b"12345678", 9, 4)
    fields = {
        "identity": identity,
        "nbytes": 5000,
        "access": AccessMode.READ,
        "device_id": 1,
        "shareable_handle": 11,
        "mapping_bytes": 1 << 21,
    }
    with wrap_vmm_shareable(**fields, owner_worker_path_id=3) as buffer:
        assert buffer.identity == identity
        described = buffer.to_descriptor()
        assert (described.backend_kind, described.owner_worker_path_id) == (BackendKind.VMM_SHAREABLE, 3)
        assert described.body == struct.pack("<iIQQ", 1, 0, 11, 1 << 21)
        with pytest.raises(ValueError, match="wrapped_already"):
            wrap_vmm_shareable(**fields)
    for rule, change in [
        ("body_shareable_handle", {"shareable_handle": 0}),
        ("body_shareable_mapping", {"mapping_bytes": 4999}),
        ("nbytes_zero", {"nbytes": 0}),
        ("device_id: 2147483648 does not fit 32 bits", {"device_id": 1 << 31}),
        ("mapping_bytes: -1 is not 0 to", {"mapping_bytes": -1}),
        ("wrap_own", {"identity": CanonicalIdentity(owner_instance_id(), 1)}),
    ]:
        with pytest.raises(ValueError, match=rule):
            wrap_vmm_shareable(**(fields | change))
