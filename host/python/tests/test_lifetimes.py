"""What keeps memory: every way to hold a view, against every way to let go of what it is a view of."""

import ctypes
import gc
from collections.abc import Callable

import numpy as np
import pytest
from bufabi import Buffer, DataType, MappedArg, Worker, create_host_shared_buffer
from conftest import in_a_new_process, own_objects


class Node:
    """A part of a cycle."""

    def __init__(self, held: object) -> None:
        self.held = held
        self.itself = self


WAYS: dict[str, Callable[[MappedArg], object]] = {
    "itself": lambda view: view,
    "array": np.asarray,
    "part of an array": lambda view: np.asarray(view)[1:2].T,
    "array of numpy()": lambda view: view.numpy(),
    "array over DLPack": np.from_dlpack,
    "capsule": lambda view: view.__dlpack__(),
    "versioned capsule": lambda view: view.__dlpack__(max_version=(1, 0)),
    "memoryview": memoryview,
    "memoryview of a memoryview": lambda view: memoryview(memoryview(view))[1:],
    "ctypes": (ctypes.c_int32 * 4).from_buffer,
    "cycle": lambda view: Node(np.asarray(view)),
    "closure": lambda view: lambda: view,
}
ENDS: dict[str, Callable[[Buffer], object]] = {
    "close": lambda buffer: buffer.close(),
    "close with a timeout": lambda buffer: buffer.close(timeout=60),
    "the end of with": lambda buffer: buffer.__exit__(None, None, None),
    "release_buffer": lambda buffer: Worker(3, subs=1).release_buffer(buffer),
}


@pytest.mark.parametrize("end", list(ENDS))
@pytest.mark.parametrize("way", list(WAYS))
def test_a_buffer_is_not_let_go_of_while_a_view_is_held(way: str, end: str) -> None:
    before = own_objects()
    buffer = create_host_shared_buffer(64)
    held = WAYS[way](buffer.mapped([4], DataType.INT32))
    for _ in range(2):
        with pytest.raises(BufferError, match="views_alive: .*1 view") as raised:
            ENDS[end](buffer)
        # The traceback has no view.
        del raised
    assert not buffer.closed
    tensor = buffer.tensor([4], DataType.INT32)
    assert tensor.identity == buffer.identity, "nothing has changed"
    del held
    gc.collect()
    ENDS[end](buffer)
    assert buffer.closed
    assert own_objects() == before


@pytest.mark.parametrize("way", list(WAYS))
def test_a_view_outlives_the_last_reference_to_its_buffer(way: str) -> None:
    before = own_objects()
    buffer = create_host_shared_buffer(64)
    np.asarray(buffer.mapped([4], DataType.INT32))[:] = 7
    held = WAYS[way](buffer.mapped([4], DataType.INT32))
    del buffer
    gc.collect()
    if isinstance(held, np.ndarray | memoryview):
        assert (np.asarray(held) == 7).all()
    elif isinstance(held, MappedArg):
        assert memoryview(held).tolist() == [7] * 4
    del held
    gc.collect()
    assert own_objects() == before, "the name went with the buffer"


def test_cyclic_garbage_is_collected_with_what_it_holds() -> None:
    before = own_objects()
    buffer = create_host_shared_buffer(64)
    Node([buffer, np.asarray(buffer.mapped([4], DataType.INT32))])
    del buffer
    assert own_objects() != before
    gc.collect()
    assert own_objects() == before


def test_a_registry_keeps_what_is_held_and_drops_the_rest() -> None:
    # Imports of the own buffers need no registry: another process has those that do.
    script = """
import ctypes, gc, subprocess, sys
import numpy as np
from bufabi import *

if len(sys.argv) == 1:
    with create_host_shared_buffer(64) as first, create_host_shared_buffer(64) as second:
        named = [buffer.to_descriptor().to_bytes().hex() for buffer in (first, second)]
        sys.exit(subprocess.run([sys.executable, "-c", sys.orig_argv[2], *named]).returncode)

WAYS = {
    "itself": lambda view: view,
    "array": lambda view: np.asarray(view)[1:],
    "DLPack": np.from_dlpack,
    "capsule": lambda view: view.__dlpack__(),
    "memoryview": memoryview,
    "ctypes": (ctypes.c_int32 * 4).from_buffer,
}
descriptors = [BufferDescriptor.from_bytes(bytes.fromhex(given)) for given in sys.argv[1:]]
tensors = [Tensor(buffer=descriptor, shapes=[4], dtype=DataType.INT32) for descriptor in descriptors]
args = TaskArgs()
for tensor in tensors:
    args.add_tensor(tensor, TensorArgType.INOUT)
blob = write_blob(args)

def refused(call):
    try:
        call()
    except BufferError as error:
        assert "views_alive" in str(error), error
    else:
        raise SystemExit("it was let go of")

def ends(registry, hold):
    registry.resolve(descriptors[1])
    held = hold(registry)
    refused(lambda: registry.unregister(descriptors[0].identity))
    registry.unregister(descriptors[1].identity)
    registry.resolve(descriptors[1])
    assert (registry.evict_unused(), registry.live) == (1, 1)
    registry.resolve(descriptors[1])
    refused(registry.close)
    refused(lambda: registry.__exit__(None, None, None))
    assert registry.live == 1, "what could be dropped is"
    del held
    gc.collect()
    registry.close()
    assert registry.live == 0

one = TaskArgs()
one.add_tensor(tensors[0], TensorArgType.INOUT)
for way in WAYS.values():
    ends(ImportRegistry(ImportContext(True)), lambda registry: way(registry.mapped_args_from_blob(write_blob(one))[0]))
ends(ImportRegistry(ImportContext(True)), lambda registry: registry.mapped_args_from_blob(write_blob(one)))
ends(ImportRegistry(ImportContext(True)), lambda registry: registry.materialize(tensors[0]))
ends(ImportRegistry(ImportContext(True)), lambda registry: registry.materialize_args(one))
ends(ImportRegistry(ImportContext(True)), lambda registry: registry.materialize_args(one).tensor(0))
ends(ImportRegistry(ImportContext(True)), lambda registry: materialize_task_args(write_blob(one), registry))
# A registry in a cycle with its own view.
registry = ImportRegistry(ImportContext(True))
cycle = [registry, np.asarray(registry.mapped_args_from_blob(blob)[0])]
cycle.append(cycle)
del registry, cycle
gc.collect()
with open("/proc/self/maps") as file:
    assert not any(descriptor.body.decode() in line for descriptor in descriptors for line in file)
print("done")
"""
    ran = in_a_new_process(script)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")


def test_a_tensor_keeps_no_memory() -> None:
    buffer = create_host_shared_buffer(64)
    tensor = buffer.tensor([4], DataType.INT32)
    buffer.close()
    assert tensor.shapes == (4,)
    with pytest.raises(KeyError, match="stale|never_existed"):
        Worker(3, subs=1).mapped(tensor)
