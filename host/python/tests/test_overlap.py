"""How two tensors lie to each other: every answer exact, and the vectors line for line."""

import numpy as np
import pytest
from bufabi import DataType, Relation, Tensor, covers, first_common_byte, overlaps, relate
from conftest import VECTORS, descriptor

F32, U8 = DataType.FLOAT32, DataType.UINT8


def view(shapes: list[int], strides: list[int] | None = None, offset: int = 0, dtype: DataType = U8) -> Tensor:
    return Tensor(buffer=descriptor(), byte_offset=offset, shapes=shapes, strides=strides, dtype=dtype)


def bytes_of(tensor: Tensor) -> set[int]:
    """Where its elements lie, counted one by one."""
    starts = np.full((), tensor.byte_offset)
    for shape, stride in zip(tensor.shapes, tensor.strides, strict=True):
        starts = starts[..., None] + np.arange(shape) * stride * tensor.itemsize
    return {int(start) + byte for start in starts.flat for byte in range(tensor.itemsize)}


def test_every_pair_of_the_vectors_gets_its_answer() -> None:
    seen = {relation: 0 for relation in Relation}
    for line in (VECTORS / "overlaps.txt").read_text().splitlines():
        first, second, meet, cover = line.split()
        first, second = (Tensor.from_bytes(bytes.fromhex(record)) for record in (first, second))
        expected = Relation.DISJOINT if meet == "0" else Relation.COVERING if cover == "1" else Relation.OVERLAPPING
        assert relate(first, second) is expected, line
        assert (overlaps(first, second), covers(first, second)) == (meet == "1", cover == "1"), line
        assert overlaps(second, first) == (meet == "1"), line
        common = bytes_of(first) & bytes_of(second)
        assert first_common_byte(first, second) == min(common, default=None), line
        assert covers(second, first) == (bytes_of(first) <= bytes_of(second)), line
        seen[expected] += 1
    assert sum(seen.values()) == 3000
    assert min(count for relation, count in seen.items() if relation is not Relation.MAY_OVERLAP) == 100


def test_whether_two_indices_name_one_element_is_told_of_every_view_of_the_vectors() -> None:
    seen = {True: 0, False: 0}
    for line in (VECTORS / "overlaps.txt").read_text().splitlines():
        for record in line.split()[:2]:
            tensor = Tensor.from_bytes(bytes.fromhex(record))
            indices = int(np.prod(tensor.shapes))
            expected = len(bytes_of(tensor)) < indices * tensor.itemsize
            assert tensor.may_overlap_itself == expected, record
            seen[expected] += 1
    assert min(seen.values()) > 100


def test_gaps_belong_to_nobody() -> None:
    even, odd, all_of_it = view([4], [2]), view([4], [2], offset=1), view([8])
    assert relate(even, odd) is Relation.DISJOINT
    assert relate(all_of_it, odd) is Relation.COVERING
    assert relate(odd, all_of_it) is Relation.OVERLAPPING
    assert (first_common_byte(even, odd), first_common_byte(odd, all_of_it)) == (None, 1)
    assert covers(even, even)


def test_element_types_and_ranks_do_not_matter() -> None:
    matrix, column = view([4, 4], dtype=F32), view([4], [4], 8, F32)
    assert relate(matrix, column) is Relation.COVERING
    assert covers(matrix, view([64]))
    assert covers(view([64]), matrix)
    assert first_common_byte(column, view([20], offset=11)) == 11


def test_bytes_of_two_backings_are_never_the_same(make) -> None:
    first, second = make(64).tensor([64], U8), make(64).tensor([64], U8)
    assert relate(first, second) is Relation.DISJOINT
    assert not overlaps(first, second)
    assert not covers(first, second)
    assert first_common_byte(first, second) is None


def test_past_the_bound_of_work_nothing_wrong_is_said() -> None:
    # Five dimensions whose steps have no factor in common, in both: nobody's kernel.
    big = descriptor(nbytes=1 << 40)

    def hard(offset: int, strides: list[int]) -> Tensor:
        return Tensor(buffer=big, byte_offset=offset, shapes=[97, 89, 83, 79, 73], strides=strides, dtype=U8)

    first = hard(0, [10_000_019, 9_000_011, 8_000_009, 7_000_003, 6_000_011])
    second = hard(1, [9_999_991, 8_999_993, 7_999_993, 6_999_997, 5_999_993])
    assert relate(first, second) is Relation.MAY_OVERLAP
    assert overlaps(first, second)
    assert not covers(first, second)
    assert first_common_byte(first, second) == 1


def test_what_is_no_tensor_is_refused(make) -> None:
    tensor = make(64).tensor([64], U8)
    for function in (relate, overlaps, covers, first_common_byte):
        with pytest.raises(TypeError):
            function(tensor, tensor.buffer)
        with pytest.raises(TypeError):
            function(tensor)


def test_relations_have_the_numbers_of_the_c_interface() -> None:
    assert [(member.name, member.value) for member in Relation] == [
        ("DISJOINT", 0),
        ("OVERLAPPING", 1),
        ("COVERING", 2),
        ("MAY_OVERLAP", 3),
    ]
