"""Types of the workers and of what they own, which the library below defines with all the others."""

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Self, SupportsIndex, TypeAlias, TypeVar, final

from typing_extensions import Buffer as _Bytes

from ._bufabi import (
    AccessMode,
    Buffer,
    BufferDescriptor,
    CanonicalIdentity,
    MappedArg,
    MappedArgs,
    TaskArgs,
    Tensor,
)

_DType: TypeAlias = Any
_Function = TypeVar("_Function", bound=Callable[[MappedArgs], object])

@final
class DeviceBuffer:
    def tensor(
        self,
        shapes: Iterable[SupportsIndex],
        dtype: _DType,
        strides: Iterable[SupportsIndex] | None = None,
        byte_offset: SupportsIndex = 0,
    ) -> Tensor: ...
    def to_descriptor(self) -> BufferDescriptor: ...
    @property
    def identity(self) -> CanonicalIdentity: ...
    @property
    def nbytes(self) -> int: ...

@final
class Domain:
    @property
    def windows(self) -> tuple[tuple[DeviceBuffer, ...], ...]: ...

@final
class Device:
    @staticmethod
    def simulated(*, nbytes: SupportsIndex | None = None) -> Device: ...
    @staticmethod
    def staged(*, nbytes: SupportsIndex | None = None) -> Device: ...
    @staticmethod
    def qemu(
        firmware: str | PathLike[str] | None = None,
        *,
        emulator: str | PathLike[str] | None = None,
        nbytes: SupportsIndex | None = None,
        patience: float | None = None,
    ) -> Device: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class TaskReport:
    @property
    def task(self) -> int: ...
    @property
    def member(self) -> int: ...
    @property
    def worker(self) -> str: ...
    @property
    def resolutions(self) -> tuple[str, ...]: ...
    @property
    def bytes_copied(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def hops(self) -> int: ...

@final
class Scope:
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

@final
class Orchestrator:
    def submit_next_level(self, kernel: str, args: TaskArgs, worker: int | str | None = None) -> int: ...
    def submit_sub(
        self, function: Callable[[MappedArgs], object] | str, args: TaskArgs, worker: int | str | None = None
    ) -> int: ...
    def submit_next_level_group(
        self, kernel: str, args: Sequence[TaskArgs], workers: Sequence[int | str] | None = None
    ) -> int: ...
    def submit_sub_group(
        self,
        function: Callable[[MappedArgs], object] | str,
        args: Sequence[TaskArgs],
        workers: Sequence[int | str] | None = None,
    ) -> int: ...
    def alloc(self, shape: Iterable[SupportsIndex], dtype: _DType) -> Tensor: ...
    def scope(self) -> Scope: ...
    @property
    def worker(self) -> Worker: ...

@final
class Worker:
    def __new__(
        cls,
        level: SupportsIndex,
        *,
        chips: int | Iterable[Device] | None = None,
        subs: SupportsIndex = 0,
        children: Sequence[Worker] | None = None,
        heap_nbytes: SupportsIndex = 67_108_864,
    ) -> Self: ...
    def register(self, function: _Function) -> _Function: ...
    def make_tensor_arg(self, array: Any) -> Tensor: ...  # noqa: ANN401 - numpy and torch need not be there
    def start(self) -> None: ...
    def run(
        self, orchestration: Callable[[Orchestrator], object], timeout: float | None = None
    ) -> list[TaskReport]: ...
    def create_buffer(self, nbytes: SupportsIndex, access: AccessMode | int = AccessMode.READWRITE) -> Buffer: ...
    def release_buffer(self, buffer: Buffer, timeout: float = 10.0) -> None: ...
    def alloc_shared_tensor(self, shape: Iterable[SupportsIndex], dtype: _DType) -> Tensor: ...
    def mapped(self, tensor: Tensor) -> MappedArg: ...
    def malloc(
        self,
        nbytes: SupportsIndex,
        worker: int | str | None = None,
        access: AccessMode | int = AccessMode.READWRITE,
        timeout: float = 10.0,
    ) -> DeviceBuffer: ...
    def create_shareable(
        self,
        nbytes: SupportsIndex,
        worker: int | str | None = None,
        access: AccessMode | int = AccessMode.READWRITE,
        timeout: float = 10.0,
    ) -> DeviceBuffer: ...
    def permit(self, memory: DeviceBuffer, workers: Sequence[int | str], timeout: float = 10.0) -> None: ...
    def create_domain(
        self,
        workers: Sequence[int | str],
        parts: Iterable[SupportsIndex | tuple[SupportsIndex, AccessMode | int]],
        timeout: float = 10.0,
    ) -> Domain: ...
    def alloc_child_tensor(
        self, worker: int | str, shape: Iterable[SupportsIndex], dtype: _DType, timeout: float = 10.0
    ) -> Tensor: ...
    def free(self, memory: DeviceBuffer | Tensor | Domain, timeout: float = 10.0) -> None: ...
    def fill(
        self, target: DeviceBuffer | Tensor, data: _Bytes, byte_offset: SupportsIndex = 0, timeout: float = 10.0
    ) -> None: ...
    def copy_to(
        self, target: DeviceBuffer | Tensor, data: _Bytes, byte_offset: SupportsIndex = 0, timeout: float = 10.0
    ) -> None: ...
    def copy_from(
        self, source: DeviceBuffer | Tensor, into: _Bytes, byte_offset: SupportsIndex = 0, timeout: float = 10.0
    ) -> None: ...
    @property
    def processes(self) -> dict[str, int]: ...
    @property
    def level(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
