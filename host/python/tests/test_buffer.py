"""Buffer: making, viewing, closing."""

import gc

import numpy as np
import pytest
from bufabi import AccessMode, BackendKind, DataType, Tensor, create_host_shared_buffer, owner_instance_id
from conftest import in_a_new_process, own_objects

F32 = DataType.FLOAT32


def test_it_is_zero_owned_here_and_gone_when_closed() -> None:
    before = own_objects()
    buffer = create_host_shared_buffer(5000)
    assert len(own_objects() - before) == 1
    described = buffer.to_descriptor()
    assert described.backend_kind is BackendKind.POSIX_SHM
    assert described.access is AccessMode.READWRITE
    assert (described.nbytes, buffer.nbytes) == (5000, 5000)
    assert described.identity == buffer.identity
    assert buffer.identity.owner_instance_id == owner_instance_id()
    assert not np.asarray(buffer.mapped([5000], DataType.UINT8)).any()
    buffer.close()
    assert buffer.closed
    assert own_objects() == before


def test_every_buffer_has_an_identity_of_its_own(make) -> None:
    first, second = make(), make()
    assert first.identity != second.identity
    first.close()
    third = make()
    assert third.identity not in (first.identity, second.identity)


def test_a_closed_buffer_gives_nothing_new_and_closes_again() -> None:
    buffer = create_host_shared_buffer(64)
    buffer.close()
    buffer.close()
    buffer.close(timeout=0.0)
    for use in (lambda: buffer.tensor([1], F32), buffer.to_descriptor, lambda: buffer.mapped([1], F32)):
        with pytest.raises(ValueError, match="released: .* was closed"):
            use()
    assert buffer.nbytes == 64


def test_with_closes_it_and_so_does_losing_it() -> None:
    before = own_objects()
    with create_host_shared_buffer(64) as buffer:
        assert not buffer.closed
    assert buffer.closed
    lost = create_host_shared_buffer(64)
    assert len(own_objects() - before) == 1
    del lost
    gc.collect()
    assert own_objects() == before


def test_closing_is_refused_while_a_view_is_alive() -> None:
    buffer = create_host_shared_buffer(64)
    view = buffer.mapped([16], F32)
    array = np.asarray(view)
    with pytest.raises(BufferError, match="views_alive: 1 views of .* are alive") as refused:
        buffer.close()
    assert refused.value.rule == "views_alive"  # type: ignore[attr-defined]
    array[3] = 7.0
    del view
    with pytest.raises(BufferError):
        buffer.close()
    assert buffer.tensor([1], F32).extent == 4, "a refusal changes nothing"
    assert array[3] == 7.0
    del array
    buffer.close()


def test_losing_a_buffer_keeps_the_memory_of_its_views() -> None:
    buffer = create_host_shared_buffer(64)
    array = np.asarray(buffer.mapped([16], F32))
    del buffer
    gc.collect()
    array[:] = 5.0
    assert array.sum() == 80.0


def test_tensors_are_row_major_or_as_told(make) -> None:
    buffer = make(4096)
    dense = buffer.tensor([4, 8], F32)
    assert (dense.shapes, dense.strides, dense.byte_offset) == ((4, 8), (8, 1), 0)
    strided = buffer.tensor((3, 2), DataType.INT16, (7, 2), 6)
    assert (strided.shapes, strided.strides, strided.byte_offset) == ((3, 2), (7, 2), 6)
    assert buffer.tensor(shapes=[3, 2], dtype=DataType.INT16, strides=[7, 2], byte_offset=6) == strided
    assert dense == Tensor(buffer=buffer.to_descriptor(), shapes=[4, 8], dtype=F32)
    with pytest.raises(ValueError, match="out_of_bounds"):
        buffer.tensor([1025], F32)
    with pytest.raises(TypeError):
        buffer.tensor([1])
    with pytest.raises(ValueError, match="byte_offset: -4 is not"):
        buffer.tensor([1], F32, None, -4)


@pytest.mark.parametrize("access", list(AccessMode))
def test_the_owner_stores_whatever_it_grants(make, access: AccessMode) -> None:
    buffer = make(64, access)
    assert buffer.to_descriptor().access is access
    array = np.asarray(buffer.mapped([16], F32))
    array[0] = 1.0
    assert array.flags.writeable


def test_sizes_that_no_buffer_has_leave_nothing_behind() -> None:
    before = own_objects()
    with pytest.raises(ValueError, match="nbytes_zero"):
        create_host_shared_buffer(0)
    with pytest.raises(ValueError, match="nbytes: -1 is not"):
        create_host_shared_buffer(-1)
    with pytest.raises((OSError, ValueError), match="no_space|nbytes_too_large"):
        create_host_shared_buffer(1 << 62)
    with pytest.raises(ValueError, match="nbytes_too_large"):
        create_host_shared_buffer(2**64 - 1)
    with pytest.raises(TypeError):
        create_host_shared_buffer(4096.0)  # type: ignore[arg-type]
    assert own_objects() == before


def test_timeouts_are_times(make) -> None:
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="timeout: "):
            make().close(timeout=wrong)


def test_pythons_own_tracker_never_hears_of_it() -> None:
    script = """
import bufabi, os
from multiprocessing import resource_tracker as tracker
buffer = bufabi.create_host_shared_buffer(4096)
registry = bufabi.ImportRegistry(bufabi.ImportContext(True))
registry.resolve(buffer.to_descriptor())
print(tracker._resource_tracker._pid, tracker._resource_tracker._fd)
"""
    ran = in_a_new_process(script)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("None None\n", "", 0)


def test_a_fork_neither_unlinks_nor_unmaps_what_its_parent_owns() -> None:
    script = """
import bufabi, os, numpy as np
buffer = bufabi.create_host_shared_buffer(4096)
array = np.asarray(buffer.mapped([1024], bufabi.DataType.FLOAT32))
name = buffer.to_descriptor().body.decode()
pid = os.fork()
if pid == 0:
    try:
        buffer.close()
    except RuntimeError as error:
        assert error.rule == "forked", error
    else:
        os._exit(1)
    mine = bufabi.owner_instance_id()
    made = bufabi.create_host_shared_buffer(64)
    assert made.identity.owner_instance_id == mine != buffer.identity.owner_instance_id
    made.close()
    array[5] = 9.0
    del buffer, array
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert array[5] == 9.0 and name in os.listdir("/dev/shm")
del array
buffer.close()
assert name not in os.listdir("/dev/shm")
print("done")
"""
    ran = in_a_new_process(script)
    assert (ran.stdout, ran.stderr) == ("done\n", "")
