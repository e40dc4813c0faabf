"""MappedArg and MappedArgs: memory where it lies, through every door that Python has."""

import ctypes
import gc
import sys
import zlib

import numpy as np
import pytest
from bufabi import AccessMode, DataType, bytes_copied
from conftest import blob_of

NUMPY = {
    DataType.FLOAT32: np.float32,
    DataType.FLOAT16: np.float16,
    DataType.INT32: np.int32,
    DataType.INT16: np.int16,
    DataType.INT8: np.int8,
    DataType.UINT8: np.uint8,
    DataType.INT64: np.int64,
    DataType.UINT64: np.uint64,
    DataType.UINT16: np.uint16,
    DataType.UINT32: np.uint32,
    DataType.BOOL: np.bool_,
}
WITHOUT_FORMAT = [dtype for dtype in DataType if dtype not in NUMPY]


@pytest.mark.parametrize("dtype", list(NUMPY))
@pytest.mark.parametrize("way", ["asarray", "interface", "dlpack", "memoryview"])
def test_numpy_takes_every_type_with_its_shape_and_strides(make, dtype: DataType, way: str) -> None:
    size = np.dtype(NUMPY[dtype]).itemsize
    whole = np.asarray(make(4096).mapped([4096], DataType.UINT8))
    whole[:] = np.arange(4096) % 2
    buffer = make(4096)
    np.asarray(buffer.mapped([4096], DataType.UINT8))[:] = whole
    view = buffer.mapped([3, 4, 2], dtype, [37, 5, 2], 8 * size)
    array = {
        "asarray": np.asarray,
        "interface": lambda view: np.asarray(Interface(view.__array_interface__, view)),
        "dlpack": np.from_dlpack,
        "memoryview": lambda view: np.asarray(memoryview(view)),
    }[way](view)
    expected = np.lib.stride_tricks.as_strided(whole.view(NUMPY[dtype])[8:], (3, 4, 2), (37 * size, 5 * size, 2 * size))
    assert array.dtype == NUMPY[dtype]
    assert (array.shape, array.strides) == (expected.shape, expected.strides)
    assert array.tobytes() == expected.tobytes()
    assert array.ctypes.data == view.address
    array[2, 3, 1] = 1
    other = np.asarray(buffer.mapped([1], dtype, None, (8 + 2 * 37 + 3 * 5 + 2) * size))
    assert other[0] == 1


class Interface:
    """Something that has the array interface and nothing else."""

    def __init__(self, interface: dict[str, object], keep: object) -> None:
        self.__array_interface__ = interface
        self.keep = keep


def test_nothing_is_copied(make, registry) -> None:
    before = bytes_copied()
    buffer = make()
    mapped = registry.mapped_args_from_blob(blob_of(buffer.tensor([1024], DataType.FLOAT32)))
    np.asarray(mapped[0])[:] = 2.0
    assert np.asarray(buffer.mapped([1024], DataType.FLOAT32)).sum() == 2048.0
    assert bytes_copied() == before


def test_exactly_the_bytes_of_the_view_and_no_others(make) -> None:
    view = memoryview(make().mapped([5], DataType.INT16, None, 6))
    assert (view.nbytes, view.itemsize, view.format, view.shape, view.strides, view.ndim) == (10, 2, "h", (5,), (2,), 1)
    assert not view.readonly
    with pytest.raises(IndexError):
        view[5] = 1


@pytest.mark.parametrize("access", list(AccessMode))
def test_it_is_read_only_where_the_right_is_read(make, registry, access: AccessMode) -> None:
    mapped = registry.mapped_args_from_blob(blob_of(make(64, access).tensor([4], DataType.INT32)))[0]
    is_read_only = access is AccessMode.READ
    assert (mapped.readonly, mapped.access) == (is_read_only, access)
    assert np.asarray(mapped).flags.writeable is not is_read_only
    assert memoryview(mapped).readonly is is_read_only
    assert mapped.__array_interface__["data"] == (mapped.address, is_read_only)
    assert np.from_dlpack(mapped).flags.writeable is not is_read_only
    if is_read_only:
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(mapped)[0] = 1
        with pytest.raises(BufferError, match="max_version"):
            mapped.__dlpack__()
        with pytest.raises(BufferError, match="max_version"):
            mapped.__dlpack__(max_version=(0, 8))
        with pytest.raises((BufferError, TypeError)):
            (ctypes.c_int32 * 4).from_buffer(mapped)
    else:
        (ctypes.c_int32 * 4).from_buffer(mapped)[1] = 9
        assert np.asarray(mapped)[1] == 9
    gc.collect()


def test_dlpack_says_where_it_is_and_makes_no_copy(make) -> None:
    mapped = make().mapped([4], DataType.FLOAT32)
    assert mapped.__dlpack_device__() == (1, 0)
    assert '"dltensor"' in repr(mapped.__dlpack__())
    assert '"dltensor_versioned"' in repr(mapped.__dlpack__(max_version=(1, 0)))
    assert '"dltensor_versioned"' in repr(mapped.__dlpack__(max_version=(2, 3), dl_device=(1, 0), copy=False))
    for asked in ({"stream": 1}, {"dl_device": (2, 0)}, {"copy": True}):
        with pytest.raises(BufferError):
            mapped.__dlpack__(**asked)
    with pytest.raises(TypeError):
        mapped.__dlpack__(None)  # type: ignore[misc]


def test_a_capsule_that_nobody_takes_lets_go(make) -> None:
    buffer = make()
    for version in (None, (1, 0)):
        capsule = buffer.mapped([4], DataType.FLOAT32).__dlpack__(max_version=version)
        with pytest.raises(BufferError):
            buffer.close()
        del capsule
    buffer.close()


@pytest.mark.parametrize(
    ("shapes", "strides", "is_c", "is_fortran"),
    [
        ([4, 8], [8, 1], True, False),
        ([4, 8], [1, 4], False, True),
        ([4, 8], [16, 2], False, False),
        ([1, 8], [99, 1], True, True),
        ([8], [1], True, True),
        ([8], [2], False, False),
    ],
)
def test_requests_for_dense_bytes_are_met_or_refused(
    make, shapes: list[int], strides: list[int], is_c: bool, is_fortran: bool
) -> None:
    mapped = make().mapped(shapes, DataType.FLOAT32, strides)
    view = memoryview(mapped)
    assert (view.c_contiguous, view.f_contiguous) == (is_c, is_fortran)
    if is_c:
        assert zlib.crc32(mapped) == zlib.crc32(bytes(view.nbytes))
    else:
        with pytest.raises(BufferError, match="not contiguous"):
            zlib.crc32(mapped)


@pytest.mark.parametrize("dtype", WITHOUT_FORMAT)
def test_types_without_a_format_are_bytes_of_their_size(make, dtype: DataType) -> None:
    mapped = make().mapped([3, 2], dtype, [5, 2])
    with pytest.raises(BufferError, match=f"{dtype.name} has no format among buffers"):
        memoryview(mapped)
    array = np.asarray(mapped)
    size = mapped.itemsize
    assert (array.dtype.kind, array.dtype.itemsize) == ("V", size)
    assert (array.shape, array.strides) == ((3, 2), (5 * size, 2 * size))
    assert array.ctypes.data == mapped.address


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(DataType.BFLOAT16, "bfloat16"), (DataType.FP8E4M3FN, "float8_e4m3fn"), (DataType.FP8E8M0, "float8_e8m0fnu")],
)
def test_ml_dtypes_knows_the_small_floats(make, dtype: DataType, name: str) -> None:
    import ml_dtypes

    buffer = make()
    array = buffer.mapped([4, 2], dtype, [6, 3]).numpy()
    assert array.dtype == getattr(ml_dtypes, name)
    assert array.shape == (4, 2)
    array[3, 1] = 2.0
    assert float(buffer.mapped([4, 2], dtype, [6, 3]).numpy()[3, 1]) == 2.0


def test_the_other_types_need_nothing_but_numpy(make) -> None:
    for dtype, expected in NUMPY.items():
        assert make().mapped([4], dtype).numpy().dtype == expected
    assert make().mapped([4], DataType.FP4E2M1).numpy().dtype.itemsize == 1


def test_a_view_that_overlaps_itself_is_a_view(make) -> None:
    buffer = make()
    np.asarray(buffer.mapped([16], DataType.INT32))[:] = np.arange(16)
    windows = np.asarray(buffer.mapped([4, 3], DataType.INT32, [1, 1]))
    assert windows.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]


def test_arguments_are_a_sequence_and_scalars_come_along(make, registry) -> None:
    buffer = make()
    tensors = [buffer.tensor([4], DataType.INT32, byte_offset=16 * index) for index in range(3)]
    mapped = registry.mapped_args_from_blob(blob_of(*tensors, scalars=(7, 8)))
    assert len(mapped) == 3
    assert [argument.address - mapped[0].address for argument in mapped] == [0, 16, 32]
    assert mapped[-1].address == mapped[2].address
    assert (mapped.scalars, mapped.scalar(1), mapped.scalar(-2)) == ((7, 8), 8, 7)
    first, second, third = mapped
    assert (first.shape, first.strides, first.ndim, first.nbytes, first.dtype) == ((4,), (1,), 1, 16, DataType.INT32)
    assert second.itemsize == third.itemsize == 4
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"there is no argument {index} among 3"):
            mapped[index]
    with pytest.raises(IndexError, match="there is no scalar 2 among 2"):
        mapped.scalar(2)
    with pytest.raises(TypeError):
        mapped["0"]  # type: ignore[index]
    assert len(registry.mapped_args_from_blob(bytes(8))) == 0


def test_views_outlive_what_they_were_made_of(make, registry) -> None:
    buffer = make()
    array = np.asarray(registry.mapped_args_from_blob(blob_of(buffer.tensor([4], DataType.INT32)))[0])
    gc.collect()
    array[0] = 5
    assert np.asarray(buffer.mapped([4], DataType.INT32))[0] == 5
    base = array.base
    assert sys.getrefcount(base) >= 2


def test_reference_counts_come_back(make) -> None:
    mapped = make().mapped([4], DataType.FLOAT32)
    counted = sys.getrefcount(mapped)
    for view in (memoryview, np.asarray, np.from_dlpack, lambda view: view.__dlpack__(), lambda view: view.numpy()):
        kept = [view(mapped) for _ in range(10)]
        del kept
    gc.collect()
    assert sys.getrefcount(mapped) == counted
