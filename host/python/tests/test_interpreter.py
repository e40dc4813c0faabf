"""What Python itself brings: its shared-memory tracker, further interpreters, and the page about all that."""

import os
import re

import pytest
from bufabi import Buffer
from conftest import REPOSITORY, in_a_new_process


def is_there(buffer: Buffer) -> bool:
    return os.path.exists(f"/dev/shm/{buffer.to_descriptor().body.decode()}")


def test_whoever_attaches_with_pythons_tracker_takes_the_name_away(make) -> None:
    script = """
import sys
from multiprocessing import shared_memory
shared = shared_memory.SharedMemory(name=sys.argv[1])
shared.close()
"""
    buffer = make()
    ran = in_a_new_process(script, buffer.to_descriptor().body.decode())
    assert ran.returncode == 0
    assert "leaked shared_memory objects" in ran.stderr
    assert not is_there(buffer), "the page says that it is unlinked"
    buffer.close()


def test_whoever_tells_the_tracker_otherwise_does_not(make) -> None:
    script = """
import sys
from multiprocessing import resource_tracker, shared_memory
if sys.version_info >= (3, 13):
    shared = shared_memory.SharedMemory(name=sys.argv[1], track=False)
else:
    shared = shared_memory.SharedMemory(name=sys.argv[1])
    resource_tracker.unregister("/" + sys.argv[1], "shared_memory")
shared.close()
"""
    buffer = make()
    ran = in_a_new_process(script, buffer.to_descriptor().body.decode())
    assert (ran.returncode, ran.stderr) == (0, "")
    assert is_there(buffer)


def test_a_python_without_the_lock_refuses_this_wheel_by_name() -> None:
    ran = in_a_new_process("import sys; sys.abiflags = 't'; import bufabi")
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("ImportError: bufabi: this wheel needs the interpreter's lock; ")


@pytest.mark.parametrize("first", ["import bufabi", "pass"], ids=["after the first", "before it"])
@pytest.mark.parametrize("kind", ["isolated", "legacy"])
def test_a_second_interpreter_is_refused_by_name(first: str, kind: str) -> None:
    script = """
import sys
exec(sys.argv[1])
try:
    import _interpreters as interpreters
    second = interpreters.create(sys.argv[2])
except ImportError:
    import _xxsubinterpreters as interpreters
    second = interpreters.create(isolated=sys.argv[2] == "isolated")
try:
    failure = interpreters.run_string(second, "import bufabi")
except Exception as error:
    failure = error
print(failure)
# The first one is as it was.
import bufabi
with bufabi.create_host_shared_buffer(8) as buffer:
    assert bytes(buffer.mapped([8], bufabi.DataType.UINT8)) == bytes(8)
"""
    ran = in_a_new_process(script, first, kind)
    assert ran.returncode == 0, ran.stderr
    assert "ImportError" in ran.stdout
    assert "subinterpreters" in ran.stdout


def test_the_first_example_of_the_page_runs() -> None:
    page = (REPOSITORY / "docs" / "python.md").read_text()
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert example is not None
    ran = in_a_new_process(example.group(1))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
