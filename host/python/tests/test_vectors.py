"""Records with the right answers, through Python."""

from collections.abc import Iterator

import pytest
from bufabi import (
    BufferDescriptor,
    ChipTensor,
    ImportContext,
    ImportRegistry,
    Tensor,
    materialize_task_args,
    read_args_from_blob,
    write_blob,
)
from conftest import VECTORS, blob_of


def lines(name: str) -> Iterator[list[str]]:
    with (VECTORS / name).open() as file:
        for line in file:
            yield line.split()


def verdict(read, record: bytes) -> str:
    try:
        read(record)
    except ValueError as error:
        return error.rule  # type: ignore[attr-defined]
    return "ok"


@pytest.mark.parametrize(
    ("name", "read"), [("descriptors.txt", BufferDescriptor.from_bytes), ("tensors.txt", Tensor.from_bytes)]
)
def test_every_record_gets_its_verdict(name: str, read) -> None:
    seen = 0
    for record, expected in lines(name):
        assert verdict(read, bytes.fromhex(record)) == expected, record
        seen += 1
    assert seen > 1000


def test_a_legal_record_comes_back_with_its_padding_zero() -> None:
    for record, expected in lines("tensors.txt"):
        if expected == "ok":
            tensor = Tensor.from_bytes(bytes.fromhex(record))
            again = Tensor(
                buffer=tensor.buffer,
                byte_offset=tensor.byte_offset,
                shapes=tensor.shapes,
                strides=tensor.strides,
                dtype=tensor.dtype,
            )
            assert again == tensor
            assert again.to_bytes() == tensor.to_bytes()


def test_every_blob_gets_its_verdict() -> None:
    seen = 0
    for capacity, record, *expected in lines("blobs.txt"):
        blob = (b"" if record == "-" else bytes.fromhex(record))[: int(capacity)]
        seen += 1
        try:
            args = read_args_from_blob(blob)
        except ValueError as error:
            found = [error.rule]  # type: ignore[attr-defined]
            if expected[0] == "tensor":
                assert f"tensor {expected[1]}: " in str(error)
                expected = expected[2:]
            assert found == expected, record
        else:
            assert ["ok", str(args.tensor_count), str(args.scalar_count)] == expected
            written = write_blob(args)
            assert read_args_from_blob(written).tensors == args.tensors
    assert seen > 100


def test_every_tensor_of_a_chip_is_made_to_the_byte() -> None:
    made = refused = 0
    for record, base, *expected in lines("chip.txt"):
        address = int(base, 16)
        try:
            tensor = Tensor.from_bytes(bytes.fromhex(record))
            one = ChipTensor.from_tensor(tensor, address)
        except ValueError as error:
            assert [error.rule] == expected, record  # type: ignore[attr-defined]
            refused += 1
            continue
        assert one.to_bytes().hex() == expected[0], record
        # As a task's only argument it is the same, and the function is asked once.
        asked: list[Tensor] = []

        def resolve(tensor: Tensor, asked: list[Tensor] = asked, address: int = address) -> int:
            asked.append(tensor)
            return address

        args = materialize_task_args(blob_of(tensor, scalars=(7,)), resolve)
        assert (args.tensor(0).to_bytes().hex(), args.scalar(0), asked) == (expected[0], 7, [tensor])
        made += 1
    assert (made + refused, refused > 100) == (1500, True)


def test_what_a_chip_owns_is_resolved_to_its_own_address() -> None:
    """As above through a registry: there a chip takes the base from the descriptor."""
    seen = 0
    for record, _, *expected in lines("chip.txt"):
        if len(expected[0]) != 256:
            continue
        tensor = Tensor.from_bytes(bytes.fromhex(record))
        if tensor.buffer.backend_kind.name not in ("DEVICE_MALLOC", "VMM_WINDOW"):
            continue
        base = int.from_bytes(tensor.buffer.body, "little")
        registry = ImportRegistry(ImportContext(False, tensor.identity.owner_instance_id))
        try:
            expected_tensor = ChipTensor.from_tensor(tensor, base)
        except ValueError as error:
            with pytest.raises(ValueError, match="^address_overflow: argument 0|^address_overflow: ") as refused:
                materialize_task_args(blob_of(tensor), registry)
            assert refused.value.rule == error.rule  # type: ignore[attr-defined]
            continue
        args = materialize_task_args(blob_of(tensor), registry)
        assert args.tensor(0) == registry.materialize(tensor) == expected_tensor
        assert hash(args.tensor(0)) == hash(expected_tensor)
        seen += 1
    assert seen > 100
