"""Chips of every kind below a Worker, the windows of domains, memory by handle, and first content."""

import os
from pathlib import Path

import pytest
from bufabi import DataType, Device, Domain, Worker
from conftest import program


def test_a_chip_is_what_its_device_says() -> None:
    program("""
with Worker(3, chips=[Device.simulated(), Device.staged(nbytes=1 << 20)]) as worker:
    worker.start()
    assert set(worker.processes) == {"chip0", "chip1"}
    source, target = worker.create_buffer(64), worker.create_buffer(64)
    for chip, copied in ((0, 0), (1, 128)):
        np.asarray(source.mapped([16], F32))[:] = chip + 1
        args = args_of((source.tensor([16], F32), Tag.INPUT), (target.tensor([16], F32), Tag.OUTPUT))
        (report,) = worker.run(lambda orchestrator: orchestrator.submit_next_level("copy", args, chip))
        assert report.bytes_copied == copied, report
        assert np.asarray(target.mapped([16], F32)).tolist() == [chip + 1.0] * 16
    held = worker.malloc(1 << 20, worker=1)
    raises(MemoryError, "space_full: chip1: 1 bytes do not fit: the longest free piece of 1048576 bytes has 0", lambda: worker.malloc(1, worker="chip1"))
    worker.free(held)
    worker.malloc(1 << 21, worker=0)
    worker.release_buffer(source), worker.release_buffer(target)
""")


def test_devices_are_values(tmp_path: Path) -> None:
    assert Device.simulated() == Device.simulated(nbytes=4 << 30)
    assert Device.simulated() != Device.staged()
    assert repr(Device.staged(nbytes=64)) == "Device.staged(nbytes=64)"
    assert repr(Device.simulated()) == "Device.simulated(nbytes=4294967296)"
    image, emulator = tmp_path / "image", tmp_path / "emulator"
    image.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\xb7\0")
    emulator.write_bytes(b"")
    emulator.chmod(0o755)
    machine = Device.qemu(image, emulator=str(emulator), nbytes=64 << 20, patience=2.5)
    assert repr(machine) == f'Device.qemu("{image}", emulator="{emulator}", nbytes=67108864, patience=2.5)'
    assert len({machine, Device.simulated(), Device.simulated(), Device.staged()}) == 3
    assert machine == Device.qemu(str(image), emulator=emulator, nbytes=64 << 20, patience=2.5)


def test_machines_that_cannot_be_started_are_refused_by_name(tmp_path: Path, monkeypatch) -> None:
    image, text = tmp_path / "image", tmp_path / "text"
    image.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\xb7\0")
    text.write_text("no image, but long enough to be read as one")
    monkeypatch.delenv("BUFABI_FIRMWARE", raising=False)
    monkeypatch.delenv("BUFABI_QEMU", raising=False)
    with pytest.raises(ValueError, match="device_missing: a device in QEMU needs firmware: name it by BUFABI_FIRMWARE"):
        Device.qemu()
    with pytest.raises(FileNotFoundError, match="device_missing: firmware .*/nowhere") as refused:
        Device.qemu(tmp_path / "nowhere")
    assert (refused.value.rule, refused.value.code) == ("device_missing", 410)  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="device_missing: firmware "):
        Device.qemu(tmp_path)
    with pytest.raises(ValueError, match="it is no ELF image for aarch64"):
        Device.qemu(text)
    with pytest.raises(FileNotFoundError, match="emulator .*/no-emulator is not there"):
        Device.qemu(image, emulator=tmp_path / "no-emulator")
    monkeypatch.setenv("BUFABI_QEMU", str(tmp_path / "of-the-environment"))
    with pytest.raises(FileNotFoundError, match="of-the-environment is not there"):
        Device.qemu(image)
    for seconds in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="patience: .* s is no time to wait"):
            Device.qemu(image, emulator=text, patience=seconds)
    with pytest.raises(TypeError):
        Device.qemu(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "words", "make"),
    [
        (ValueError, "nbytes: a chip has at least 1 byte", lambda: Device.simulated(nbytes=0)),
        (ValueError, "nbytes: -1 is not 0 to", lambda: Device.staged(nbytes=-1)),
        (TypeError, "nbytes: an int is needed", lambda: Device.staged(nbytes="4G")),  # type: ignore[arg-type]
        (TypeError, "chips: a number or several of bufabi.Device", lambda: Worker(3, chips=2.0)),  # type: ignore[arg-type]
        (TypeError, "not <class 'str'>", lambda: Worker(3, chips=["simulated"])),  # type: ignore[list-item]
        (ValueError, "needs chips, sub-workers or children", lambda: Worker(3, chips=[])),
        (ValueError, "up to 1024 chips", lambda: Worker(3, chips=[Device.simulated()] * 1025)),
        (ValueError, "chips: -1 is not 0 to 1024", lambda: Worker(3, chips=-1)),
        (TypeError, "Device", lambda: Device()),  # type: ignore[call-arg]
        (TypeError, "Domain", lambda: Domain()),
    ],
)
def test_chips_that_make_no_sense_are_refused(kind: type[Exception], words: str, make) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_children_keep_their_devices() -> None:
    program("""
children = [Worker(3, chips=[Device.staged()]), Worker(3, chips=1)]
with Worker(4, children=children) as worker:
    worker.start()
    buffer = worker.create_buffer(64)
    args = args_of((buffer.tensor([8], F32), Tag.INPUT), (buffer.tensor([8], F32, byte_offset=32), Tag.OUTPUT))
    for path, copied in (("l3.0/chip0", 64), ("l3.1/chip0", 0)):
        (report,) = worker.run(lambda orchestrator: orchestrator.submit_next_level("copy", args, path))
        assert report.bytes_copied == copied
    worker.release_buffer(buffer)
""")


def test_a_domain_is_on_all_of_its_chips_or_on_none() -> None:
    program("""
devices = [Device.simulated(), Device.simulated(), Device.simulated(nbytes=1 << 16)]
with Worker(3, chips=devices, subs=1) as worker:
    domain = worker.create_domain([0, "chip1"], [64, (4096, AccessMode.READ), 8])
    assert repr(domain) == "Domain(2 chips, 3 buffers each)"
    first, second = domain.windows
    assert [buffer.nbytes for buffer in first] == [buffer.nbytes for buffer in second] == [64, 4096, 8]
    kinds = {buffer.to_descriptor().backend_kind for buffer in first + second}
    assert kinds == {BackendKind.VMM_WINDOW}
    assert [buffer.to_descriptor().access.name for buffer in first] == ["READWRITE", "READ", "READWRITE"]
    base = lambda buffer: int.from_bytes(buffer.to_descriptor().body, "little")
    for window in (first, second):
        assert [base(buffer) - base(window[0]) for buffer in window] == [0, 1024, 1024 + 4096]
    # They are zero, and tasks use them on their own chip.
    back = np.ones(16, np.float32)
    worker.copy_from(first[0], back)
    assert not back.any()
    worker.copy_to(first[0], np.arange(16, dtype=np.float32))
    task = args_of((first[0].tensor([16], F32), Tag.INPUT), (first[0].tensor([1], F32), Tag.NO_DEP))
    out = worker.malloc(64, worker=0)
    task = args_of((first[0].tensor([16], F32), Tag.INPUT), (out.tensor([16], F32), Tag.OUTPUT))
    worker.run(lambda orchestrator: orchestrator.submit_next_level("copy", task, worker=0))
    worker.copy_from(out, back)
    assert back[15] == 15.0
    raises(ValueError, "device_other_chip", lambda: worker.run(lambda o: o.submit_next_level("copy", task, worker=1)))
    # One of its buffers is not freed alone.
    raises(ValueError, "device_in_domain", lambda: worker.free(first[0]))
    # The third chip has no room: nothing is left on the others.
    raises(MemoryError, "space_full", lambda: worker.create_domain([0, 1, 2], [1 << 17]))
    for _ in range(100):
        raises(MemoryError, "space_full: chip2: ", lambda: worker.create_domain([0, 2], [1 << 20, 64]))
    worker.free(worker.create_domain([0, 1, 2], [1 << 16]))
    worker.free(worker.create_domain([2], [1 << 16]))
    raises(ValueError, "nbytes_zero", lambda: worker.create_domain([0], []))
    raises(ValueError, "nbytes_zero", lambda: worker.create_domain([0], [64, 0]))
    raises(ValueError, "nbytes: -1 is not", lambda: worker.create_domain([0], [-1]))
    raises(TypeError, "nbytes: an int is needed", lambda: worker.create_domain([0], ["64"]))
    raises(TypeError, "AccessMode", lambda: worker.create_domain([0], [(64, Tag.INPUT)]))
    raises(ValueError, "tuple", lambda: worker.create_domain([0], [(64, 0, 0)]))
    raises(MemoryError, "device_too_many_parts: a domain has up to 256 buffers on a chip, and 257", lambda: worker.create_domain([0], [1] * 257))
    raises(KeyError, "there is no chip 3 among 3", lambda: worker.create_domain([0, 3], [64]))
    raises(KeyError, "there is no chip sub0", lambda: worker.create_domain(["sub0"], [64]))
    raises(ValueError, "workers: a domain is of one chip at least", lambda: worker.create_domain([], [64]))
    worker.free(domain)
    raises(KeyError, "stale", lambda: worker.free(domain))
    raises(KeyError, "stale", lambda: worker.copy_from(second[1], back))
""")


def test_what_a_task_names_is_not_freed_before_it_is_over() -> None:
    program("""
worker = Worker(3, chips=2, subs=1)

@worker.register
def slow(args):
    import time
    time.sleep(0.3)
    np.asarray(args[0])[:] = 5

with worker:
    worker.start()
    buffer, domain, held = worker.create_buffer(64), worker.create_domain([0, 1], [64]), worker.malloc(64, worker=1)
    def orchestration(orchestrator):
        orchestrator.submit_sub(slow, args_of((buffer.tensor([16], F32), Tag.OUTPUT)))
        for chip, memory in ((0, domain.windows[0][0]), (1, held)):
            copied = args_of((buffer.tensor([16], F32), Tag.INPUT), (memory.tensor([16], F32), Tag.OUTPUT))
            orchestrator.submit_next_level("copy", copied, worker=chip)
        for memory in (domain, held, held.tensor([1], F32)):
            raises(BufferError, "busy: ", lambda: orchestrator.worker.free(memory))
        raises(BufferError, "busy: ", lambda: orchestrator.worker.release_buffer(buffer))
        # Memory is to be had meanwhile.
        other = orchestrator.worker.malloc(64, worker=0)
        orchestrator.worker.fill(other, bytes(64))
        orchestrator.worker.free(other)
    worker.run(orchestration)
    back = np.zeros(16, np.float32)
    for memory in (domain.windows[0][0], held):
        worker.copy_from(memory, back)
        assert back.tolist() == [5.0] * 16
    worker.free(domain), worker.free(held), worker.release_buffer(buffer)
""")


def test_memory_by_handle_is_reached_by_chips_that_are_permitted() -> None:
    program("""
with Worker(3, chips=3) as worker:
    shared = worker.create_shareable(64, worker=0)
    assert shared.to_descriptor().backend_kind is BackendKind.VMM_SHAREABLE
    worker.fill(shared, np.arange(16, dtype=np.float32))
    out = worker.malloc(64, worker=1)
    task = args_of((shared.tensor([16], F32), Tag.INPUT), (out.tensor([16], F32), Tag.OUTPUT))
    run = lambda: worker.run(lambda orchestrator: orchestrator.submit_next_level("copy", task, worker=1))
    raises(PermissionError, "vmm_not_permitted: task 0 on chip1", run)
    worker.permit(shared, [1])
    run()
    back = np.zeros(16, np.float32)
    worker.copy_from(out, back)
    assert back.tolist() == list(range(16))
    raises(TypeError, "", lambda: worker.permit(shared.tensor([16], F32), [1]))
    raises(KeyError, "there is no chip 7", lambda: worker.permit(shared, [7]))
    worker.free(shared)
    raises(KeyError, "stale", lambda: worker.permit(shared, [2]))
    raises(ValueError, "nbytes_zero", lambda: worker.create_shareable(0))
""")


def test_first_content_is_written_until_somebody_has_named_it() -> None:
    program("""
with Worker(3, chips=1) as worker:
    held = worker.malloc(64, access=AccessMode.READ)
    raises(ValueError, "denied: chip0: the copy needs WRITE, but the owner grants READ", lambda: worker.copy_to(held, bytes(4)))
    worker.fill(held, np.arange(16, dtype=np.float32))
    worker.fill(held.tensor([4], F32, byte_offset=16), np.full(2, 9, np.float32), byte_offset=8)
    raises(ValueError, "device_range: chip0: 8 bytes from 60 on do not all lie in the buffer's 64 bytes", lambda: worker.fill(held, bytes(8), 60))
    raises(TypeError, "a DeviceBuffer or a Tensor is needed", lambda: worker.fill(b"", bytes(8)))
    raises(ValueError, "byte_offset: -1 is not", lambda: worker.fill(held, bytes(8), -1))
    raises(ValueError, "timeout: -1 s", lambda: worker.fill(held, bytes(8), timeout=-1))
    back = np.zeros(16, np.float32)
    worker.copy_from(held, back)
    assert back.tolist() == [0, 1, 2, 3, 4, 5, 9, 9, *range(8, 16)]
    raises(ValueError, "device_named", lambda: worker.fill(held, bytes(4)))
    worker.free(held)
    raises(KeyError, "stale", lambda: worker.fill(held, bytes(4)))
""")


@pytest.mark.skipif(
    not os.environ.get("BUFABI_FIRMWARE"), reason="BUFABI_FIRMWARE names no firmware for a machine in QEMU"
)
def test_a_machine_in_qemu_runs_its_firmware() -> None:
    program("""
with Worker(3, chips=[Device.qemu(nbytes=64 << 20)]) as worker:
    buffer, held = worker.create_buffer(64), worker.malloc(64)
    np.asarray(buffer.mapped([16], F32))[:] = np.arange(16)
    args = args_of((buffer.tensor([16], F32), Tag.INPUT), (held.tensor([16], F32), Tag.OUTPUT))
    (report,) = worker.run(lambda orchestrator: orchestrator.submit_next_level("copy", args))
    assert report.bytes_copied == 64
    back = np.zeros(16, np.float32)
    worker.copy_from(held, back)
    assert back.tolist() == list(range(16))
    window = worker.create_domain([0], [64, 64]).windows[0]
    assert window[1].nbytes == 64
    worker.release_buffer(buffer)
odd = Worker(3, chips=[Device.qemu(nbytes=(64 << 20) + 1)])
raises(ValueError, "chip0", odd.start)
""")


def test_views_of_a_closed_worker_are_refused() -> None:
    worker = Worker(3, chips=1)
    for call in (
        lambda: worker.create_domain([0], [64]),
        lambda: worker.create_shareable(64),
        lambda: worker.malloc(64),
    ):
        worker.close()
        with pytest.raises(ValueError, match="released: the worker was closed"):
            call()
    assert DataType.FLOAT32 == 0
