"""Whole lives of buffers, many times: nothing is left, and nothing grows."""

import gc
import os

import numpy as np
from bufabi import (
    DataType,
    ImportContext,
    ImportRegistry,
    TaskArgs,
    TensorArgType,
    create_host_shared_buffer,
    write_blob,
)
from conftest import own_objects

CYCLES = 100_000 if os.environ.get("BUFABI_LONG") == "1" else 2_000


def footprint() -> tuple[int, int, int]:
    """Resident bytes, open descriptors, mappings."""
    gc.collect()
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    with open("/proc/self/maps") as file:
        mappings = sum(1 for _ in file)
    return pages * os.sysconf("SC_PAGESIZE"), len(os.listdir("/proc/self/fd")), mappings


def test_thousands_of_cycles_are_flat() -> None:
    names = own_objects()
    registry = ImportRegistry(ImportContext(True))

    def cycle() -> None:
        with create_host_shared_buffer(8192) as buffer:
            args = TaskArgs()
            args.add_tensor(buffer.tensor([32, 8], DataType.FLOAT32), TensorArgType.INOUT)
            args.add_tensor(buffer.tensor([16], DataType.FLOAT32, byte_offset=4096), TensorArgType.INPUT)
            args.add_scalar(3)
            mapped = registry.mapped_args_from_blob(write_blob(args))
            first = np.asarray(mapped[0])
            first += 1
            capsule = mapped[0].__dlpack__(max_version=(1, 0))
            assert np.from_dlpack(mapped[0])[3, 3] == 1.0
            assert registry.materialize_args(args).tensor(0).addr == mapped[0].address
            del mapped, first, capsule

    for _ in range(1000):
        cycle()
    before = footprint()
    for _ in range(CYCLES):
        cycle()
    after = footprint()
    registry.close()
    assert after[1:] == before[1:]
    assert after[0] - before[0] < 2 << 20
    assert own_objects() == names
