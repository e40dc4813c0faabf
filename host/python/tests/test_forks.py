"""Forks that a program makes itself, with threads alive and without, and the processes of multiprocessing."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from bufabi import DataType, ImportContext, ImportRegistry
from conftest import PRELUDE, in_a_new_process, program

# In a fork: what it finds, and how it goes.
CHILD = """
def in_a_fork(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            print("fork:", type(error).__name__, error, file=sys.stderr, flush=True)
            os._exit(1)
        # As a program ends that knows nothing of forks: all that it has is collected.
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""


def test_a_fork_sees_the_buffers_cannot_close_them_and_takes_nothing_away() -> None:
    program(
        CHILD
        + """
import gc
buffer, registry = create_host_shared_buffer(64), ImportRegistry(ImportContext(True))
held = wrap_fork_inherited(np.arange(8))
array = np.asarray(buffer.mapped([8], DataType.INT64))
name, owner = buffer.to_descriptor().body.decode(), owner_instance_id()

def work():
    global buffer, array, registry, held
    array[3] = os.getpid()
    assert np.asarray(buffer.mapped([8], DataType.INT64))[3] == os.getpid()
    del array
    gc.collect()
    raises(RuntimeError, "forked", buffer.close)
    raises(RuntimeError, "forked", lambda: buffer.close(timeout=1))
    raises(RuntimeError, "forked", held.close)
    with create_host_shared_buffer(8) as own:
        assert own.identity.owner_instance_id == owner_instance_id() != owner
        assert own.to_descriptor().body.decode() != name
    del buffer, registry, held
    gc.collect()

in_a_fork(work)
assert array[3] not in (0, os.getpid())
assert os.path.exists("/dev/shm/" + name) and owner_instance_id() == owner
del array
buffer.close()
assert not os.path.exists("/dev/shm/" + name)
held.close()
"""
    )


def test_a_fork_of_a_program_with_workers_leaves_them_alone() -> None:
    program(
        CHILD
        + """
import gc
worker = Worker(3, chips=1, subs=1)

@worker.register
def count(args):
    np.asarray(args[0])[0] += 1

def work():
    global worker
    assert repr(worker) == "Worker(level=3, another process's)"
    for call in (worker.start, worker.close, lambda: worker.processes, lambda: worker.malloc(8),
                 lambda: worker.run(lambda o: None), lambda: worker.register(count)):
        error = raises(RuntimeError, f"forked: the worker is of process {os.getppid()}, and this is {os.getpid()}", call)
        assert error.rule == "forked"
    del worker
    gc.collect()
    # It may have workers of its own.
    with Worker(3, subs=1) as own:
        own.start()
        assert os.getppid() not in own.processes.values()

with worker:
    worker.start()
    before = worker.processes
    buffer = worker.create_buffer(4)
    for _ in range(3):
        in_a_fork(work)
        worker.run(lambda o: o.submit_sub(count, args_of((buffer.tensor([1], F32), Tag.INOUT))), 60)
    assert worker.processes == before
    assert np.asarray(buffer.mapped([1], F32))[0] == 3
    buffer.close()
"""
    )


def test_a_fork_while_other_threads_use_everything_waits_for_none_of_them() -> None:
    program(
        CHILD
        + """
import threading, time
worker = Worker(3, subs=1)

@worker.register
def sleeps(args):
    time.sleep(1)

worker.start()
busy, free, stop = worker.create_buffer(64), worker.create_buffer(64), threading.Event()
registry, tracker = ImportRegistry(ImportContext(True)), Tracker()

def runs():
    while not stop.is_set():
        worker.run(lambda o: o.submit_sub(sleeps, args_of((busy.tensor([1], F32), Tag.INPUT))), 60)

def closes():
    busy.close(timeout=60)

def uses():
    while not stop.is_set():
        with create_host_shared_buffer(64) as buffer:
            args = args_of((buffer.tensor([4], F32), Tag.INPUT))
            registry.mapped_args_from_blob(write_blob(args))
            tracker.finish(tracker.submit(args))
            registry.unregister(buffer.identity)

def work():
    for call in (busy.close, free.close, lambda: busy.close(timeout=5), worker.close):
        raises(RuntimeError, "forked", call)
    repr(worker), repr(busy), busy.closed, intern_worker_path("a path")
    np.asarray(free.mapped([16], F32))[:] = 1
    args = args_of((free.tensor([4], F32), Tag.INPUT))
    tracker.submit(args)
    with create_host_shared_buffer(64) as own, ImportRegistry(ImportContext(True)) as mine:
        mine.mapped_args_from_blob(write_blob(args_of((own.tensor([4], F32), Tag.INPUT))))

threads = [threading.Thread(target=target) for target in (runs, uses, uses)]
[thread.start() for thread in threads]
time.sleep(0.2)
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
for _ in range(20):
    in_a_fork(work)
stop.set()
[thread.join() for thread in threads]
# One that waits for a task to end.
waits = threading.Thread(target=lambda: worker.run(lambda o: o.submit_sub(sleeps, args_of((busy.tensor([1], F32), Tag.INPUT))), 60))
waits.start()
time.sleep(0.1)
closing = threading.Thread(target=closes)
closing.start()
time.sleep(0.1)
began = time.monotonic()
assert not busy.closed and repr(busy)
assert time.monotonic() - began < 0.5, "whoever waits keeps nobody else waiting"
in_a_fork(work)
waits.join(), closing.join()
assert busy.closed
free.close(), worker.close()
"""
    )


SCRIPT = """
import multiprocessing, sys
from bufabi import *

def child(descriptor, tensor, value):
    with ImportRegistry(ImportContext(True)) as registry:
        assert registry.resolve(descriptor) == registry.resolve(tensor)
        args = TaskArgs()
        args.add_tensor(tensor, TensorArgType.INOUT)
        mapped = registry.mapped_args_from_blob(write_blob(args))[0]
        with memoryview(mapped) as view:
            view[0] += value
        del mapped

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with create_host_shared_buffer(64) as buffer:
        for value in (2, 3):
            tensor = buffer.tensor([4], DataType.INT32, byte_offset=16)
            process = context.Process(target=child, args=(buffer.to_descriptor(), tensor, value))
            process.start()
            process.join()
            assert process.exitcode == 0, process.exitcode
        with context.Pool(2) as pool:
            pool.starmap(child, [(buffer.to_descriptor(), buffer.tensor([1], DataType.INT32), 1)] * 8, chunksize=8)
        with memoryview(buffer.mapped([5], DataType.INT32)) as view:
            assert view.tolist() == [8, 0, 0, 0, 5], view.tolist()
    print("done")
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing_share_a_buffer_by_its_descriptor(tmp_path: Path, method: str) -> None:
    file = tmp_path / "program.py"
    file.write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, "-W", "error", file, method], capture_output=True, text=True, timeout=300, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")


def test_what_travels_is_a_record_and_no_memory(make) -> None:
    buffer = make()
    for record in (buffer.identity, buffer.to_descriptor(), buffer.tensor([4], DataType.INT32)):
        assert pickle.loads(pickle.dumps(record)) == record
    for memory in (buffer, buffer.mapped([4], DataType.INT32), ImportRegistry(ImportContext(True))):
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(memory)


def test_no_process_of_ours_has_a_tracker() -> None:
    ran = in_a_new_process(
        PRELUDE
        + """
from multiprocessing import resource_tracker
worker = Worker(3, chips=1, subs=1)
with worker:
    worker.start()
    buffer = worker.create_buffer(64)
    worker.run(lambda o: o.submit_sub("none", args_of((buffer.tensor([1], F32), Tag.INPUT))))
    worker.release_buffer(buffer)
assert resource_tracker._resource_tracker._fd is None
"""
    )
    assert (ran.returncode, ran.stderr) == (0, "")
