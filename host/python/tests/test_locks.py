"""While something is locked no Python runs: nothing here waits for itself, and nobody keeps the others waiting."""

import os
import subprocess
import sys

import pytest
from conftest import PRELUDE

# Ten times what the slowest of them takes.
LIMIT = 30


def ends(script: str, *given: str) -> None:
    """Runs a program that must come to its end: one that waits for ever is a failure here, and no more."""
    try:
        ran = subprocess.run(
            [sys.executable, "-c", PRELUDE + script + "\nprint('done')\n", *given],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            env=os.environ,
        )
    except subprocess.TimeoutExpired as hung:
        pytest.fail(f"it waits for ever: {hung.stdout!r} {hung.stderr!r}")
    assert (ran.stdout.splitlines()[-1:], ran.returncode) == (["done"], 0), ran.stdout + ran.stderr


ERRORS = """
import threading
def times(count, call, kind):
    for _ in range(count):
        try:
            call()
        except kind:
            continue
        raise SystemExit("nothing was raised")

def in_threads(call, kind):
    threads = [threading.Thread(target=times, args=(20_000, call, kind)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.mark.parametrize("call", ["buffer.tensor([4], F32)", "buffer.to_descriptor()"])
def test_two_threads_get_the_same_error_of_one_buffer(call: str) -> None:
    ends(
        ERRORS
        + f"""
buffer = create_host_shared_buffer(4096)
buffer.close()
in_threads(lambda: {call}, ValueError)
"""
    )


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("tracker.finish(over)", "KeyError"),
        ("tracker.fail(over)", "KeyError"),
        ("tracker.waiting(over)", "KeyError"),
        ("full.submit(args)", "MemoryError"),
    ],
)
def test_two_threads_get_the_same_error_of_one_tracker(call: str, kind: str) -> None:
    ends(
        ERRORS
        + f"""
buffer = create_host_shared_buffer(64)
args = args_of((buffer.tensor([4], F32), Tag.INOUT))
tracker, full = Tracker(tasks=2), Tracker(tasks=1)
over = tracker.submit(args)
tracker.finish(over)
full.submit(args)
in_threads(lambda: {call}, {kind})
"""
    )


COLLECTED = """
import gc
def collected(call, kind, used):
    class Owner:
        def __init__(self):
            self.me = self
        def __del__(self):
            used()
    # Wherever a collection begins in the call, it is there that the owner goes.
    for count in range(1, 200):
        gc.disable()
        gc.collect()
        Owner()
        gc.set_threshold(count, 1, 1)
        gc.enable()
        try:
            call()
        except kind:
            pass
        gc.disable()
"""


def test_what_is_collected_while_a_worker_refuses_may_use_that_worker() -> None:
    ends(
        COLLECTED
        + """
worker = Worker(3, chips=1)
worker.start()
gone = worker.malloc(64)
worker.free(gone)
collected(lambda: worker.free(gone), KeyError, lambda: worker.free(worker.malloc(64)))
worker.close()
"""
    )


def test_what_is_collected_while_a_buffer_refuses_may_use_that_buffer() -> None:
    ends(
        COLLECTED
        + """
buffer = create_host_shared_buffer(64)
buffer.close()
collected(buffer.to_descriptor, ValueError, lambda: buffer.closed)
"""
    )


def test_what_is_collected_while_a_tracker_takes_a_task_may_use_that_tracker() -> None:
    ends(
        COLLECTED
        + """
tracker, args = Tracker(), TaskArgs()
collected(lambda: tracker.finish(tracker.submit(args)), (), lambda: (len(tracker), tracker.submit(args)))
"""
    )


def test_the_memory_that_a_buffer_named_may_ask_that_buffer_when_it_goes() -> None:
    ends(
        """
class Memory(bytearray):
    def __del__(self):
        seen.append(buffer.closed)

seen = []
buffer = wrap_fork_inherited(Memory(4096))
buffer.close()
assert seen == [True], seen
"""
    )


def test_the_memory_of_a_buffer_that_was_lost_may_ask_the_worker_when_its_last_task_ends() -> None:
    ends(
        """
import time
class Memory(bytearray):
    def __del__(self):
        seen.append(repr(worker))

seen, worker = [], Worker(3, subs=1)

@worker.register
def slow(args):
    time.sleep(0.5)

buffer = wrap_fork_inherited(Memory(4096))
worker.start()

def orchestration(orchestrator):
    global buffer
    orchestrator.submit_sub(slow, args_of((buffer.tensor([4], F32), Tag.INPUT)))
    del buffer
    assert not seen, "a task names it"

worker.run(orchestration)
assert seen == ["Worker(level=3, started)"], seen
worker.close()
"""
    )


def test_what_runs_around_a_fork_sees_a_worker_that_is_being_started() -> None:
    ends(
        """
seen = []
def before():
    seen.append(repr(worker))
    for call in (worker.start, worker.close, lambda: worker.processes, lambda: worker.register(print)):
        raises(RuntimeError, "the worker is being started", call)

os.register_at_fork(before=before)
worker = Worker(3, subs=1)
worker.start()
assert seen == ["Worker(level=3, being started)"], seen
assert repr(worker) == "Worker(level=3, started)"
worker.close()
"""
    )


def test_a_start_that_fails_can_be_tried_again() -> None:
    ends(
        """
import threading
leave = threading.Event()
thread = threading.Thread(target=leave.wait)
thread.start()
worker = Worker(3, subs=1)
named = worker.make_tensor_arg(np.arange(4, dtype="f4"))
raises(RuntimeError, "several_threads", worker.start)
assert repr(worker) == "Worker(level=3, not started)"
leave.set()
thread.join()
worker.start()
worker.close()
"""
    )


def test_a_stream_that_is_flushed_at_the_start_may_ask_the_worker() -> None:
    ends(
        """
class Stream:
    def write(self, text):
        return sys.__stdout__.write(text)
    def flush(self):
        seen.append(repr(worker))
        sys.__stdout__.flush()

seen, worker = [], Worker(3, subs=1)
sys.stdout = Stream()
worker.start()
sys.stdout = sys.__stdout__
assert seen == ["Worker(level=3, being started)"], seen
worker.close()
"""
    )


def test_an_array_that_is_read_may_ask_the_worker() -> None:
    ends(
        """
class Array:
    def __init__(self, array):
        self.array = array
    def __getattr__(self, name):
        seen.append(repr(worker))
        return getattr(self.array, name)

seen, worker = [], Worker(3, subs=1)
worker.make_tensor_arg(Array(np.zeros(4, "f4")))
assert set(seen) == {"Worker(level=3, not started)"}, seen
"""
    )


def test_a_number_that_is_read_may_ask_the_worker() -> None:
    ends(
        """
class Place:
    def __index__(self):
        seen.append(list(worker.processes))
        return 0

seen, worker = [], Worker(3, chips=1)
worker.start()
shared = worker.create_shareable(4096, Place())
worker.permit(shared, [Place()])
worker.create_domain([Place()], [64])
worker.malloc(64, Place())
worker.alloc_child_tensor(Place(), [4], F32)
tensor = worker.alloc_shared_tensor([4], F32)
args = args_of((tensor, Tag.INPUT), (worker.alloc_shared_tensor([4], F32), Tag.OUTPUT_EXISTING))
worker.run(lambda orchestrator: orchestrator.submit_next_level("copy", args, worker=Place()))
assert seen == [["chip0"]] * 6, seen
worker.close()
"""
    )


def test_a_function_that_was_not_registered_may_ask_the_worker_for_its_name() -> None:
    ends(
        """
class Function:
    def __call__(self, args):
        pass
    def __repr__(self):
        return f"a function of {worker!r}"

worker = Worker(3, subs=1)
unknown = lambda orchestrator: orchestrator.submit_sub(Function(), TaskArgs())
raises(KeyError, "a function of Worker(level=3, started) was not registered", lambda: worker.run(unknown))
worker.close()
"""
    )


def test_other_threads_use_the_worker_while_it_runs() -> None:
    ends(
        """
import threading, time
worker = Worker(3, subs=1)

@worker.register
def slow(args):
    time.sleep(3)

def other():
    time.sleep(0.2)
    for name, call in calls:
        start = time.monotonic()
        call()
        took[name] = time.monotonic() - start

worker.start()
calls, took = [
    ("processes", lambda: worker.processes),
    ("repr", lambda: repr(worker)),
    ("alloc", lambda: worker.alloc_shared_tensor([4], F32)),
    ("second run", lambda: raises(RuntimeError, "a run that is not over", lambda: worker.run(print))),
], {}
thread = threading.Thread(target=other)
thread.start()
worker.run(lambda orchestrator: orchestrator.submit_sub(slow, TaskArgs()))
thread.join()
assert len(took) == 4 and sum(took.values()) < 1, took
worker.close()
"""
    )


def test_a_worker_that_is_closed_meanwhile_ends_the_run() -> None:
    ends(
        """
import threading, time
worker = Worker(3, subs=1)

@worker.register
def slow(args):
    time.sleep(20)

worker.start()
closing = threading.Timer(0.3, worker.close)
closing.start()
start = time.monotonic()
raises(ValueError, "released", lambda: worker.run(lambda orchestrator: orchestrator.submit_sub(slow, TaskArgs())))
assert time.monotonic() - start < 10
closing.join()
"""
    )


def test_what_the_function_of_a_run_raises_is_raised_whatever_became_of_the_worker() -> None:
    ends(
        """
worker = Worker(3, subs=1)
def orchestration(orchestrator):
    worker.close()
    try:
        raise KeyError("the first")
    except KeyError:
        raise LookupError("the user's own")

error = raises(LookupError, "the user's own", lambda: worker.run(orchestration))
assert str(error.__context__).startswith("released: "), repr(error.__context__)
assert repr(error.__context__.__context__) == "KeyError('the first')"
"""
    )
