"""What a worker hands on, and names for people."""

import pytest
from bufabi import (
    AccessMode,
    BackendKind,
    DataType,
    intern_worker_path,
    re_export,
    remote_backing_identity,
    remote_sidecar_tensor,
    worker_path_for_id,
    wrap_device_malloc,
)

F32 = DataType.FLOAT32


@pytest.mark.parametrize("access", list(AccessMode))
def test_what_is_handed_on_is_unchanged(make, registry, access: AccessMode) -> None:
    tensor = make(64, access).tensor([3, 2], F32, [5, 2], 4)
    assert re_export(tensor) == tensor
    assert re_export(re_export(tensor)).to_bytes() == tensor.to_bytes()
    assert registry.live == 0
    with pytest.raises(TypeError):
        re_export(tensor.to_bytes())  # type: ignore[arg-type]


def test_a_remote_tensor_keeps_all_but_its_backend(make) -> None:
    tensor = make(64, AccessMode.READ).tensor([3, 2], F32, [5, 2], 4)
    remote = remote_sidecar_tensor(tensor)
    assert remote.buffer.backend_kind is BackendKind.REMOTE_SIDECAR
    assert remote.buffer.body == b""
    assert remote.buffer.access is AccessMode.READ
    assert (remote.buffer.nbytes, remote.buffer.address_space) == (64, tensor.buffer.address_space)
    assert (remote.identity, remote.shapes, remote.strides, remote.byte_offset) == (tensor.identity, (3, 2), (5, 2), 4)
    assert remote_backing_identity(remote) == tensor.identity
    with wrap_device_malloc(0x1000, 64) as on_chip:
        assert remote_sidecar_tensor(on_chip.tensor([1], F32)).buffer.address_space.name == "DEVICE"
    with pytest.raises(ValueError, match="REMOTE_SIDECAR tensor is needed, found POSIX_SHM"):
        remote_backing_identity(tensor)


def test_paths_have_numbers_in_this_process_alone() -> None:
    number = intern_worker_path("l4/l3/chip0")
    assert number == intern_worker_path("l4/l3/chip0") != intern_worker_path("l4/l3/chip1")
    assert worker_path_for_id(number) == "l4/l3/chip0"
    assert (intern_worker_path(""), worker_path_for_id(0)) == (0, "")
    assert worker_path_for_id(4_000_000_000) == "<path#4000000000>"
    with pytest.raises(ValueError, match="number: -1 is not"):
        worker_path_for_id(-1)
    with pytest.raises(TypeError):
        intern_worker_path(3)  # type: ignore[arg-type]
