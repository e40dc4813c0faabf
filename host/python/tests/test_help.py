"""What `help` and `inspect.signature` say: every public name, its true defaults, and its units and errors."""

import enum
import inspect
import re
from collections.abc import Iterator

import bufabi
import pytest

# Nobody but the package makes these.
NOT_MADE = {
    "Buffer",
    "ChipStorageTaskArgs",
    "ChipTensor",
    "Device",
    "DeviceBuffer",
    "Domain",
    "Edge",
    "MappedArg",
    "MappedArgs",
    "Orchestrator",
    "RemoteTask",
    "Scope",
    "TaskReport",
    "TrackedTask",
}
# What a number of that name counts.
UNITS = {
    "byte_offset": "bytes",
    "heap_nbytes": "bytes",
    "mapping_bytes": "bytes",
    "nbytes": "bytes",
    "patience": "seconds",
    "shape": "elements",
    "shapes": "elements",
    "strides": "elements",
    "timeout": "seconds",
}
ERRORS = re.compile(r"[A-Z][a-zA-Z]+Error|never fails|errors are those of\s+`(\w+)`")


def classes() -> Iterator[type]:
    """Every public class that is no enumeration."""
    for name in bufabi.__all__:
        found = getattr(bufabi, name)
        if isinstance(found, type) and not issubclass(found, enum.IntEnum):
            yield found


def members() -> Iterator[tuple[str, object, type | None]]:
    """Every public function, method and property, and the class that it is of."""
    for name in bufabi.__all__:
        found = getattr(bufabi, name)
        if not isinstance(found, type):
            yield name, found, None
    for of in classes():
        # A transport is written by whoever has one.
        if of.__name__ not in {*NOT_MADE, "Transport"}:
            yield of.__name__, of, of
        for name in vars(of):
            if not name.startswith("_") or name.startswith("__dlpack"):
                yield f"{of.__name__}.{name}", getattr(of, name), of


CALLABLES = [pytest.param(found, of, id=name) for name, found, of in members() if callable(found)]


def test_everything_public_has_a_name_in_the_package_and_says_what_it_is() -> None:
    for name in bufabi.__all__:
        found = getattr(bufabi, name)
        assert found.__module__ in ("bufabi", "bufabi._bufabi", "bufabi._transport"), name
        assert found.__name__ == name
    assert len(CALLABLES) > 90
    for name, found, _ in members():
        assert len(inspect.getdoc(found) or "") > 3, name
    for name in bufabi.__all__:
        assert len(getattr(bufabi, name).__doc__ or "") > 20, name


@pytest.mark.parametrize(("found", "of"), CALLABLES)
def test_a_signature_has_names_and_true_defaults(found, of: type | None) -> None:
    del of
    for name, parameter in inspect.signature(found).parameters.items():
        assert parameter.kind is not inspect.Parameter.VAR_KEYWORD
        assert parameter.default is not ...
        if name == "access":
            assert parameter.default in (inspect.Parameter.empty, None, bufabi.AccessMode.READWRITE)
        if isinstance(parameter.default, enum.Enum):
            assert parameter.default is type(parameter.default)(parameter.default.value)


@pytest.mark.parametrize(("found", "of"), CALLABLES)
def test_its_words_say_units_and_errors(found, of: type | None) -> None:
    words = inspect.getdoc(found) or ""
    everything = f"{words}\n{inspect.getdoc(of) or ''}" if of else words
    for name in inspect.signature(found).parameters:
        assert UNITS.get(name, "") in everything, name
        if name in UNITS:
            assert name in everything or UNITS[name] in words
    takes = set(inspect.signature(found).parameters) - {"self"}
    if takes:
        told = ERRORS.search(words)
        assert told, words
        # Another's errors are told where they are looked for.
        if told.group(1):
            other = getattr(bufabi, told.group(1), None) or getattr(of, told.group(1))
            assert "Error" in (inspect.getdoc(other) or "")


def test_the_defaults_are_those_that_count() -> None:
    signature = inspect.signature(bufabi.create_host_shared_buffer)
    with bufabi.create_host_shared_buffer(1) as buffer:
        assert buffer.to_descriptor().access is signature.parameters["access"].default
    told = {name: parameter.default for name, parameter in inspect.signature(bufabi.Worker).parameters.items()}
    assert told == {
        "level": inspect.Parameter.empty,
        "chips": None,
        "subs": 0,
        "children": None,
        "heap_nbytes": 64 << 20,
    }
    assert inspect.signature(bufabi.Worker.malloc).parameters["timeout"].default == 10.0
    assert inspect.signature(bufabi.Tracker).parameters["policy"].default is bufabi.TrackerPolicy.FULL
    assert str(inspect.signature(bufabi.Buffer.tensor)) == "(self, /, shapes, dtype, strides=None, byte_offset=0)"


@pytest.mark.parametrize("name", sorted(NOT_MADE))
def test_what_nobody_makes_says_so(name: str) -> None:
    with pytest.raises(TypeError, match="cannot create|No constructor"):
        getattr(bufabi, name)()
