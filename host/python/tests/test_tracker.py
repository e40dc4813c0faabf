"""Tracker: who must wait for whom, as the vectors list it, and what comes of tasks that are over or failed."""

import json
import threading

import pytest
from bufabi import (
    AddressSpace,
    BufferDescriptor,
    CanonicalIdentity,
    DataType,
    Edge,
    Hazard,
    TaskArgs,
    Tensor,
    TensorArgType,
    TrackedTask,
    Tracker,
    TrackerPolicy,
)
from conftest import IDENTITY, VECTORS, descriptor, in_a_new_process

U8, Tag = DataType.UINT8, TensorArgType
NAMES = {
    "raw": Hazard.READ_AFTER_WRITE,
    "waw": Hazard.WRITE_AFTER_WRITE,
    "war": Hazard.WRITE_AFTER_READ,
}


def args_of(*tensors: tuple[int, int, TensorArgType], backing: BufferDescriptor | None = None) -> TaskArgs:
    """Ranges of bytes of one backing, each with its start, its length and what is done with it."""
    args = TaskArgs()
    for start, nbytes, tag in tensors:
        described = backing or descriptor()
        args.add_tensor(Tensor(buffer=described, byte_offset=start, shapes=[nbytes], dtype=U8), tag)
    return args


def edges_of(task: TrackedTask) -> list[tuple[int, Hazard, int]]:
    return [(edge.before, edge.hazard, edge.byte) for edge in task.edges]


def of_graph(task: dict, buffers: dict[str, BufferDescriptor]) -> list[TaskArgs]:
    """The arguments of every member of a task of the vectors."""
    members = []
    for member in task.get("members", [task]):
        args = TaskArgs()
        for argument in member["args"]:
            tensor = Tensor(
                buffer=buffers[argument["buffer"]],
                byte_offset=argument["byte_offset"],
                shapes=argument["shape"],
                strides=argument["strides"],
                dtype=DataType[argument["dtype"].upper()],
            )
            args.add_tensor(tensor, Tag[argument["tag"].upper()])
        members.append(args)
    return members


@pytest.mark.parametrize("policy", list(TrackerPolicy))
def test_every_graph_of_the_vectors_has_the_listed_edges(policy: TrackerPolicy) -> None:
    graphs = count = 0
    for line in (VECTORS / "graphs.jsonl").read_text().splitlines():
        graph, expected = json.loads(line)["graph"], json.loads(line)["edges"]
        buffers = {
            buffer["name"]: descriptor(
                identity=CanonicalIdentity(b"graphs!!", place + 1), nbytes=buffer["nbytes"], body=b"g"
            )
            for place, buffer in enumerate(graph["buffers"])
        }
        tracker = Tracker(tasks=64, backings=16, policy=policy)
        found: dict[Hazard, list[list[str]]] = {hazard: [] for hazard in Hazard}
        names = [task["name"] for task in graph["tasks"]]
        for number, task in enumerate(graph["tasks"]):
            members = of_graph(task, buffers)
            would_be = tracker.look_up(members)
            submitted = tracker.submit(members)
            assert (submitted.number, submitted.edges) == (number, would_be)
            assert tracker.waiting(submitted) == len({edge.before for edge in submitted.edges})
            for edge in submitted.edges:
                found[edge.hazard].append([names[edge.before], names[number]])
        for name, hazard in NAMES.items():
            kept = expected[name] if policy is TrackerPolicy.FULL or name == "raw" else []
            assert sorted(found[hazard]) == sorted(kept), (graphs, name)
            count += len(found[hazard])
        assert tracker.inexact == 0
        graphs += 1
    assert (graphs, count > 1000) == (400, True)


def test_an_edge_says_why_it_exists() -> None:
    tracker = Tracker()
    tracker.submit(args_of((0, 64, Tag.OUTPUT)), task=40)
    tracker.submit(args_of((16, 16, Tag.INPUT)), task=41)
    last = tracker.submit([args_of((200, 8, Tag.INPUT)), args_of((24, 16, Tag.INOUT))], task=42)
    raw, waw, war = sorted(last.edges, key=lambda edge: edge.hazard)
    assert (raw.before, raw.hazard, raw.byte, raw.argument) == (40, Hazard.READ_AFTER_WRITE, 24, 1)
    assert (waw.before, waw.hazard, waw.byte) == (40, Hazard.WRITE_AFTER_WRITE, 24)
    assert (war.before, war.hazard, war.byte) == (41, Hazard.WRITE_AFTER_READ, 24)
    assert raw.identity == IDENTITY
    assert (last.number, repr(last)) == (42, "TrackedTask(42, 3 edges)")
    name = f"{IDENTITY.owner_instance_id.hex()}:7.3"
    assert repr(raw) == f"Edge(READ_AFTER_WRITE on task 40, argument 1, {name}, byte 24)"
    again = Tracker()
    again.submit(args_of((0, 64, Tag.OUTPUT)), task=40)
    again.submit(args_of((16, 16, Tag.INPUT)), task=41)
    same = again.look_up([args_of((200, 8, Tag.INPUT)), args_of((24, 16, Tag.INOUT))])
    assert set(same) == set(last.edges)
    assert hash(raw) in {hash(edge) for edge in same}
    assert raw != waw


def test_a_task_begins_when_all_that_it_waits_for_are_over() -> None:
    tracker = Tracker()
    first, second = tracker.submit(args_of((0, 8, Tag.OUTPUT))), tracker.submit(args_of((8, 8, Tag.OUTPUT)))
    third = tracker.submit(args_of((0, 16, Tag.INPUT)))
    fourth = tracker.submit(args_of((0, 4, Tag.INPUT)))
    assert [tracker.waiting(task) for task in (first, second, third, fourth)] == [0, 0, 2, 1]
    assert (len(tracker), third in tracker, repr(tracker)) == (4, True, "Tracker(4 tasks, 1 backings)")
    # What comes back is what was given.
    assert tracker.finish(first) == [fourth]
    assert tracker.waiting(third) == 1
    assert tracker.finish(second) == [third]
    assert (len(tracker), first in tracker, bool(Tracker())) == (2, False, True)
    for call in (tracker.finish, tracker.fail, tracker.waiting, tracker.poisoned):
        with pytest.raises(KeyError, match="not_tracked: the task is not in the tracker") as refused:
            call(first)
        assert (refused.value.rule, refused.value.code) == ("not_tracked", 135)  # type: ignore[attr-defined]


def test_no_dep_takes_no_part_and_backings_do_not_order_each_other() -> None:
    tracker = Tracker()
    tracker.submit(args_of((0, 64, Tag.OUTPUT)))
    assert tracker.submit(args_of((0, 64, Tag.NO_DEP))).edges == ()
    other = descriptor(identity=CanonicalIdentity(b"another!", 7, 3))
    assert tracker.submit(args_of((0, 64, Tag.INOUT), backing=other)).edges == ()
    assert edges_of(tracker.submit(args_of((63, 1, Tag.INPUT)))) == [(0, Hazard.READ_AFTER_WRITE, 63)]
    assert tracker.submit(TaskArgs()).edges == ()
    assert tracker.submit([]).edges == ()


def test_a_failure_poisons_what_depends_on_it_now_and_later() -> None:
    tracker = Tracker()
    first = tracker.submit(args_of((0, 8, Tag.OUTPUT)))
    second = tracker.submit(args_of((0, 8, Tag.INOUT)))
    free = tracker.submit(args_of((8, 8, Tag.OUTPUT)))
    assert tracker.fail(first, reason=9) == [second]
    third = tracker.submit(args_of((0, 16, Tag.INPUT)))
    assert [tracker.poisoned(task) for task in (first, second, third, free)] == [(0, 9), (0, 9), (0, 9), None]
    # The first cause stays.
    assert tracker.fail(second, 1) == []
    assert tracker.poisoned(third) == (0, 9)
    for task in (first, second, free, third):
        tracker.finish(task)
    assert tracker.submit(args_of((0, 16, Tag.INPUT))).edges == ()


def test_what_is_forgotten_orders_nothing() -> None:
    tracker = Tracker()
    tracker.submit(args_of((0, 8, Tag.OUTPUT)))
    tracker.forget(IDENTITY)
    assert tracker.submit(args_of((0, 8, Tag.INPUT))).edges == ()


def test_past_a_capacity_nothing_has_changed() -> None:
    tracker = Tracker(tasks=2, backings=1, edges=1)
    first = tracker.submit(args_of((0, 8, Tag.OUTPUT)))
    other = descriptor(identity=CanonicalIdentity(b"another!", 1))
    with pytest.raises(MemoryError, match="tracker_backings: the tracker holds 1 backings"):
        tracker.submit(args_of((0, 8, Tag.OUTPUT), backing=other))
    with pytest.raises(MemoryError, match="tracker_fan_in: the tracker takes at most 1 edges to one task"):
        tracker.submit(args_of((0, 8, Tag.INOUT)))
    assert (len(tracker), tracker.waiting(first)) == (1, 0)
    second = tracker.submit(args_of((0, 8, Tag.INPUT)))
    assert second.number == 1
    with pytest.raises(MemoryError, match="tracker_tasks: the tracker holds 2 tasks") as refused:
        tracker.submit(TaskArgs())
    assert refused.value.rule == "tracker_tasks"  # type: ignore[attr-defined]
    tracker.finish(first)
    assert tracker.submit(TaskArgs()).number == 2


@pytest.mark.parametrize("name", ["tasks", "backings", "edges"])
def test_capacities_that_make_no_sense_are_refused(name: str) -> None:
    for wrong in (0, (1 << 20) + 1):
        with pytest.raises(ValueError, match=f"{name}: {wrong} is not 1 to 1048576"):
            Tracker(**{name: wrong})
    with pytest.raises(ValueError, match=f"{name}: -1 is not 0 to"):
        Tracker(**{name: -1})
    with pytest.raises(TypeError, match=f"{name}: an int is needed"):
        Tracker(**{name: 1.5})


def test_other_things_are_refused_by_name() -> None:
    tracker = Tracker()
    with pytest.raises(TypeError, match="args: a TaskArgs or several are needed, not <class 'int'>"):
        tracker.submit(3)
    with pytest.raises(TypeError, match="args: a TaskArgs or several are needed, not <class 'str'>"):
        tracker.submit(["a"])
    with pytest.raises(ValueError, match="task: -1 is not 0 to 18446744073709551615"):
        tracker.submit(TaskArgs(), task=-1)
    with pytest.raises(TypeError, match="TrackerPolicy is needed, not Hazard"):
        Tracker(policy=Hazard.READ_AFTER_WRITE)
    with pytest.raises(ValueError, match="policy: 2 does not fit 0 to 1"):
        Tracker(policy=2)
    with pytest.raises(TypeError):
        Tracker(64)
    with pytest.raises(TypeError):
        Edge()
    assert AddressSpace.HOST not in tracker
    assert len(tracker) == 0


def test_a_task_of_another_tracker_is_none_of_this_one() -> None:
    tracker, other = Tracker(), Tracker()
    tracker.submit(TaskArgs())
    stranger = other.submit(TaskArgs())
    assert stranger not in tracker
    with pytest.raises(KeyError, match="not_tracked: task 0 is in another tracker"):
        tracker.finish(stranger)
    assert len(tracker) == 1


def test_the_numbers_are_those_of_the_c_interface() -> None:
    assert [(member.name, member.value) for member in Hazard] == [
        ("READ_AFTER_WRITE", 0),
        ("WRITE_AFTER_WRITE", 1),
        ("WRITE_AFTER_READ", 2),
    ]
    assert [(member.name, member.value) for member in TrackerPolicy] == [("FULL", 0), ("PRODUCERS", 1)]


def test_what_is_over_is_let_go_of() -> None:
    tracker = Tracker(tasks=4)
    for number in range(10_000):
        task = tracker.submit(args_of((0, 8, Tag.INOUT)))
        assert task.number == number
        tracker.finish(task)
    assert len(tracker) == 0


def test_threads_may_share_it() -> None:
    tracker = Tracker()
    done: list[int] = []

    def work(start: int) -> None:
        for _ in range(500):
            task = tracker.submit(args_of((start, 8, Tag.INOUT)))
            tracker.finish(task)
            done.append(task.number)

    threads = [threading.Thread(target=work, args=(8 * place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sorted(done), len(tracker)) == (list(range(2000)), 0)


def test_a_tracker_for_which_there_is_no_memory_is_refused() -> None:
    ran = in_a_new_process("""
import resource
from bufabi import Tracker
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
try:
    Tracker(tasks=1 << 20)
except MemoryError as error:
    print(error)
print(Tracker(tasks=64))
""")
    assert (ran.stdout, ran.stderr, ran.returncode) == (
        "no_space: malloc: ENOMEM, out of memory or address space\nTracker(0 tasks, 0 backings)\n",
        "",
        0,
    )
