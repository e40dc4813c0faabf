"""The same memory under torch."""

import gc
import os
import random

import ml_dtypes
import numpy as np
import pytest
import torch
from bufabi import AccessMode, DataType, TaskArgs, bytes_copied, wrap_fork_inherited
from conftest import blob_of, in_a_new_process

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


@pytest.mark.parametrize("ndim", range(1, 6))
def test_torch_and_numpy_see_the_same_elements_of_any_view(make, ndim: int) -> None:
    buffer = make()
    np.asarray(buffer.mapped([2048], DataType.UINT16))[:] = np.arange(2048)
    chance = random.Random(ndim)
    for _ in range(200):
        # Overlapping windows, transposed ones, gaps, and dimensions of one element, whose stride is anything.
        shapes = [chance.choice([1, 2, 3, 5]) for _ in range(ndim)]
        strides = [chance.choice([1, 2, 7, 31, 90]) for _ in range(ndim)]
        mapped = buffer.mapped(shapes, DataType.UINT16, strides, 2 * chance.randrange(100))
        tensor, array = torch.from_dlpack(mapped), np.asarray(mapped)
        assert (tuple(tensor.shape), tensor.stride()) == (mapped.shape, mapped.strides)
        assert tensor.data_ptr() == mapped.address == array.ctypes.data
        # No store in between: both read where it lies.
        assert tensor.numpy().tobytes() == array.tobytes()


def test_views_that_torch_could_have_but_the_wire_has_not_are_refused(make) -> None:
    buffer = make()
    for shapes, strides, error, words in [
        ([0], None, ValueError, "shape_zero"),
        ([4], [0], ValueError, "stride_zero"),
        ([4], [-1], ValueError, "strides[0]: -1 is not 0 to 4294967295"),
        ([], None, ValueError, "ndims"),
        ([1] * 6, None, ValueError, "ndims"),
    ]:
        with pytest.raises(error) as raised:
            buffer.mapped(shapes, DataType.FLOAT32, strides)
        assert words in str(raised.value)


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


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(DataType.BFLOAT16, "bfloat16"), (DataType.FP8E4M3FN, "float8_e4m3fn"), (DataType.FP8E8M0, "float8_e8m0fnu")],
)
def test_small_floats_have_the_same_values_in_torch_and_ml_dtypes(make, dtype: DataType, name: str) -> None:
    buffer = make(1 << 17)
    mapped = buffer.mapped([1 << 8 * buffer.mapped([1], dtype).itemsize], dtype)
    array, tensor = mapped.numpy(), mapped.torch()
    assert array.dtype == getattr(ml_dtypes, name)
    bits = torch.from_dlpack(buffer.mapped([tensor.numel()], {1: DataType.UINT8, 2: DataType.UINT16}[mapped.itemsize]))
    bits[:] = torch.arange(tensor.numel(), dtype=torch.int32).to(bits.dtype)
    np.testing.assert_array_equal(tensor.float().numpy(), array.astype(np.float32))
    # Stores through either are read through the other.
    tensor[3], array[5] = 2.0, 4.0
    assert (float(array[3]), tensor[5].item()) == (2.0, 4.0)


def test_two_values_in_a_byte_stay_bytes(make) -> None:
    mapped = make().mapped([8], DataType.FP4E2M1)
    assert torch.from_dlpack(mapped).dtype == torch.uint8
    assert torch.frombuffer(mapped, dtype=torch.uint8).data_ptr() == mapped.address
    gc.collect()


def test_a_right_to_read_needs_a_dlpack_that_can_say_so(make, registry) -> None:
    mapped = registry.mapped_args_from_blob(blob_of(make(64, AccessMode.READ).tensor([4], DataType.FLOAT32)))[0]
    with pytest.raises(BufferError, match="max_version"):
        torch.utils.dlpack.from_dlpack(mapped.__dlpack__())
    assert torch.from_dlpack(mapped).data_ptr() == mapped.address
    gc.collect()


def test_a_store_over_a_right_to_read_faults_where_the_owner_is_not() -> None:
    script = """
import subprocess, sys
from bufabi import *
if len(sys.argv) == 1:
    with create_host_shared_buffer(64, AccessMode.READ) as buffer:
        described = buffer.to_descriptor().to_bytes().hex()
        ran = subprocess.run([sys.executable, "-c", sys.orig_argv[2], described], stdout=subprocess.PIPE)
        print(ran.returncode, ran.stdout.decode())
else:
    import torch
    descriptor, args = BufferDescriptor.from_bytes(bytes.fromhex(sys.argv[1])), TaskArgs()
    args.add_tensor(Tensor(buffer=descriptor, shapes=[4], dtype=DataType.FLOAT32), TensorArgType.INPUT)
    tensor = torch.from_dlpack(ImportRegistry(ImportContext(True)).mapped_args_from_blob(write_blob(args))[0])
    print(tensor.sum().item(), flush=True)
    tensor[0] = 1
    print("stored")
"""
    ran = in_a_new_process(script)
    assert (ran.stdout.split(), ran.stderr) == (["-11", "0.0"], "")


def test_closing_is_refused_while_a_tensor_is_alive(make) -> None:
    buffer = make()
    tensor = torch.from_dlpack(buffer.mapped([4], DataType.FLOAT32))[1:3]
    with pytest.raises(BufferError, match="views_alive"):
        buffer.close()
    del tensor
    gc.collect()
    buffer.close()


def test_a_tensor_outlives_all_that_refused_to_close_under_it(make) -> None:
    script = """
import gc, sys, torch
from bufabi import *
descriptor, registry = BufferDescriptor.from_bytes(bytes.fromhex(sys.argv[1])), ImportRegistry(ImportContext(True))
args = TaskArgs()
args.add_tensor(Tensor(buffer=descriptor, shapes=[4], dtype=DataType.INT32), TensorArgType.INOUT)
tensor = torch.from_dlpack(registry.mapped_args_from_blob(write_blob(args))[0])[1:]
for close in (lambda: registry.unregister(descriptor.identity), registry.close):
    try:
        close()
    except BufferError as error:
        print(error.rule, registry.live)
del registry
gc.collect()
tensor[1] = 7
"""
    buffer = make()
    ran = in_a_new_process(script, buffer.to_descriptor().to_bytes().hex())
    assert (ran.returncode, ran.stdout.split(), ran.stderr) == (0, ["views_alive", "1"] * 2, "")
    assert np.asarray(buffer.mapped([4], DataType.INT32)).tolist() == [0, 0, 7, 0]


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


def test_functions_in_torch_run_in_sub_workers_on_memory_of_torch() -> None:
    script = """
import os
os.environ["OPENBLAS_NUM_THREADS"] = "1"
import torch
from bufabi import *
worker = Worker(3, subs=1)
private = torch.arange(6, dtype=torch.bfloat16, requires_grad=True)
common = torch.zeros(2, 3).share_memory_()
first, second = worker.make_tensor_arg(private), worker.make_tensor_arg(common)
assert (first.dtype, first.shapes, first.access) == (DataType.BFLOAT16, (6,), AccessMode.READ)
assert (second.buffer.backend_kind, second.shapes) == (BackendKind.FORK_SHM, (2, 3))
for wrong, error in [(common.t(), BufferError), (torch.zeros(2, dtype=torch.complex64), TypeError)]:
    try:
        worker.make_tensor_arg(wrong)
    except error:
        pass
    else:
        raise SystemExit("it was taken")

@worker.register
def double(args):
    source, target, other = (arg.torch() for arg in args)
    target.copy_((2 * source.float()).reshape(2, 3))
    other.fill_(args.scalar(0))

with worker:
    worker.start()
    buffer = worker.create_buffer(8)
    args = TaskArgs()
    args.add_tensor(first, TensorArgType.INPUT)
    args.add_tensor(second, TensorArgType.OUTPUT)
    args.add_tensor(buffer.tensor([4], DataType.BFLOAT16), TensorArgType.OUTPUT)
    args.add_scalar(3)
    report, = worker.run(lambda orchestrator: orchestrator.submit_sub(double, args), timeout=60)
    assert (report.bytes_copied, report.resolutions) == (0, ("inherited", "inherited", "mapped now"))
    assert common.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert buffer.mapped([4], DataType.BFLOAT16).torch().tolist() == [3.0] * 4
    worker.release_buffer(buffer)
print("done")
"""
    ran = in_a_new_process(script)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")


@pytest.mark.parametrize("dtype", list(TORCH))
def test_a_type_of_torchs_names_elements(make, dtype: DataType) -> None:
    buffer = make()
    assert buffer.tensor([2], TORCH[dtype]) == buffer.tensor([2], dtype)


def test_a_type_of_torchs_names_the_bits_of_a_scalar() -> None:
    args = TaskArgs()
    args.add_scalar(torch.tensor(1.5), torch.bfloat16)
    args.add_scalar(1.5, torch.float32)
    assert (args.scalars, args.scalar(0, torch.bfloat16)) == ((0x3FC0, 0x3FC00000), 1.5)
    with pytest.raises(TypeError, match="dtype: no tensor has elements of type float64"):
        args.add_scalar(1.5, torch.float64)
