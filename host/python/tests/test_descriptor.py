"""BufferDescriptor."""

import pickle
import struct

import pytest
from bufabi import AccessMode, AddressSpace, BackendKind, BufferDescriptor
from conftest import IDENTITY, descriptor

BASE = struct.pack("<Q", 0x1000)
SHAREABLE = struct.pack("<iIQQ", 1, 0, 9, 4096)
DEVICE = {"address_space": AddressSpace.DEVICE}


def test_it_says_what_it_was_made_of() -> None:
    made = descriptor(owner_worker_path_id=5)
    assert made.identity == IDENTITY
    assert (made.address_space, made.access, made.backend_kind) == (
        AddressSpace.HOST,
        AccessMode.READWRITE,
        BackendKind.POSIX_SHM,
    )
    assert (made.nbytes, made.body, made.owner_worker_path_id) == (4096, b"name", 5)
    assert descriptor().owner_worker_path_id == 0
    assert BufferDescriptor.from_bytes(made.to_bytes()) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash(BufferDescriptor.from_bytes(made.to_bytes()))
    assert made != descriptor()


def test_padding_is_written_as_zero_and_ignored_on_reading() -> None:
    record = bytearray(descriptor().to_bytes())
    for padding in (range(5, 8), range(28, 40), range(54, 56)):
        for at in padding:
            assert record[at] == 0
            record[at] = 0xFF
    assert BufferDescriptor.from_bytes(record) == descriptor()
    assert BufferDescriptor.from_bytes(record).to_bytes() == descriptor().to_bytes()


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (BackendKind.FORK_SHM, {"body": BASE}),
        (BackendKind.POSIX_SHM, {"body": b"x" * 32}),
        (BackendKind.VMM_WINDOW, {"body": BASE, **DEVICE}),
        (BackendKind.REMOTE_SIDECAR, {"body": b""}),
        (BackendKind.REMOTE_SIDECAR, {"body": b"", **DEVICE}),
        (BackendKind.DEVICE_MALLOC, {"body": BASE, **DEVICE}),
        (BackendKind.FORK_COW, {"body": BASE, "access": AccessMode.READ}),
        (BackendKind.VMM_SHAREABLE, {"body": SHAREABLE, **DEVICE}),
    ],
)
def test_every_backend_can_be_described(kind: BackendKind, fields: dict[str, object]) -> None:
    made = descriptor(backend_kind=kind, **fields)
    assert made.backend_kind is kind
    assert made.body == fields["body"]
    assert BufferDescriptor.from_bytes(made.to_bytes()) == made


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        ("body_len", {"body": bytes(33)}),
        ("body_len", {"body": bytes(70_000)}),
        ("capability", DEVICE),
        ("fork_cow_access", {"backend_kind": BackendKind.FORK_COW, "body": BASE}),
        ("body_address_len", {"backend_kind": BackendKind.FORK_SHM, "body": b"1234567"}),
        ("body_null_base", {"backend_kind": BackendKind.FORK_SHM, "body": bytes(8)}),
        ("body_shm_name_empty", {"body": b""}),
        ("body_shm_name_char", {"body": b"a/b"}),
        ("body_shareable_len", {"backend_kind": BackendKind.VMM_SHAREABLE, "body": b"1", **DEVICE}),
        ("body_shareable_handle", {"backend_kind": BackendKind.VMM_SHAREABLE, "body": bytes(24), **DEVICE}),
        (
            "body_shareable_reserved",
            {"backend_kind": BackendKind.VMM_SHAREABLE, "body": struct.pack("<iIQQ", 1, 1, 9, 4096), **DEVICE},
        ),
        (
            "body_shareable_mapping",
            {"backend_kind": BackendKind.VMM_SHAREABLE, "body": struct.pack("<iIQQ", 1, 0, 9, 4095), **DEVICE},
        ),
        ("body_remote_not_empty", {"backend_kind": BackendKind.REMOTE_SIDECAR}),
        ("address_space", {"address_space": 2}),
        ("access", {"access": 3}),
        ("backend_kind", {"backend_kind": 7}),
    ],
)
def test_a_broken_rule_is_named(rule: str, fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"^{rule}: ") as refused:
        descriptor(**fields)
    assert refused.value.rule == rule  # type: ignore[attr-defined]


def test_bytes_are_checked_by_the_same_rules() -> None:
    record = descriptor().to_bytes()
    for rule, at, byte in [("magic", 0, 0), ("generation", 24, 0), ("body_tail", 87, 1)]:
        broken = bytearray(record)
        broken[at] = byte
        with pytest.raises(ValueError, match=f"^{rule}: "):
            BufferDescriptor.from_bytes(broken)
    for size in (0, 87, 89):
        with pytest.raises(ValueError, match=f"^size: .*88 bytes, found {size}"):
            BufferDescriptor.from_bytes(bytes(size))


def test_fields_go_by_name_and_are_of_their_types() -> None:
    with pytest.raises(TypeError):
        BufferDescriptor(IDENTITY, 0, 0, 1, 1)  # type: ignore[misc,call-arg]
    with pytest.raises(TypeError):
        descriptor(identity=IDENTITY.to_bytes())
    with pytest.raises(TypeError):
        descriptor(body="name")
    with pytest.raises(ValueError, match="nbytes: -1 is not 0 to"):
        descriptor(nbytes=-1)
    assert descriptor(nbytes=0).nbytes == 0
