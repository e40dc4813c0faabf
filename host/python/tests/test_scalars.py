"""Scalars: 64 bits that travel, of a whole number, of a float, of numpy's, or of a type that is named."""

import math
import re

import numpy as np
import pytest
from bufabi import DataType, RemoteArgs, TaskArgs
from conftest import program

F32, F16, BF16 = DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16


def bits_of(*given: object) -> int:
    args = TaskArgs()
    args.add_scalar(*given)  # type: ignore[arg-type]
    return args.scalars[0]


@pytest.mark.parametrize(
    ("given", "dtype", "bits", "back"),
    [
        (1.5, F32, 0x3FC00000, 1.5),
        (2, F32, 0x40000000, 2.0),
        (0.1, F32, 0x3DCCCCCD, float(np.float32(0.1))),
        (-0.0, np.float32, 0x80000000, -0.0),
        (math.inf, F32, 0x7F800000, math.inf),
        (1.5, F16, 0x3E00, 1.5),
        (1.5, np.float16, 0x3E00, 1.5),
        (1.5, BF16, 0x3FC0, 1.5),
        (-1, DataType.INT8, 0xFF, -1),
        (-128, np.int8, 0x80, -128),
        (-2, DataType.INT64, (1 << 64) - 2, -2),
        ((1 << 64) - 1, DataType.UINT64, (1 << 64) - 1, (1 << 64) - 1),
        (65535, np.dtype("uint16"), 65535, 65535),
        (True, DataType.BOOL, 1, True),
        (np.bool_(False), np.bool_, 0, False),
        (np.float32(1.5), DataType.FLOAT32, 0x3FC00000, 1.5),
        (np.float64(1.5), DataType.FLOAT32, 0x3FC00000, 1.5),
        (np.int64(3), DataType.INT32, 3, 3),
    ],
)
def test_a_value_of_a_named_type_travels_as_its_bits_and_comes_back(given, dtype, bits: int, back) -> None:
    args, remote = TaskArgs(), RemoteArgs()
    assert (args.add_scalar(given, dtype), remote.add_scalar(given, dtype)) == (0, 0)
    assert args.scalars == (bits,)
    assert args.scalar(0) == bits
    assert (args.scalar(-1, dtype), type(args.scalar(0, dtype))) == (back, type(back))
    assert math.copysign(1, args.scalar(0, dtype)) == math.copysign(1, back)


def test_a_scalar_of_numpys_is_its_own_bits_and_every_whole_number_64() -> None:
    assert bits_of(np.float32(1.5)) == 0x3FC00000
    assert bits_of(np.float16(1.5)) == 0x3E00
    assert bits_of(np.array(1.5, np.float32)) == 0x3FC00000
    assert bits_of(np.float64(1.5)) == bits_of(1.5) == 0x3FF8000000000000
    assert bits_of(np.int8(-1)) == bits_of(-1) == (1 << 64) - 1
    assert bits_of(np.bool_(True)) == bits_of(True) == 1
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert bits_of(ml_dtypes.bfloat16(1.5)) == bits_of(1.5, ml_dtypes.bfloat16) == 0x3FC0
    assert bits_of(ml_dtypes.float8_e4m3fn(1.0), DataType.FP8E4M3FN) == 0x38


def test_what_a_type_does_not_have_is_refused_by_name() -> None:
    for given, dtype in [
        (1e39, F32),
        (65520.0, F16),
        (-1, DataType.UINT8),
        (256, DataType.UINT8),
        (128, DataType.INT8),
    ]:
        with pytest.raises(
            ValueError, match=re.escape(f"kernel_scalar: {given} is no value of {dtype.name}")
        ) as refused:
            bits_of(given, dtype)
        assert (refused.value.rule, refused.value.code) == ("kernel_scalar", 221)
    with pytest.raises(ValueError, match="kernel_scalar: 2 is no value of BOOL"):
        bits_of(2, DataType.BOOL)
    with pytest.raises(ValueError, match="kernel_scalar: 18446744073709551616 is no value of INT32"):
        bits_of(1 << 64, DataType.INT32)
    with pytest.raises(TypeError, match="scalar: INT32 takes an int, not <class 'float'>"):
        bits_of(1.5, DataType.INT32)
    with pytest.raises(TypeError, match="given by its bits, as an int without a type"):
        bits_of(1.0, DataType.FP8E4M3FN)
    with pytest.raises(TypeError, match="dtype: no tensor has elements of type float64"):
        bits_of(1.5, np.float64)
    with pytest.raises(TypeError, match="an int, a float or a scalar of numpy is needed, not <class 'str'>"):
        bits_of("1")
    with pytest.raises(TypeError, match="a scalar of numpy is needed"):
        bits_of(np.array([1.5], np.float32))
    args = TaskArgs()
    args.add_scalar(1.5)
    with pytest.raises(ValueError, match="kernel_scalar: the bits 0x3ff8000000000000 are no FLOAT32"):
        args.scalar(0, F32)
    with pytest.raises(IndexError, match="there is no scalar 1 among 1"):
        args.scalar(1, F32)


def test_a_kernel_and_a_function_take_a_float_of_its_type_and_a_refusal_says_how() -> None:
    program("""
worker = Worker(3, chips=1, subs=1)
@worker.register
def halve(args):
    args[0].numpy()[:] *= args.scalar(0, F32)
x, y = worker.create_buffer(16), worker.create_buffer(16)
x.mapped([4], F32).numpy()[:] = [1, 2, 3, 4]
def scaled(*scalar):
    def orchestration(o):
        args = args_of((x.tensor([4], F32), Tag.INPUT), (y.tensor([4], np.float32), Tag.OUTPUT_EXISTING))
        args.add_scalar(*scalar)
        o.submit_next_level("scale", args)
    worker.run(orchestration, 60)
    return y.mapped([4], F32).numpy().tolist()
assert scaled(1.5, F32) == scaled(np.float32(1.5)) == [1.5, 3.0, 4.5, 6.0]
refused = raises(ValueError, "which are no FLOAT32", lambda: scaled(1.5))
assert refused.rule == "kernel_scalar" and "add_scalar(value, dtype)" in refused.__notes__[0], refused.__notes__
def orchestration(o):
    args = args_of((y.tensor([4], F32), Tag.INOUT))
    args.add_scalar(0.5, F32)
    o.submit_sub(halve, args)
assert scaled(2, F32) == [2, 4, 6, 8]
worker.run(orchestration, 60)
assert y.mapped([4], F32).numpy().tolist() == [1, 2, 3, 4]
worker.close()
""")


def test_a_type_of_numpys_names_elements_wherever_a_data_type_does(make) -> None:
    buffer = make(64)
    for given in (np.int32, np.dtype(np.int32), np.dtype("<i4"), np.zeros(1, np.int32).dtype):
        assert buffer.tensor((4,), given) == buffer.tensor((4,), DataType.INT32)
    names = {"float32", "float16", "int32", "int16", "int8", "uint8", "int64", "uint64", "uint16", "uint32", "bool"}
    for name in names:
        assert buffer.tensor([1], np.dtype(name)).dtype is DataType[name.upper()]
        assert buffer.mapped([1], np.dtype(name)).numpy().dtype == name
    for refused in (np.float64, np.dtype(">i4"), np.complex64, "float32", float):
        with pytest.raises(TypeError):
            buffer.tensor([1], refused)
    with pytest.raises(TypeError, match="shapes: a sequence of ints is needed, not <class 'int'>"):
        buffer.tensor(4, np.int32)  # type: ignore[arg-type]
