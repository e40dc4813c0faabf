"""What a call costs: nanoseconds, the shortest of many short runs, the loop included. Not a test."""

import subprocess
import sys
import timeit

from bufabi import (
    BufferDescriptor,
    DataType,
    ImportContext,
    ImportRegistry,
    TaskArgs,
    Tensor,
    TensorArgType,
    create_host_shared_buffer,
    write_blob,
)

F32, INPUT = DataType.FLOAT32, TensorArgType.INPUT
COUNT = 256


def row(name: str, goal: int, statement: str, names: dict[str, object], setup: str = "pass", each: int = 1) -> None:
    """Prints the shortest run of a statement, divided by how often it does its work."""
    number = 2000 // each + 1
    best = min(timeit.repeat(statement, setup, globals=names, number=number, repeat=400)) / number / each
    print(f"{name:44} {best * 1e9:6.0f} ns   goal {goal}")


def owner() -> None:
    """What whoever makes tasks calls."""
    with create_host_shared_buffer(1 << 16) as buffer:
        tensor = buffer.tensor([64], F32)
        row(
            "buffer.tensor([64, 64], dtype)",
            500,
            "tensor(shape, F32)",
            {"tensor": buffer.tensor, "shape": [64, 64], "F32": F32},
        )
        args = TaskArgs()
        names = {"args": args, "add": args.add_tensor, "tensor": tensor, "tag": INPUT, "every": range(COUNT)}
        row("args.add_tensor(tensor, tag)", 150, "args.clear()\nfor _ in every: add(tensor, tag)", names, each=COUNT)
        described = buffer.to_descriptor().to_bytes().hex()
        sys.stdout.flush()
        subprocess.run([sys.executable, __file__, described], check=True)


def consumer(described: str) -> None:
    """What whoever is handed a task calls, in a process that has to import."""
    descriptor = BufferDescriptor.from_bytes(bytes.fromhex(described))
    registry = ImportRegistry(ImportContext(True))
    registry.resolve(descriptor)
    row("registry.resolve(descriptor), a hit", 150, "resolve(d)", {"resolve": registry.resolve, "d": descriptor})
    args = TaskArgs()
    for index in range(COUNT):
        args.add_tensor(Tensor(buffer=descriptor, byte_offset=16 * index, shapes=[4], dtype=F32), TensorArgType.NO_DEP)
    names = {"mapped": registry.mapped_args_from_blob, "blob": write_blob(args)}
    row("mapped arguments of a blob of 256, each", 300, "mapped(blob)", names, each=COUNT)
    row("the same, with an object for each", 300, "for _ in mapped(blob): pass", names, each=COUNT)


if __name__ == "__main__":
    consumer(sys.argv[1]) if len(sys.argv) > 1 else owner()
