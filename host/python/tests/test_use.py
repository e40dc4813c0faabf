"""What somebody who begins with the package meets first: names that are wrong, kinds that are wrong, and what is told of a run."""

import sys

import bufabi
import numpy as np
import pytest
from bufabi import BufferDescriptor, DataType
from conftest import program


def test_the_package_says_its_version() -> None:
    assert bufabi.__version__ == "0.1.0"


def test_a_buffer_is_no_array_and_says_what_is(make) -> None:
    buffer = make(16)
    for ask in (lambda: np.asarray(buffer), lambda: np.array(buffer, np.uint8)):
        with pytest.raises(TypeError, match="a Buffer is no array: mapped\\(shapes, dtype\\) gives a view"):
            ask()
    assert np.asarray(buffer.mapped([4], DataType.FLOAT32)).tolist() == [0.0] * 4
    assert isinstance(buffer.to_descriptor(), BufferDescriptor)


def test_a_name_that_is_wrong_is_answered_by_those_that_are_there() -> None:
    program("""
worker = Worker(4, children=[Worker(3, chips=2, subs=1), Worker(3, chips=2)])
def gram(args):
    args[0].numpy()[:] = 7
def twice(args):
    pass
worker.register(gram), worker.register(twice), worker.register(lambda args: None)
buffer = worker.create_buffer(16)
args = args_of((buffer.tensor([4], F32), Tag.OUTPUT_EXISTING))
def orchestration(o):
    refused = raises(KeyError, "kernel_unknown: there is no kernel 'copi' among none, fill, copy, add,".replace("'", '"'), lambda: o.submit_next_level("copi", args))
    assert (refused.rule, refused.code) == ("kernel_unknown", 216)
    assert "registered" not in str(refused)
    raises(KeyError, "matmul, sum_rows, and no registered function among gram, twice, <lambda>", lambda: o.submit_sub("gran", args))
    raises(KeyError, "kernel_unknown", lambda: o.submit_next_level("gram", args))
    unknown = raises(KeyError, "worker_unknown: there is no chip l3.7/chip0 among 4: l3.0/chip0, l3.0/chip1, l3.1/chip0, l3.1/chip1", lambda: o.submit_next_level("copy", args, "l3.7/chip0"))
    assert (unknown.rule, unknown.code) == ("worker_unknown", 211), (unknown.rule, unknown.code)
    raises(KeyError, "there is no sub-worker 1 among 1: l3.0/sub0", lambda: o.submit_sub(gram, args, 1))
    o.submit_sub("gram", args)
(report,) = worker.run(orchestration, 60)
assert buffer.mapped([4], F32).numpy().tolist() == [7.0] * 4
assert report.worker == "l3.0/sub0"
assert "worker=\\"l3.0/sub0\\", resolutions=[\\"mapped now\\"], bytes_copied=0, seconds=0." in repr(report) and report.hops == 1, repr(report)
worker.close()

worker = Worker(3, subs=1)
worker.register(lambda args: None), worker.register(lambda args: None)
with worker:
    args = TaskArgs()
    several = 'several registered functions are named "<lambda>": give the one itself'
    worker.run(lambda o: raises(KeyError, several, lambda: o.submit_sub("<lambda>", args)))
with Worker(3, chips=1) as worker:
    worker.run(lambda o: raises(KeyError, "there is no sub-worker at all among 0", lambda: o.submit_sub("copy", args)))
with Worker(3, subs=1) as worker:
    worker.run(lambda o: raises(KeyError, "sum_rows, and no function is registered", lambda: o.submit_sub("gram", args)))
""")


def test_a_task_that_names_a_chips_own_memory_goes_to_that_chip() -> None:
    program("""
with Worker(3, chips=3) as worker:
    domain = worker.create_domain([0, 1, 2], [16, 16])
    held = worker.malloc(16, worker=2)
    for chip in (2, 0, 0, 1, 2):
        source, target = domain.windows[chip]
        worker.copy_to(source, np.full(4, chip + 1, np.float32))
        args = args_of((source.tensor([4], F32), Tag.INPUT), (target.tensor([4], F32), Tag.OUTPUT))
        worker.run(lambda o: [o.submit_next_level("copy", args) for _ in range(5)], 60)
        back = np.zeros(4, np.float32)
        worker.copy_from(target, back)
        assert back.tolist() == [chip + 1.0] * 4
    args = args_of((domain.windows[2][0].tensor([4], F32), Tag.INPUT), (held.tensor([4], F32), Tag.OUTPUT))
    worker.run(lambda o: o.submit_next_level_group("copy", [args]), 60)
    # A worker that is named is taken at its word.
    raises(ValueError, "device_other_chip", lambda: worker.run(lambda o: o.submit_next_level("copy", args, 0), 60))
""")


def test_workers_are_told_by_their_paths() -> None:
    program("""
import time
worker = Worker(3, chips=2, subs=2)
ends = worker.register(lambda args: os._exit(3))
waits = worker.register(lambda args: time.sleep(60))
worker.start()
held, other = worker.malloc(16, worker=1), worker.malloc(16, worker=0)
args = args_of((held.tensor([4], F32), Tag.OUTPUT))
words = "is memory of chip1, and the task goes to chip0"
raises(ValueError, words, lambda: worker.run(lambda o: o.submit_next_level("fill", args_of((held.tensor([4], F32), Tag.OUTPUT), scalars=(0,)), 0)))
words = "member 1: argument 0: "
groups = [args_of((memory.tensor([4], F32), Tag.OUTPUT), scalars=(0,)) for memory in (other, held)]
raises(ValueError, words, lambda: worker.run(lambda o: o.submit_next_level_group("fill", groups, [0, 0])))
reports = worker.run(lambda o: o.submit_next_level_group("fill", groups, [0, 1]), 60)
assert [(report.member, report.worker) for report in sorted(reports, key=lambda r: r.member)] == [(0, "chip0"), (1, "chip1")]
raises(OSError, "worker_died: task", lambda: worker.run(lambda o: o.submit_sub(ends, TaskArgs(), 1), 60))
raises(OSError, "worker_died: sub1: process ", lambda: worker.run(lambda o: o.submit_sub(ends, TaskArgs(), 1), 60))
raises(TimeoutError, "timed_out: sub0 did not finish task ", lambda: worker.run(lambda o: o.submit_sub(waits, TaskArgs(), 0), 0.2))
worker.close()
""")


@pytest.mark.parametrize(
    ("package", "words", "ask"),
    [
        ("ml_dtypes", "numpy\\(\\) of this type needs it; numpy.asarray gives its bytes", lambda arg: arg.numpy()),
        ("torch", "torch\\(\\) needs it; numpy\\(\\) may do", lambda arg: arg.torch()),
        ("numpy", "numpy\\(\\) needs it; memoryview may do", lambda arg: arg.numpy()),
    ],
)
def test_a_package_that_is_not_there_is_named_with_a_way_out(make, monkeypatch, package, words, ask) -> None:
    arg = make(16).mapped([4], DataType.BFLOAT16)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=f"{package}.*: {words}"):
        ask(arg)
    del arg


def test_memory_that_was_freed_is_refused_when_a_task_names_it() -> None:
    program("""
with Worker(3, chips=1) as worker:
    memory = worker.malloc(16)
    args = args_of((memory.tensor([4], F32), Tag.OUTPUT), scalars=(0,))
    worker.run(lambda o: o.submit_next_level("fill", args), 60)
    worker.free(memory)
    again = args_of((memory.tensor([4], F32), Tag.OUTPUT), scalars=(0,))
    raises(ValueError, "device_not_live: ", lambda: worker.run(lambda o: o.submit_next_level("fill", again), 60))
""")


def test_the_owners_right_decides_what_a_function_may_store_and_no_tag_does() -> None:
    program("""
worker = Worker(3, subs=1)
@worker.register
def store(args):
    free, held = args
    assert (free.access, free.readonly, held.access, held.readonly) == (AccessMode.READWRITE, False, AccessMode.READ, True)
    free.numpy()[:] = 3
    raises(ValueError, "read-only", lambda: held.numpy().fill(3))
with worker:
    free, held = worker.create_buffer(16), worker.create_buffer(16, AccessMode.READ)
    mine = held.mapped([4], F32)
    assert (mine.access, mine.readonly) == (AccessMode.READWRITE, False)
    mine.numpy()[:] = 1
    args = args_of((free.tensor([4], F32), Tag.INPUT), (held.tensor([4], F32), Tag.INPUT))
    worker.run(lambda o: o.submit_sub(store, args), 60)
    assert free.mapped([4], F32).numpy().tolist() == [3.0] * 4
    assert mine.numpy().tolist() == [1.0] * 4
""")
