"""What the tests share."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bufabi import (
    AccessMode,
    AddressSpace,
    BackendKind,
    Buffer,
    BufferDescriptor,
    CanonicalIdentity,
    ImportContext,
    ImportRegistry,
    TaskArgs,
    Tensor,
    TensorArgType,
    create_host_shared_buffer,
    write_blob,
)

IDENTITY = CanonicalIdentity(b"\x01\x02\x03\x04\x05\x06\x07\x08", 7, 3)
REPOSITORY = Path(__file__).resolve().parents[3]
VECTORS = REPOSITORY / "tests" / "vectors"


def descriptor(**fields: object) -> BufferDescriptor:
    """A descriptor of POSIX shared memory, but for the fields that are given."""
    given: dict[str, object] = {
        "identity": IDENTITY,
        "address_space": AddressSpace.HOST,
        "access": AccessMode.READWRITE,
        "backend_kind": BackendKind.POSIX_SHM,
        "nbytes": 4096,
        "body": b"name",
    }
    return BufferDescriptor(**(given | fields))  # type: ignore[arg-type]


def blob_of(*tensors: Tensor, scalars: tuple[int, ...] = ()) -> bytes:
    """A task's arguments as they travel."""
    args = TaskArgs()
    for tensor in tensors:
        args.add_tensor(tensor, TensorArgType.NO_DEP)
    for scalar in scalars:
        args.add_scalar(scalar)
    return write_blob(args)


def own_objects() -> set[str]:
    """Names in /dev/shm that this process made: all of theirs but for the random end."""
    with create_host_shared_buffer(1) as buffer:
        prefix = buffer.to_descriptor().body.decode()[:-8]
    return {name for name in os.listdir("/dev/shm") if name.startswith(prefix)}


def in_a_new_process(script: str, *given: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-c", script, *given], capture_output=True, text=True, timeout=300, check=False
    )


# What a program that forks begins with: forks are made in programs of their own.
PRELUDE = """
import os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np
from bufabi import *

F32, Tag = DataType.FLOAT32, TensorArgType

def args_of(*tensors, scalars=()):
    args = TaskArgs()
    for tensor, tag in tensors:
        args.add_tensor(tensor, tag)
    for scalar in scalars:
        args.add_scalar(scalar)
    return args

def raises(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
        return error
    raise SystemExit(f"nothing was raised: {words}")
"""


def program(script: str, **environment: str) -> None:
    """Runs a program, which ends well and says "done" last."""
    ran = subprocess.run(
        [sys.executable, "-c", PRELUDE + script + "\nprint('done')\n"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )
    assert (ran.stdout.splitlines()[-1:], ran.returncode) == (["done"], 0), ran.stdout + ran.stderr


@pytest.fixture
def registry() -> Iterator[ImportRegistry]:
    """A host's registry, which a test leaves without a view that is alive."""
    with ImportRegistry(ImportContext(True)) as registry:
        yield registry


@pytest.fixture
def make() -> Iterator[Callable[..., Buffer]]:
    """Makes buffers that are closed at the end: a test leaves none of their views alive."""
    made: list[Buffer] = []

    def make(nbytes: int = 4096, access: AccessMode = AccessMode.READWRITE) -> Buffer:
        made.append(create_host_shared_buffer(nbytes, access))
        return made[-1]

    yield make
    for buffer in made:
        buffer.close()
