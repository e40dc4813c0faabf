"""CanonicalIdentity."""

import pickle

import pytest
from bufabi import CanonicalIdentity, mint_owner_instance_id, owner_instance_id
from conftest import IDENTITY


def test_it_says_what_it_was_made_of() -> None:
    assert (IDENTITY.owner_instance_id, IDENTITY.buffer_id, IDENTITY.generation) == (bytes(range(1, 9)), 7, 3)
    assert CanonicalIdentity(b"12345678", 1).generation == 1
    assert (
        CanonicalIdentity(owner_instance_id=b"12345678", buffer_id=2**64 - 1, generation=2**32 - 1).buffer_id
        == 2**64 - 1
    )
    assert repr(IDENTITY) == "CanonicalIdentity(0102030405060708:7.3)"


def test_padding_takes_no_part_in_equality_hash_and_order() -> None:
    dirty = CanonicalIdentity.from_bytes(IDENTITY.to_bytes()[:20] + b"\xff" * 12)
    assert dirty == IDENTITY
    assert hash(dirty) == hash(IDENTITY)
    assert not dirty < IDENTITY
    assert dirty <= IDENTITY
    assert dirty.to_bytes() == IDENTITY.to_bytes()
    assert IDENTITY.to_bytes()[20:] == bytes(12)
    assert {IDENTITY: 1}[dirty] == 1


def test_every_part_makes_another_identity() -> None:
    others = [
        CanonicalIdentity(b"\x00" * 8, 7, 3),
        CanonicalIdentity(IDENTITY.owner_instance_id, 8, 3),
        CanonicalIdentity(IDENTITY.owner_instance_id, 7, 4),
    ]
    assert len({IDENTITY, *others}) == 4
    assert all(other != IDENTITY for other in others)
    assert others[0] < IDENTITY < others[2] < others[1]
    assert IDENTITY != "0102030405060708:7.3"
    with pytest.raises(TypeError, match="'<' not supported between instances"):
        assert IDENTITY < 3


@pytest.mark.parametrize("owner", [b"", b"1234567", b"123456789"])
def test_a_name_that_does_not_have_8_bytes_is_refused(owner: bytes) -> None:
    with pytest.raises(ValueError, match=f"exactly 8 bytes, found {len(owner)}"):
        CanonicalIdentity(owner, 1)


def test_parts_of_the_wrong_kind_or_size_are_named() -> None:
    for owner in ("12345678", 12345678, None, bytearray(8)):
        with pytest.raises(TypeError, match="owner_instance_id"):
            CanonicalIdentity(owner, 1)  # type: ignore[arg-type]
    for number in (-1, 2**64):
        with pytest.raises(ValueError, match=f"buffer_id: {number} is not 0 to 18446744073709551615"):
            CanonicalIdentity(b"12345678", number)
    with pytest.raises(TypeError, match="buffer_id: an int is needed"):
        CanonicalIdentity(b"12345678", "1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="^generation: ") as refused:
        CanonicalIdentity(b"12345678", 1, 0)
    assert (refused.value.rule, refused.value.code) == ("generation", 7)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="generation: 4294967296 is not 0 to 4294967295"):
        CanonicalIdentity(b"12345678", 1, 2**32)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_bytes_of_another_size_are_no_identity(size: int) -> None:
    with pytest.raises(ValueError, match=f"size: an identity has exactly 32 bytes, found {size}"):
        CanonicalIdentity.from_bytes(bytes(size))


def test_bytes_of_generation_zero_are_no_identity() -> None:
    with pytest.raises(ValueError, match="generation"):
        CanonicalIdentity.from_bytes(bytes(32))


def test_it_can_be_pickled_and_not_changed() -> None:
    assert pickle.loads(pickle.dumps(IDENTITY)) == IDENTITY
    with pytest.raises(AttributeError):
        IDENTITY.buffer_id = 8  # type: ignore[misc]


def test_names_are_drawn_and_never_the_same() -> None:
    drawn = {mint_owner_instance_id() for _ in range(100)}
    assert len(drawn) == 100
    assert all(len(name) == 8 for name in drawn)
    assert owner_instance_id() == owner_instance_id()
    assert owner_instance_id() not in drawn
