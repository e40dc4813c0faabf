"""Records with the right answers, through Python."""

from collections.abc import Iterator

import pytest
from bufabi import (
    BufferDescriptor,
    ImportContext,
    ImportRegistry,
    Tensor,
    read_args_from_blob,
    write_blob,
)
from conftest import REPOSITORY

VECTORS = REPOSITORY / "tests" / "vectors"


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


def test_every_tensor_of_a_chip_is_made_where_its_backing_can_be_named() -> None:
    """A vector gives the base apart; here a chip takes it from the descriptor, so those of its own memory are tried."""
    seen = 0
    for record, base, *expected in lines("chip.txt"):
        if len(expected[0]) != 256 and expected != ["address_overflow"]:
            assert verdict(Tensor.from_bytes, bytes.fromhex(record)) == expected[0]
            continue
        tensor = Tensor.from_bytes(bytes.fromhex(record))
        described = tensor.buffer
        if described.backend_kind.name not in ("DEVICE_MALLOC", "VMM_WINDOW"):
            continue
        if int(base, 16) == 0:
            continue
        moved = BufferDescriptor(
            identity=described.identity,
            address_space=described.address_space,
            access=described.access,
            backend_kind=described.backend_kind,
            nbytes=described.nbytes,
            body=int(base, 16).to_bytes(8, "little"),
        )
        there = Tensor(
            buffer=moved,
            byte_offset=tensor.byte_offset,
            shapes=tensor.shapes,
            strides=tensor.strides,
            dtype=tensor.dtype,
        )
        registry = ImportRegistry(ImportContext(False, described.identity.owner_instance_id))
        try:
            assert registry.materialize(there).to_bytes().hex() == expected[0]
        except ValueError as error:
            assert [error.rule] == expected  # type: ignore[attr-defined]
        seen += 1
    assert seen > 100
