"""Enumerations: the numbers of the wire, as Python's own."""

import bufabi
import pytest
from bufabi import AccessMode, DataType, TensorArgType

NUMBERS = {
    "AddressSpace": ["HOST", "DEVICE"],
    "AccessMode": ["READ", "WRITE", "READWRITE"],
    "BackendKind": [
        "FORK_SHM",
        "POSIX_SHM",
        "VMM_WINDOW",
        "REMOTE_SIDECAR",
        "DEVICE_MALLOC",
        "FORK_COW",
        "VMM_SHAREABLE",
    ],
    "DataType": [
        "FLOAT32",
        "FLOAT16",
        "INT32",
        "INT16",
        "INT8",
        "UINT8",
        "BFLOAT16",
        "INT64",
        "UINT64",
        "UINT16",
        "UINT32",
        "BOOL",
        "FP8E4M3FN",
        "FP8E8M0",
        "FP4E2M1",
    ],
    "TensorArgType": ["INPUT", "OUTPUT", "INOUT", "OUTPUT_EXISTING", "NO_DEP"],
}


@pytest.mark.parametrize("name", NUMBERS)
def test_every_value_has_its_number_of_the_wire(name: str) -> None:
    kind = getattr(bufabi, name)
    assert [(member.name, member.value) for member in kind] == [(n, i) for i, n in enumerate(NUMBERS[name])]
    assert kind.__module__ == "bufabi"


def test_a_plain_number_is_a_value_and_another_enumeration_is_not(make) -> None:
    buffer = make(64)
    assert buffer.tensor([4], 0).dtype is DataType.FLOAT32
    with pytest.raises(TypeError, match=r"bufabi\.DataType is needed, not AccessMode"):
        buffer.tensor([4], AccessMode.READ)
    for wrong in (True, 0.0, "FLOAT32", None):
        with pytest.raises(TypeError):
            buffer.tensor([4], wrong)


@pytest.mark.parametrize("number", [15, 255, -1, 256, 1 << 70])
def test_a_number_that_no_type_has_is_refused(make, number: int) -> None:
    buffer = make(64)
    with pytest.raises(ValueError, match="dtype|DataType"):
        buffer.tensor([4], number)
    with pytest.raises(ValueError, match="tag|TensorArgType"):
        bufabi.TaskArgs().add_tensor(buffer.tensor([4], 0), number)


def test_the_message_says_what_there_is(make) -> None:
    with pytest.raises(ValueError, match="^dtype: dtype 15 does not exist: 0 to 14 do") as refused:
        make(64).tensor([4], 15)
    assert (refused.value.rule, refused.value.code) == ("dtype", 33)  # type: ignore[attr-defined]


def test_a_tag_comes_back_as_the_member_that_it_is(make) -> None:
    args = bufabi.TaskArgs()
    args.add_tensor(make(64).tensor([1], 0), 2)
    assert args.tag(0) is TensorArgType.INOUT
