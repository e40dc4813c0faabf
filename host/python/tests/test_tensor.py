"""Tensor."""

import pickle

import pytest
from bufabi import DataType, Tensor
from conftest import descriptor

F32 = DataType.FLOAT32


def tensor(**fields: object) -> Tensor:
    return Tensor(**({"buffer": descriptor(), "shapes": [4, 8], "dtype": F32} | fields))  # type: ignore[arg-type]


def test_it_says_what_it_was_made_of() -> None:
    made = tensor(byte_offset=16, shapes=(2, 3), strides=[16, 2])
    assert made.buffer == descriptor()
    assert made.identity == descriptor().identity
    assert (made.byte_offset, made.ndims, made.shapes, made.strides) == (16, 2, (2, 3), (16, 2))
    assert (made.dtype, made.extent, made.is_contiguous) == (F32, (1 + 16 + 4) * 4, False)
    assert Tensor.from_bytes(made.to_bytes()) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert len({made, Tensor.from_bytes(made.to_bytes()), tensor()}) == 2


def test_strides_are_row_major_unless_given() -> None:
    assert tensor().strides == (8, 1)
    assert tensor().is_contiguous
    assert tensor(shapes=[5, 4, 3, 2, 1]).strides == (24, 6, 2, 1, 1)


def test_anything_that_gives_numbers_is_a_shape() -> None:
    expected = tensor()
    for shapes in ((4, 8), [4, 8], range(4, 9, 4), (n for n in (4, 8)), {4: 0, 8: 0}):
        assert tensor(shapes=shapes) == expected


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        ("ndims", {"shapes": []}),
        ("ndims", {"shapes": [1] * 6}),
        ("ndims", {"shapes": [1] * 1000}),
        ("byte_offset_alignment", {"byte_offset": 2}),
        ("shape_zero", {"shapes": [4, 0]}),
        ("stride_zero", {"strides": [0, 1]}),
        ("out_of_bounds", {"byte_offset": 4096}),
        ("out_of_bounds", {"shapes": [1025]}),
        ("row_major_stride", {"shapes": [2, 2**32 - 1, 2]}),
        ("extent_overflow", {"shapes": [2**32 - 1] * 2, "strides": [2**32 - 1] * 2}),
        ("dtype", {"dtype": 15}),
    ],
)
def test_a_broken_rule_is_named(rule: str, fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"^{rule}: ") as refused:
        tensor(**fields)
    assert refused.value.rule == rule  # type: ignore[attr-defined]


def test_the_numbers_are_in_the_message() -> None:
    with pytest.raises(ValueError, match="4096.*4100|4100.*4096"):
        tensor(shapes=[1025])
    with pytest.raises(ValueError, match=r"shapes\[1\]: -3 is not 0 to 4294967295"):
        tensor(shapes=[4, -3])
    with pytest.raises(ValueError, match=r"strides\[0\]: 4294967296 is not"):
        tensor(strides=[2**32, 1])
    with pytest.raises(TypeError, match=r"shapes\[0\]: an int is needed"):
        tensor(shapes=["4"])
    with pytest.raises(TypeError):
        tensor(shapes=4)
    with pytest.raises(TypeError):
        tensor(buffer=descriptor().to_bytes())


def test_bytes_are_checked_by_the_same_rules() -> None:
    record = tensor().to_bytes()
    for rule, at, byte in [("magic", 0, 0), ("ndims", 96, 6), ("dtype", 140, 15), ("inactive_dims", 116, 1)]:
        broken = bytearray(record)
        broken[at] = byte
        with pytest.raises(ValueError, match=f"^{rule}: "):
            Tensor.from_bytes(broken)
    with pytest.raises(ValueError, match="^size: "):
        Tensor.from_bytes(record[:-1])


def test_an_element_has_the_size_of_its_type() -> None:
    sizes = (4, 2, 4, 2, 1, 1, 2, 8, 8, 2, 4, 1, 1, 1, 1)
    made = [Tensor(buffer=descriptor(), shapes=[1], dtype=dtype) for dtype in DataType]
    assert tuple(tensor.itemsize for tensor in made) == sizes


@pytest.mark.parametrize(("shapes", "strides"), [([4], [1, 1]), ([4, 1], [1]), ([4], [])])
def test_as_many_strides_as_dimensions_are_needed(shapes: list[int], strides: list[int]) -> None:
    with pytest.raises(ValueError, match=f"^strides: {len(strides)} are given for {len(shapes)} dimensions$"):
        Tensor(buffer=descriptor(), shapes=shapes, strides=strides, dtype=DataType.FLOAT32)
