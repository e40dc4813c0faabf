"""What a function can do to its sub-worker: every end that it may come to is told by name, and nobody waits for ever."""

import os
import signal
import subprocess
import sys

import pytest
from conftest import PRELUDE, in_a_new_process, program


def test_what_is_raised_comes_with_the_functions_name_its_place_and_its_kind() -> None:
    program("""
import contextlib, functools
from collections import namedtuple
worker = Worker(3, subs=1)

class Odd(Exception):
    def __str__(self):
        raise ValueError("no words")

def deep(args):
    def deeper():
        {}["key"]
    deeper()

class Callable:
    def __call__(self, args):
        raise ValueError("x" * 1000)

def raises_odd(args):
    raise Odd

def reads_too_far(args):
    args.scalar(7)

def a_rule(args):
    CanonicalIdentity(b"short", 0)

def refused(args):
    BufferDescriptor.from_bytes(bytes(88))

functions = [worker.register(function) for function in (deep, Callable(), raises_odd, reads_too_far, a_rule, refused)]
functions.append(worker.register(functools.partial(print, 1, end="", file=None, flush=object())))
expected = ["deep (<string>:", "Callable (<string>:", "raises_odd (<string>:", "reads_too_far (<string>:", "a_rule (<string>:", "refused (<string>:"]
words = ["KeyError: 'key'", "ValueError: xxx", "Odd: <unprintable", "IndexError: there is no scalar 7", "ValueError: owner_instance_id", "ValueError: magic"]
with worker:
    worker.start()
    for function, first, second in zip(functions, expected, words):
        with contextlib.suppress(ValueError):
            worker.run(lambda orchestrator: orchestrator.submit_sub(function, TaskArgs()))
            raise SystemExit("it went well")
        error = raises(ValueError, f"on sub0: {first}", lambda: worker.run(lambda o: o.submit_sub(function, TaskArgs())))
        assert second in str(error), error
        assert len(str(error)) < 400
        assert error.rule == ("magic" if function is refused else "kernel_failed"), error.rule
""")


def test_the_traceback_goes_to_stderr_whole() -> None:
    script = """
def deeper():
    raise LookupError("nothing is there")

def fails(args):
    deeper()

worker = Worker(3, subs=1)
worker.register(fails)
with worker:
    raises(ValueError, f"fails (<string>:{sys.argv[1]}): LookupError", lambda: worker.run(lambda o: o.submit_sub(fails, TaskArgs())))
"""
    program = PRELUDE + script
    line = program.splitlines().index('    raise LookupError("nothing is there")') + 1
    ran = in_a_new_process(program, str(line))
    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr.startswith("Traceback (most recent call last):")
    assert ran.stderr.endswith("LookupError: nothing is there\n")
    assert [line.split(" in ")[1] for line in ran.stderr.splitlines() if " in " in line] == ["fails", "deeper"]


@pytest.mark.parametrize(
    ("statement", "kind", "words"),
    [
        ("sys.exit(3)", "ValueError", "SystemExit: 3"),
        ("raise SystemExit", "ValueError", "SystemExit: "),
        ("raise KeyboardInterrupt", "ValueError", "KeyboardInterrupt: "),
        ("raise GeneratorExit('so')", "ValueError", "GeneratorExit: so"),
        ("recurse = lambda: recurse(); recurse()", "ValueError", "RecursionError: "),
        ("bytearray(1 << 62)", "ValueError", "MemoryError: "),
    ],
)
def test_what_ends_a_program_fails_a_task_and_the_sub_worker_goes_on(statement: str, kind: str, words: str) -> None:
    program(f"""
worker = Worker(3, subs=1)

@worker.register
def ends(args):
    if args.scalars:
        return
    {statement}

with worker:
    worker.start()
    before = worker.processes
    error = raises({kind}, {words!r}, lambda: worker.run(lambda o: o.submit_sub(ends, TaskArgs()), timeout=60))
    assert "task 0 on sub0: ends (<string>:" in str(error)
    worker.run(lambda o: o.submit_sub(ends, args_of(scalars=[1])), timeout=60)
    assert worker.processes == before
    os.kill(before["sub0"], 0)
""")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("os._exit(0)", "worker sub0 (process {pid}) exited with status 0"),
        ("os._exit(7)", "worker sub0 (process {pid}) exited with status 7"),
        ("os.abort()", "was killed by SIGABRT"),
        ("os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "was killed by SIGSEGV"),
    ],
)
def test_a_sub_worker_that_ends_is_named_with_its_ending(statement: str, words: str) -> None:
    program(f"""
worker = Worker(3, subs=2)

@worker.register
def ends(args):
    if args.scalars:
        return
    {statement}

with worker:
    worker.start()
    pid = worker.processes["sub0"]
    error = raises(OSError, "worker_died: task 0 on sub0", lambda: worker.run(lambda o: o.submit_sub(ends, TaskArgs(), worker=0), 60))
    assert {words!r}.format(pid=pid) in str(error), error
    assert (error.rule, error.task, error.worker) == ("worker_died", 0, "sub0")
    # The other one goes on.
    worker.run(lambda o: o.submit_sub(ends, args_of(scalars=[1]), worker=1), 60)
""")


def test_a_function_that_never_returns_meets_the_runs_limit_and_ends_with_the_worker() -> None:
    program("""
import time
worker = Worker(3, subs=2)

@worker.register
def stays(args):
    while not args.scalars:
        time.sleep(1)

with worker:
    worker.start()
    stuck = worker.processes["sub0"]
    began = time.monotonic()
    buffer = worker.create_buffer(8)
    task = args_of((buffer.tensor([1], F32), Tag.INPUT))
    raises(TimeoutError, "timed_out", lambda: worker.run(lambda o: o.submit_sub(stays, task, worker=0), timeout=0.2))
    assert time.monotonic() - began < 30
    # The task may still touch it.
    raises(BufferError, "busy", lambda: worker.release_buffer(buffer))
    # The others serve; what comes for this one waits, until somebody ends it.
    worker.run(lambda o: o.submit_sub(stays, args_of(scalars=[1]), worker=1), 60)
    raises(TimeoutError, "timed_out", lambda: worker.run(lambda o: o.submit_sub(stays, args_of(scalars=[1]), worker=0), 0.2))
    os.kill(stuck, 9)
    raises(OSError, "on sub0: worker sub0", lambda: worker.run(lambda o: o.submit_sub(stays, args_of(scalars=[1]), worker=0), 60))
    buffer.close(timeout=60)

worker = Worker(3, subs=1)
worker.register(stays)
worker.start()
stuck = worker.processes["sub0"]
raises(TimeoutError, "timed_out", lambda: worker.run(lambda o: o.submit_sub(stays, TaskArgs()), timeout=0.2))
began = time.monotonic()
worker.close()
assert time.monotonic() - began < 30
raises(ProcessLookupError, "", lambda: os.kill(stuck, 0))
""")


def test_a_function_may_fork_and_a_fork_that_comes_back_ends() -> None:
    script = """
import multiprocessing
worker = Worker(3, subs=1)
context = multiprocessing.get_context("fork")

def store(arg, value):
    np.asarray(arg)[:] = value

@worker.register
def forks(args):
    child = context.Process(target=store, args=(args[0], 2))
    child.start()
    child.join()
    assert child.exitcode == 0
    pid = os.fork()
    if pid == 0:
        np.asarray(args[1])[:] = 3
        return
    np.asarray(args[2])[:] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

@worker.register
def counts(args):
    np.asarray(args[0])[:] += 1

with worker:
    worker.start()
    buffer = worker.create_buffer(12)
    for _ in range(3):
        first, second, third = (buffer.tensor([1], F32, byte_offset=4 * n) for n in range(3))
        worker.run(lambda o: o.submit_sub(forks, args_of((first, Tag.OUTPUT), (second, Tag.OUTPUT), (third, Tag.OUTPUT))), 60)
        for _ in range(10):
            worker.run(lambda o: o.submit_sub(counts, args_of((first, Tag.INOUT))), 60)
    assert np.asarray(buffer.mapped([3], F32)).tolist() == [12, 3, 70]
    worker.release_buffer(buffer)
print("done")
"""
    ran = in_a_new_process(PRELUDE + script)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
    assert ran.stderr.splitlines() == ["bufabi: a fork that forks made has come back from it, and ends"] * 3


def test_the_terminals_interrupt_is_the_programs_and_its_workers_go_on() -> None:
    script = """
import time
worker = Worker(3, chips=1, subs=1)

@worker.register
def sleeps(args):
    time.sleep(args.scalar(0))

with worker:
    worker.start()
    before = worker.processes
    def waits(orchestrator):
        orchestrator.submit_sub(sleeps, args_of(scalars=[2]))
        print("ready", flush=True)
    try:
        worker.run(waits)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    # What had begun ends, and the next run finds the workers as they were.
    worker.run(lambda o: o.submit_sub(sleeps, args_of(scalars=[0])), 60)
    worker.run(lambda o: o.submit_next_level("none", TaskArgs()), 60)
    assert worker.processes == before
    def interrupted(orchestrator):
        orchestrator.submit_sub(sleeps, args_of(scalars=[0]))
        raise KeyboardInterrupt
    raises(KeyboardInterrupt, "", lambda: worker.run(interrupted))
    worker.run(lambda o: o.submit_sub(sleeps, args_of(scalars=[0])), 60)
print("done")
"""
    program = subprocess.Popen(
        # Whoever started the tests may have it ignored.
        ["env", "--default-signal=INT", sys.executable, "-c", PRELUDE + script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    # As the terminal sends it: to all processes of the group.
    os.killpg(program.pid, signal.SIGINT)
    rest, errors = program.communicate(timeout=120)
    assert (program.returncode, rest, errors) == (0, "interrupted\ndone\n", "")
