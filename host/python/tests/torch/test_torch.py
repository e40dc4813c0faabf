"""The same memory under torch."""

import gc
import os

import numpy as np
import pytest
import torch
from bufabi import AccessMode, DataType, bytes_copied, wrap_fork_inherited
from conftest import blob_of

TORCH = {
    DataType.FLOAT32: torch.float32,
    DataType.FLOAT16: torch.float16,
    DataType.INT32: torch.int32,
    DataType.INT16: torch.int16,
    DataType.INT8: torch.int8,
    DataType.UINT8: torch.uint8,
    DataType.BFLOAT16: torch.bfloat16,
    DataType.INT64: torch.int64,
    DataType.UINT64: torch.uint64,
    DataType.UINT16: torch.uint16,
    DataType.UINT32: torch.uint32,
    DataType.BOOL: torch.bool,
    DataType.FP8E4M3FN: torch.float8_e4m3fn,
    DataType.FP8E8M0: torch.float8_e8m0fnu,
}


@pytest.mark.parametrize("dtype", list(TORCH))
def test_torch_takes_every_type_with_its_shape_and_strides(make, dtype: DataType) -> None:
    buffer = make()
    np.asarray(buffer.mapped([4096], DataType.UINT8))[:] = np.arange(4096) % 2
    mapped = buffer.mapped([3, 4, 2], dtype, [37, 5, 2], 64)
    tensor = torch.from_dlpack(mapped)
    assert (tensor.dtype, tuple(tensor.shape), tensor.stride()) == (TORCH[dtype], (3, 4, 2), (37, 5, 2))
    assert tensor.data_ptr() == mapped.address
    assert mapped.torch().data_ptr() == mapped.address
    del tensor
    gc.collect()


@pytest.mark.parametrize("dtype", list(TORCH))
def test_frombuffer_takes_contiguous_views(make, dtype: DataType) -> None:
    buffer = make()
    mapped = buffer.mapped([64], dtype, None, 128)
    tensor = torch.frombuffer(mapped, dtype=TORCH[dtype])
    assert (tensor.numel(), tensor.data_ptr()) == (64, mapped.address)
    with pytest.raises(RuntimeError, match="contiguous"):
        torch.frombuffer(buffer.mapped([8], dtype, [2]), dtype=TORCH[dtype])
    del tensor
    gc.collect()


def test_stores_arrive_and_nothing_is_copied(make, registry) -> None:
    before = bytes_copied()
    buffer = make()
    mapped = registry.mapped_args_from_blob(blob_of(buffer.tensor([4, 8], DataType.BFLOAT16)))[0]
    torch.from_dlpack(mapped).fill_(1.5)
    ours = torch.from_dlpack(buffer.mapped([4, 8], DataType.BFLOAT16))
    assert ours.sum().item() == 48.0
    assert bytes_copied() == before


def test_a_right_to_read_needs_a_dlpack_that_can_say_so(make, registry) -> None:
    mapped = registry.mapped_args_from_blob(blob_of(make(64, AccessMode.READ).tensor([4], DataType.FLOAT32)))[0]
    with pytest.raises(BufferError, match="max_version"):
        torch.utils.dlpack.from_dlpack(mapped.__dlpack__())
    assert torch.from_dlpack(mapped).data_ptr() == mapped.address
    gc.collect()


def test_closing_is_refused_while_a_tensor_is_alive(make) -> None:
    buffer = make()
    tensor = torch.from_dlpack(buffer.mapped([4], DataType.FLOAT32))[1:3]
    with pytest.raises(BufferError, match="views_alive"):
        buffer.close()
    del tensor
    gc.collect()
    buffer.close()


def test_memory_of_torch_has_a_name_for_forks() -> None:
    private, shared = torch.arange(16, dtype=torch.float32), torch.zeros(16, dtype=torch.float32).share_memory_()
    with wrap_fork_inherited(private.numpy()) as copied, wrap_fork_inherited(shared.numpy()) as common:
        assert copied.to_descriptor().backend_kind.name == "FORK_COW"
        assert common.to_descriptor().backend_kind.name == "FORK_SHM"
        assert int.from_bytes(copied.to_descriptor().body, "little") == private.data_ptr()


def test_thousands_of_tensors_are_flat(make) -> None:
    mapped = make().mapped([16], DataType.FLOAT32)

    def resident() -> int:
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    for _ in range(1000):
        torch.from_dlpack(mapped)
    before = resident()
    for _ in range(100_000 if os.environ.get("BUFABI_LONG") == "1" else 2_000):
        torch.from_dlpack(mapped)
    assert resident() - before < 2 << 20
