"""TaskArgs, and the blob that they travel as."""

import copy
import pickle
import struct

import numpy as np
import pytest
from bufabi import AccessMode, DataType, TaskArgs, TensorArgType, read_args_from_blob, write_blob
from conftest import blob_of, descriptor

F32 = DataType.FLOAT32
Tag = TensorArgType


def test_tensors_come_with_their_tags_and_then_scalars(make) -> None:
    buffer = make()
    first, second = buffer.tensor([4], F32), buffer.tensor([4], F32, byte_offset=16)
    args = TaskArgs()
    assert (args.add_tensor(first, Tag.INPUT), args.add_tensor(second, Tag.OUTPUT)) == (0, 1)
    assert (args.add_scalar(3), args.add_scalar(2**64 - 1)) == (0, 1)
    assert (args.tensor_count, args.scalar_count, len(args)) == (2, 2, 4)
    assert (args.tensor(0), args.tensor(-1), args.tensors) == (first, second, (first, second))
    assert (args.tag(0), args.tag(1), args.scalar(1), args.scalars) == (
        Tag.INPUT,
        Tag.OUTPUT,
        2**64 - 1,
        (3, 2**64 - 1),
    )
    args.set_tag(1, Tag.INOUT)
    assert args.tag(-1) is Tag.INOUT
    args.check()
    args.clear()
    assert len(args) == 0


def test_scalars_are_64_bits_of_a_number() -> None:
    args = TaskArgs()
    for scalar in (-1, 1.5, True, 2**63):
        args.add_scalar(scalar)
    assert args.scalars == (2**64 - 1, struct.unpack("<Q", struct.pack("<d", 1.5))[0], 1, 2**63)
    for wrong in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="does not fit 64 bits"):
            args.add_scalar(wrong)
    for wrong in ("1", None, [1]):
        with pytest.raises(TypeError, match="an int, a float or a scalar of numpy is needed"):
            args.add_scalar(wrong)  # type: ignore[arg-type]
    assert args.scalar_count == 4


def test_a_tensor_after_a_scalar_is_refused(make) -> None:
    args = TaskArgs()
    args.add_scalar(1)
    with pytest.raises(ValueError, match="^tensor_after_scalar: "):
        args.add_tensor(make().tensor([1], F32), Tag.INPUT)


ALLOWED = {
    AccessMode.READ: {Tag.INPUT, Tag.NO_DEP},
    AccessMode.WRITE: {Tag.OUTPUT, Tag.OUTPUT_EXISTING, Tag.NO_DEP},
    AccessMode.READWRITE: set(Tag),
}


@pytest.mark.parametrize("access", list(AccessMode))
@pytest.mark.parametrize("tag", list(Tag))
def test_a_tag_needs_no_more_than_is_granted(make, access: AccessMode, tag: TensorArgType) -> None:
    tensor = make(64, access).tensor([1], F32)
    args = TaskArgs()
    if tag in ALLOWED[access]:
        args.add_tensor(tensor, tag)
        return
    with pytest.raises(ValueError, match=f"^denied: {tag.name} needs .* the owner grants {access.name}$"):
        args.add_tensor(tensor, tag)
    assert len(args) == 0
    args.add_tensor(tensor, Tag.NO_DEP)
    args.set_tag(0, tag)
    with pytest.raises(ValueError, match="denied: "):
        args.check()


def test_a_task_never_writes_what_it_names_twice(make) -> None:
    buffer = make()
    args = TaskArgs()
    args.add_tensor(buffer.tensor([8], F32), Tag.INPUT)
    args.add_tensor(buffer.tensor([8], F32, byte_offset=28), Tag.OUTPUT)
    with pytest.raises(ValueError, match="^argument_clash: .*28"):
        args.check()
    args.set_tag(1, Tag.NO_DEP)
    args.check()


def test_indices_that_are_not_there_are_named(make) -> None:
    args = TaskArgs()
    args.add_tensor(make().tensor([1], F32), Tag.INPUT)
    for use in (args.tensor, args.tag, args.scalar, lambda index: args.set_tag(index, Tag.INPUT)):
        for index in (1, -2, 1 << 40):
            with pytest.raises(IndexError, match=f"there is no .* {index} among"):
                use(index)


def test_the_limits_are_those_of_the_wire(make) -> None:
    tensor = make().tensor([1], F32)
    args = TaskArgs()
    for index in range(256):
        assert args.add_tensor(tensor, Tag.INPUT) == index
    with pytest.raises(MemoryError, match="arguments_full: .*256"):
        args.add_tensor(tensor, Tag.INPUT)
    for index in range(128):
        assert args.add_scalar(index) == index
    with pytest.raises(MemoryError, match="arguments_full: .*128"):
        args.add_scalar(0)
    args.check()
    assert len(write_blob(args)) == 8 + 256 * 144 + 128 * 8


def test_wrong_types_are_refused(make) -> None:
    args = TaskArgs()
    with pytest.raises(TypeError):
        args.add_tensor(descriptor(), Tag.INPUT)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        args.add_tensor(make().tensor([1], F32), DataType.FLOAT32)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        args.add_tensor(make().tensor([1], F32))  # type: ignore[call-arg]


def test_a_blob_holds_tensors_and_scalars_and_no_tags(make) -> None:
    first, second = make().tensor([4], F32), make().tensor([2, 3], DataType.INT8, [7, 1], 5)
    blob = blob_of(first, second, scalars=(5, 6))
    assert blob == struct.pack("<ii", 2, 2) + first.to_bytes() + second.to_bytes() + struct.pack("<QQ", 5, 6)
    read = read_args_from_blob(blob + b"behind it")
    assert (read.tensors, read.scalars) == ((first, second), (5, 6))
    assert {read.tag(0), read.tag(1)} == {Tag.NO_DEP}
    assert write_blob(TaskArgs()) == bytes(8)


def test_a_blob_is_written_where_it_is_told(make) -> None:
    args = TaskArgs()
    args.add_tensor(make().tensor([4], F32), Tag.INPUT)
    place = bytearray(b"\xee" * 200)
    assert write_blob(args, place) == 152
    assert place[:152] == write_blob(args)
    assert place[152:] == b"\xee" * 48
    frame = np.zeros(160, np.uint8)
    assert write_blob(args, frame) == 152
    assert bytes(read_args_from_blob(frame).tensor(0).to_bytes()) == args.tensor(0).to_bytes()
    with pytest.raises(ValueError, match="^buffer_too_small: .*151"):
        write_blob(args, bytearray(151))
    with pytest.raises(BufferError, match="read-only"):
        write_blob(args, bytes(200))
    with pytest.raises(TypeError):
        write_blob(args, 200)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("rule", "blob"),
    [
        ("short", b""),
        ("short", bytes(7)),
        ("negative", struct.pack("<ii", -1, 0)),
        ("past_end", struct.pack("<ii", 1, 0) + bytes(143)),
        ("past_end", struct.pack("<ii", 2**31 - 1, 2**31 - 1)),
        ("magic", struct.pack("<ii", 1, 0) + bytes(144)),
    ],
)
def test_a_broken_blob_is_named(rule: str, blob: bytes) -> None:
    for given in (blob, bytearray(blob), memoryview(blob)):
        with pytest.raises(ValueError, match=f"^{rule}: "):
            read_args_from_blob(given)


def test_a_bad_tensor_is_named_by_its_index(make) -> None:
    blob = bytearray(blob_of(make().tensor([4], F32), make().tensor([4], F32)))
    blob[8 + 144 + 140] = 99
    with pytest.raises(ValueError, match="^dtype: tensor 1: dtype 99 does not exist"):
        read_args_from_blob(blob)


def test_they_are_copied_and_pickled_with_their_tags(make) -> None:
    buffer = make(64, AccessMode.READ)
    args = TaskArgs()
    args.add_tensor(buffer.tensor([4], F32), Tag.INPUT)
    args.add_tensor(buffer.tensor([4], F32, byte_offset=16), Tag.NO_DEP)
    args.add_scalar(-1)
    # What is not granted is seen at the submit, there as here.
    args.set_tag(0, Tag.INOUT)
    for again in (copy.copy(args), copy.deepcopy(args), pickle.loads(pickle.dumps(args))):
        assert (again.tensors, again.scalars) == (args.tensors, args.scalars)
        assert [again.tag(0), again.tag(1)] == [Tag.INOUT, Tag.NO_DEP]
        with pytest.raises(ValueError, match="denied"):
            again.check()
        again.clear()
    assert args.tensor_count == 2


def test_a_place_that_nothing_has_is_an_index_error(make, registry) -> None:
    args = TaskArgs()
    args.add_tensor(make(64).tensor([4], F32), Tag.INPUT)
    args.add_scalar(1)
    mapped = registry.mapped_args_from_blob(write_blob(args))
    assert (mapped.tensor_count, mapped.scalar_count, len(mapped)) == (1, 1, 1)
    calls = (
        args.tensor,
        args.scalar,
        args.tag,
        lambda place: args.set_tag(place, 0),
        mapped.scalar,
        mapped.__getitem__,
    )
    for call in calls:
        for place in (1, -2, 1 << 70, -(1 << 70)):
            with pytest.raises(IndexError, match=str(place)):
                call(place)
        with pytest.raises(TypeError, match="index: an int is needed, not <class 'float'>"):
            call(0.0)
    with pytest.raises(IndexError):
        mapped[1 << 70]
    del mapped
