"""Worker and Orchestrator: trees of processes under a program. Each test forks, so each is a program of its own."""

import subprocess
import sys

import pytest
from bufabi import DataType, Worker
from conftest import REPOSITORY, program


def test_chips_and_functions_of_python_work_on_the_same_bytes() -> None:
    program("""
worker = Worker(3, chips=2, subs=1)

@worker.register
def double(args):
    source, target = (np.asarray(arg) for arg in args)
    assert not source.flags.writeable and source.shape == (3, 4) and args.scalars == (2,)
    np.multiply(source, args.scalar(0), out=target)

with worker:
    worker.start()
    first, second = worker.create_buffer(48), worker.create_buffer(48)
    third = worker.create_buffer(48, AccessMode.READ)
    np.asarray(third.mapped([3, 4], F32))[:] = np.arange(12).reshape(3, 4)
    def orchestration(orchestrator):
        assert orchestrator.worker is worker
        source, target = third.tensor([3, 4], F32), first.tensor([3, 4], F32)
        doubled = orchestrator.submit_sub(double, args_of((source, Tag.INPUT), (target, Tag.OUTPUT), scalars=[2]))
        copied = args_of((target, Tag.INPUT), (second.tensor([3, 4], F32), Tag.OUTPUT_EXISTING))
        assert orchestrator.submit_next_level("copy", copied, worker=1) == doubled + 1
    reports = worker.run(orchestration, timeout=60)
    assert np.asarray(second.mapped([12], F32)).tolist() == [2.0 * n for n in range(12)]
    assert [(report.task, report.member, report.bytes_copied, report.hops) for report in reports] == [(0, 0, 0, 0), (1, 0, 0, 0)]
    assert reports[0].resolutions == ("mapped now", "mapped now") and reports[0].seconds > 0
    assert worker.run(orchestration)[1].resolutions == ("already mapped", "already mapped")
    for buffer in (first, second, third):
        worker.release_buffer(buffer)
""")


def test_what_a_function_raises_fails_its_task_and_what_depends_on_it() -> None:
    program("""
worker = Worker(3, chips=1, subs=2)

@worker.register
def fails(args):
    raise LookupError("nothing is there")

@worker.register
def count(args):
    np.asarray(args[-1])[0] += 1

with worker:
    worker.start()
    shared, other = worker.create_buffer(64), worker.create_buffer(64)
    def orchestration(orchestrator):
        poisoned, free = shared.tensor([1], F32), other.tensor([1], F32)
        orchestrator.submit_sub(fails, args_of((poisoned, Tag.OUTPUT)))
        orchestrator.submit_sub(count, args_of((poisoned, Tag.INOUT)))
        orchestrator.submit_sub(count, args_of((free, Tag.INOUT)))
    error = raises(ValueError, "): LookupError: nothing is there", lambda: worker.run(orchestration))
    assert (error.rule, error.task, error.worker) == ("kernel_failed", 0, "sub0")
    assert np.asarray(shared.mapped([1], F32))[0] == 0.0
    assert np.asarray(other.mapped([1], F32))[0] == 1.0
    # The next run knows nothing of it.
    worker.run(lambda orchestrator: orchestrator.submit_sub(count, args_of((shared.tensor([1], F32), Tag.INOUT))))
    assert np.asarray(shared.mapped([1], F32))[0] == 1.0
    shared.close(), other.close()
""")


def test_a_tree_of_hosts_hands_tasks_on_and_maps_nothing() -> None:
    program("""
worker = Worker(4, children=[Worker(3, chips=1, subs=1), Worker(3, chips=1)])

@worker.register
def negate(args):
    np.negative(np.asarray(args[0]), out=np.asarray(args[1]))

with worker:
    worker.start()
    assert set(worker.processes) == {"l3.0/chip0", "l3.0/sub0", "l3.1/chip0"}
    assert len(set(worker.processes.values()) | {os.getpid()}) == 4
    buffer = worker.create_buffer(64)
    np.asarray(buffer.mapped([4], F32))[:] = 3
    def orchestration(orchestrator):
        first, second, third = (buffer.tensor([4], F32, byte_offset=16 * n) for n in range(3))
        orchestrator.submit_sub(negate, args_of((first, Tag.INPUT), (second, Tag.OUTPUT)), worker="l3.0/sub0")
        orchestrator.submit_next_level("copy", args_of((second, Tag.INPUT), (third, Tag.OUTPUT)), worker="l3.1/chip0")
        raises(KeyError, "there is no chip l3.2/chip0 among 2", lambda: orchestrator.submit_next_level("copy", TaskArgs(), "l3.2/chip0"))
        raises(KeyError, "there is no chip l3.0/sub0 among 2", lambda: orchestrator.submit_next_level("copy", TaskArgs(), "l3.0/sub0"))
    assert [report.hops for report in worker.run(orchestration)] == [1, 1]
    assert np.asarray(buffer.mapped([12], F32)).tolist() == [3.0] * 4 + [-3.0] * 8
    worker.release_buffer(buffer)
""")


def test_groups_are_one_task_and_scopes_let_go() -> None:
    program("""
worker = Worker(3, chips=2, subs=2, heap_nbytes=1 << 20)

@worker.register
def add_one(args):
    np.asarray(args[0])[:] += 1

with worker:
    worker.start()
    result = worker.create_buffer(4096)
    def orchestration(orchestrator):
        with orchestrator.scope():
            part = orchestrator.alloc([200_000], F32)
            assert part.buffer.backend_kind is BackendKind.FORK_SHM
            orchestrator.submit_next_level("fill", args_of((part, Tag.OUTPUT), scalars=[0x3F800000]))
        with orchestrator.scope():
            orchestrator.alloc([1000], F32)
        halves = [args_of((result.tensor([512], F32, byte_offset=2048 * n), Tag.INOUT)) for n in range(2)]
        assert orchestrator.submit_sub_group(add_one, halves, workers=[0, 1]) == 1
        assert orchestrator.submit_sub_group(add_one, halves) == 2
        filled = [args_of((result.tensor([4], F32, byte_offset=16 * n), Tag.OUTPUT_EXISTING), scalars=[0]) for n in range(2)]
        assert orchestrator.submit_next_level_group("fill", filled, [1, 0]) == 3
        raises(ValueError, "workers: 1 are named for 2 members", lambda: orchestrator.submit_sub_group(add_one, halves, [0]))
        raises(ValueError, "task_empty", lambda: orchestrator.submit_sub_group(add_one, []))
    reports = worker.run(orchestration)
    assert sorted((report.task, report.member) for report in reports) == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]
    assert np.asarray(result.mapped([1024], F32)).tolist() == [0.0] * 8 + [2.0] * 1016
    # All of it was let go of.
    tensor = worker.alloc_shared_tensor([250_000], F32)
    assert worker.mapped(tensor).shape == (250_000,)
    raises(MemoryError, "space_full", lambda: worker.alloc_shared_tensor([250_000], F32))
    worker.free(tensor)
    worker.free(worker.alloc_shared_tensor([250_000], F32))
    result.close()
""")


def test_memory_that_was_there_before_the_fork_is_an_argument() -> None:
    program("""
import mmap
worker = Worker(3, subs=1)
private = np.arange(6, dtype=np.int64).reshape(2, 3)
common = np.frombuffer(mmap.mmap(-1, 4096), np.int64)
first, second = worker.make_tensor_arg(private), worker.make_tensor_arg(common)
assert (first.shapes, first.dtype, first.access) == ((2, 3), DataType.INT64, AccessMode.READ)
assert (first.buffer.backend_kind, second.buffer.backend_kind) == (BackendKind.FORK_COW, BackendKind.FORK_SHM)
raises(BufferError, "not dense", lambda: worker.make_tensor_arg(private[:, ::2]))
raises(TypeError, "an array of numpy or a tensor of torch", lambda: worker.make_tensor_arg(b"bytes"))
raises(TypeError, "complex64", lambda: worker.make_tensor_arg(np.zeros(2, np.complex64)))

@worker.register
def total(args):
    np.asarray(args[1])[0] = np.asarray(args[0]).sum()

with worker:
    worker.start()
    private[:] = 0
    reports = worker.run(lambda orchestrator: orchestrator.submit_sub(total, args_of((first, Tag.INPUT), (second, Tag.INOUT))))
    assert reports[0].resolutions == ("inherited", "inherited") and reports[0].bytes_copied == 0
    assert common[0] == 15, "as it was at the fork"
    raises(RuntimeError, "the workers were forked", lambda: worker.make_tensor_arg(private))
    raises(RuntimeError, "the workers were forked", lambda: worker.register(total))
""")


def test_device_memory_is_taken_copied_used_and_freed() -> None:
    program("""
with Worker(3, chips=2, subs=1) as worker:
    held = worker.malloc(64, worker=1)
    assert (held.nbytes, held.to_descriptor().backend_kind) == (64, BackendKind.DEVICE_MALLOC)
    data, back = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    worker.copy_to(held, data)
    worker.copy_to(held, data[:2], byte_offset=8)
    worker.copy_from(held, back)
    assert back.tolist() == [0, 1, 0, 1, *range(4, 16)]
    tensor = worker.alloc_child_tensor(1, [16], F32)
    copied = args_of((held.tensor([16], F32), Tag.INPUT), (tensor, Tag.OUTPUT))
    worker.run(lambda orchestrator: orchestrator.submit_next_level("copy", copied, worker="chip1"))
    worker.copy_from(tensor, back[4:8], byte_offset=16)
    assert back[4:8].tolist() == [4, 5, 6, 7]
    raises(ValueError, "", lambda: worker.run(lambda orchestrator: orchestrator.submit_next_level("copy", copied, worker=0)))
    raises(ValueError, "", lambda: worker.run(lambda orchestrator: orchestrator.submit_sub("copy", copied)))
    for call in (lambda: worker.copy_to(held, data, byte_offset=4), lambda: worker.copy_from(held, back, byte_offset=4)):
        raises(ValueError, "device_range", call)
    raises(ValueError, "denied", lambda: worker.copy_to(worker.malloc(8, 0, AccessMode.READ), b"12345678"))
    worker.free(tensor)
    raises(KeyError, "stale", lambda: worker.free(tensor))
    worker.free(held)
    raises(KeyError, "stale", lambda: worker.copy_from(held, back))
    for place in (2, -1, 1 << 70):
        raises(KeyError, f"there is no chip {place} among 2", lambda: worker.malloc(64, place))
    raises(ValueError, "nbytes_zero", lambda: worker.malloc(0))
    raises(TypeError, "a DeviceBuffer or a Tensor is needed", lambda: worker.free(b""))
    raises(BufferError, "read-only", lambda: worker.copy_from(worker.malloc(8), bytes(8)))
""")


def test_a_buffer_that_a_function_keeps_is_named() -> None:
    program("""
worker, kept = Worker(3, subs=1), []

@worker.register
def keep(args):
    kept.append(np.asarray(args[0]))

@worker.register
def drop(args):
    kept.clear()

with worker:
    worker.start()
    first, second = worker.create_buffer(64), worker.create_buffer(64)
    def run(function, buffer):
        worker.run(lambda orchestrator: orchestrator.submit_sub(function, args_of((buffer.tensor([4], F32), Tag.INPUT))))
    run(keep, first)
    error = raises(BufferError, "is released, but not everywhere dropped: sub0: ", lambda: worker.release_buffer(first))
    assert "views" in str(error) and first.closed
    run(drop, second)
    worker.release_buffer(second)
    worker.release_buffer(second)
""")


def test_a_worker_that_dies_is_named_and_the_others_go_on() -> None:
    program("""
worker = Worker(3, chips=1, subs=1)

@worker.register
def dies(args):
    os._exit(9)

with worker:
    worker.start()
    error = raises(OSError, "worker_died: task 0 on sub0", lambda: worker.run(lambda o: o.submit_sub(dies, TaskArgs())))
    assert "9" in str(error)
    worker.run(lambda orchestrator: orchestrator.submit_next_level("none", TaskArgs()))
    raises(OSError, "worker_died", lambda: worker.run(lambda o: o.submit_sub(dies, TaskArgs())))
""")


def test_threads_are_refused_by_name_and_forks_settle_the_interpreter() -> None:
    program("""
import threading
worker = Worker(3, subs=1)
asked = []
os.register_at_fork(before=lambda: asked.append("before"), after_in_parent=lambda: asked.append("parent"))

@worker.register
def with_threads(args):
    import queue, threading
    answers = queue.Queue()
    threads = [threading.Thread(target=lambda: answers.put(threading.current_thread().name)) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert answers.qsize() == 4 and threading.main_thread() is threading.current_thread()
    np.asarray(args[0])[0] = os.getpid()

stop = threading.Event()
thread = threading.Thread(target=stop.wait)
thread.start()
error = raises(RuntimeError, "several_threads: a fork without exec needs a process of one thread, and this one has 2", worker.start)
assert "OPENBLAS_NUM_THREADS" in error.__notes__[0]
stop.set()
thread.join()
with worker:
    worker.start()
    assert asked == ["before", "parent"] * (len(asked) // 2) and asked
    buffer = worker.create_buffer(8)
    args = args_of((buffer.tensor([1], DataType.INT64), Tag.OUTPUT))
    worker.run(lambda orchestrator: orchestrator.submit_sub(with_threads, args))
    assert np.asarray(buffer.mapped([1], DataType.INT64))[0] == worker.processes["sub0"]
    # Threads that come afterwards are no matter.
    results = []
    def use():
        results.append(worker.level)
        results.append(len(worker.processes))
    threads = [threading.Thread(target=use) for _ in range(4)]
    [thread.start() for thread in threads]
    worker.run(lambda orchestrator: orchestrator.submit_sub(with_threads, args))
    [thread.join() for thread in threads]
    assert sorted(results) == [1] * 4 + [3] * 4
    buffer.close()
""")


def test_a_run_can_time_out_and_raise_and_the_next_one_begins() -> None:
    program("""
worker = Worker(3, subs=1)

@worker.register
def sleeps(args):
    import time
    time.sleep(args.scalar(0) / 1000)

with worker:
    raises(TimeoutError, "timed_out", lambda: worker.run(lambda o: o.submit_sub(sleeps, args_of(scalars=[400])), timeout=0.1))
    def wrong(orchestrator):
        orchestrator.submit_sub(sleeps, args_of(scalars=[1]))
        1 / 0
    raises(ZeroDivisionError, "division", lambda: worker.run(wrong))
    kept = []
    worker.run(lambda orchestrator: kept.append(orchestrator))
    raises(RuntimeError, "has returned", lambda: kept[0].alloc([1], F32))
    raises(RuntimeError, "has a run that is not over", lambda: worker.run(lambda o: worker.run(lambda o: None)))
    assert len(worker.run(lambda o: [o.submit_sub(sleeps, args_of(scalars=[0])) for _ in range(100)])) == 100
""")


def test_signals_reach_the_program_while_it_waits() -> None:
    program("""
import signal
worker = Worker(3, subs=1)

@worker.register
def sleeps(args):
    import time
    time.sleep(3)

with worker:
    worker.start()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        worker.run(lambda orchestrator: orchestrator.submit_sub(sleeps, TaskArgs()))
    except KeyboardInterrupt:
        pass
    else:
        raise SystemExit("it was not interrupted")
""")


def test_kernels_and_functions_that_are_not_there_are_named() -> None:
    program("""
worker = Worker(3, chips=1, subs=1)
with worker:
    def orchestration(orchestrator):
        raises(KeyError, "there is no kernel \\"square\\"", lambda: orchestrator.submit_next_level("square", TaskArgs()))
        raises(TypeError, "a chip runs a kernel, named by a str", lambda: orchestrator.submit_next_level(print, TaskArgs()))
        raises(KeyError, "was not registered", lambda: orchestrator.submit_sub(print, TaskArgs()))
        raises(TypeError, "a place or a path is needed", lambda: orchestrator.submit_sub("none", TaskArgs(), 1.5))
        raises(MemoryError, "space_full", lambda: orchestrator.alloc([1 << 30], F32))
    worker.run(orchestration)
    raises(TypeError, "", lambda: worker.register("name"))
raises(ValueError, "released", worker.start)
worker.close()
""")


@pytest.mark.parametrize(
    ("words", "make"),
    [
        ("level: 2 is not 3 to 16", lambda: Worker(2, chips=1)),
        ("level: 17 is not", lambda: Worker(17, chips=1)),
        ("needs chips, sub-workers or children", lambda: Worker(3)),
        ("one level less, and one has level 3", lambda: Worker(5, children=[Worker(3, chips=1)])),
        ("level: -3 is not 0 to", lambda: Worker(-3, chips=1)),
        ("subs: -1 is not 0 to", lambda: Worker(3, subs=-1)),
        ("up to 1024", lambda: Worker(3, chips=1025)),
    ],
)
def test_trees_that_make_no_sense_are_refused(words: str, make) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_a_worker_is_a_part_of_one_tree_alone() -> None:
    child = Worker(3, chips=1)
    parent = Worker(4, children=[child])
    assert repr(child) == "Worker(level=3, closed)"
    with pytest.raises(ValueError, match="released"):
        child.start()
    with pytest.raises(ValueError, match="children: one is started, closed"):
        Worker(4, children=[child])
    with pytest.raises(RuntimeError, match="has not been started"):
        parent.free(parent.create_buffer(64).tensor([1], DataType.FLOAT32))


def test_a_worker_that_its_own_functions_refer_to_is_collected() -> None:
    program("""
import gc, weakref
class Marker:
    pass

def make(start):
    worker, marker = Worker(3, subs=1), Marker()
    worker.register(lambda args: (worker, marker))
    if start:
        worker.start()
    return weakref.ref(marker)

for start in (False, True):
    gone = make(start)
    gc.collect()
    assert gone() is None, start
""")


def test_the_example_gives_the_same_bits_and_copies_nothing() -> None:
    ran = subprocess.run(
        [sys.executable, str(REPOSITORY / "examples" / "gram.py")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.stderr == ""
    *same, last = ran.stdout.splitlines()
    assert same == ["digits-gram.npy: the same bits", "digits-gram-rowsums.npy: the same bits"]
    assert last.startswith("3 tasks, row sums in ")
    assert last.endswith(", 0 bytes copied")
