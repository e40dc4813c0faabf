"""What moves bytes between machines, as programs in Python write it."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Transport(Protocol):
    """Moves bytes between machines. An engine for remote memory, or a socket, lies behind it; here is none.

    A call returns when its bytes have arrived, and what it raises reaches whoever asked for them.
    """

    def read(self, address: int, remote_key: int, nbytes: int) -> bytes:
        """Exactly `nbytes` bytes of another machine's memory, or an OSError or another exception of its own."""
        ...

    def write(self, address: int, remote_key: int, data: bytes) -> None:
        """Writes into another machine's memory, or an OSError or another exception of its own."""
        ...
