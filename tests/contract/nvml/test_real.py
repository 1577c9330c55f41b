"""What only the real backend can get wrong: loading, reopening, missing symbols, C's strings."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from driver.errors import NvmlError
from driver.names import PciAddress
from driver.nvml.library import Code
from driver.nvml.mock import read_mock_machine
from driver.nvml.mock.model import Machine
from driver.nvml.reader import read_machine
from driver.nvml.real import RealNvml
from tests.contract.nvml.conftest import Backend, open_stub
from tests.contract.nvml.describe import describe, escape
from tests.contract.nvml.test_answers import code_of


class NoSysfs:
    def numa_node(self, pci: PciAddress) -> int | None:
        return None

    def pcie_root(self, pci: PciAddress) -> str | None:
        return None


@pytest.fixture
def backend(stub_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backend:
    return open_stub(stub_library, read_mock_machine("dgx-h100"), tmp_path, monkeypatch)


def test_a_library_that_is_not_there_is_said_by_init(tmp_path: Path) -> None:
    with pytest.raises(NvmlError) as caught:
        RealNvml(tmp_path / "libnvidia-ml.so.1").init()
    assert (caught.value.call, caught.value.code) == ("nvmlInit", Code.LIBRARY_NOT_FOUND)


def test_a_library_that_stays_away_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        assert code_of(RealNvml(tmp_path / "libnvidia-ml.so.1").init) == "LIBRARY_NOT_FOUND"
    assert [each.levelname for each in caplog.records].count("WARNING") == 1


@pytest.mark.parametrize("content", [b"", b"stand-in for libnvidia-ml", b"\x7fELF"], ids=["empty", "text", "cut off"])
def test_a_file_that_is_no_library_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "libnvidia-ml.so.1"
    path.write_bytes(content)
    assert code_of(RealNvml(path).init) == "LIBRARY_NOT_FOUND"


def test_a_folder_in_the_librarys_place_is_as_good_as_none(tmp_path: Path) -> None:
    assert code_of(RealNvml(tmp_path).init) == "LIBRARY_NOT_FOUND"


def test_nothing_is_loaded_by_the_import() -> None:
    """NVML may be absent: the program starts, and asks later."""
    script = "import driver.nvml.real, pynvml; assert pynvml.nvmlLib is None"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_driver_that_is_not_loaded_is_said_by_init_and_init_can_be_tried_again(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVML_STUB", str(tmp_path / "absent"))
    assert code_of(backend.library.init) == "DRIVER_NOT_LOADED"
    assert code_of(backend.library.device_count) == "UNINITIALIZED"
    monkeypatch.setenv("NVML_STUB", str(tmp_path / "machine.txt"))
    backend.library.init()
    assert backend.library.device_count() == 8
    backend.library.shutdown()


def test_a_reopened_library_is_the_file_that_is_there_now(
    stub_library: Path, old_stub_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade of NVIDIA's driver the same path holds another library, with other functions."""
    path = tmp_path / "libnvidia-ml.so.1"
    path.write_bytes(old_stub_library.read_bytes())
    library = open_stub(path, read_mock_machine("dgx-h100"), tmp_path, monkeypatch).library
    library.init()
    assert code_of(lambda: library.device_addressing_mode(library.device_handle_by_index(0))) == "FUNCTION_NOT_FOUND"
    library.shutdown()
    path.unlink()
    path.write_bytes(stub_library.read_bytes())
    library.init()
    assert library.device_addressing_mode(library.device_handle_by_index(0)) == 1
    library.shutdown()


def test_a_driver_without_the_newer_calls_is_read_with_what_it_has(
    old_stub_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FUNCTION_NOT_FOUND is an absent fact; the fabric is asked for in its first form."""
    library = open_stub(old_stub_library, read_mock_machine("gb200-tray"), tmp_path, monkeypatch).library
    library.init()
    gpus = read_machine(library, NoSysfs()).gpus
    library.shutdown()
    assert len(gpus) == 4
    assert [gpu.addressing_mode for gpu in gpus] == [None] * 4
    assert {gpu.fabric.clique_id for gpu in gpus if gpu.fabric is not None} == {4026}


def test_two_paths_at_a_time_are_refused(backend: Backend, old_stub_library: Path) -> None:
    backend.library.init()
    other = RealNvml(old_stub_library)
    assert code_of(other.init) == "ALREADY_INITIALIZED"
    backend.library.shutdown()
    other.init()
    other.shutdown()


def test_a_wait_that_is_under_way_outlives_a_shutdown(backend: Backend) -> None:
    """The library must not be unloaded below a call that hangs in it."""
    library = backend.library
    library.init()
    event_set = library.event_set_create()
    ended: list[object] = []

    def wait() -> None:
        try:
            ended.append(library.event_set_wait(event_set, 300))
        except NvmlError as err:
            ended.append(err.name)

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.05)
    library.shutdown()
    waiter.join(30)
    assert ended == [None]
    library.init()
    assert library.device_count() == 8
    library.shutdown()


def with_product(machine: Machine, product: str) -> Machine:
    gpus = tuple(replace(gpu, board=replace(gpu.board, product=product)) for gpu in machine.gpus)
    return replace(machine, gpus=gpus)


def test_a_name_that_fills_the_buffer_without_a_nul_is_read_to_its_end(
    stub_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B35."""
    machine = with_product(read_mock_machine("t4"), "N" * 96)
    library = open_stub(stub_library, machine, tmp_path, monkeypatch).library
    library.init()
    assert library.device_name(library.device_handle_by_index(0)) == "N" * 96
    library.shutdown()


def test_bytes_that_are_not_utf8_do_not_cost_the_gpu(
    stub_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B35."""
    library = open_stub(stub_library, with_product(read_mock_machine("t4"), "@NAME@"), tmp_path, monkeypatch).library
    text = describe(with_product(read_mock_machine("t4"), "@NAME@"))
    garbled = text.replace("@NAME@", escape(b"Tesla \xff\xfe T4\x07"), 1)
    (tmp_path / "machine.txt").write_text(garbled, encoding="ascii")
    library.init()
    reading = read_machine(library, NoSysfs())
    library.shutdown()
    assert reading.failures == ()
    assert [gpu.product_name for gpu in reading.gpus] == ["Tesla \ufffd\ufffd T4\ufffd", "@NAME@", "@NAME@", "@NAME@"]


def test_eight_threads_may_read_at_once(backend: Backend) -> None:
    library = backend.library
    library.init()
    readings: list[object] = []
    threads = [threading.Thread(target=lambda: readings.append(read_machine(library, NoSysfs()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    library.shutdown()
    assert len(readings) == 8
    assert all(reading == readings[0] for reading in readings)


def test_an_open_and_a_close_leave_no_file_open(backend: Backend) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    backend.library.init()
    backend.library.shutdown()
    before = count()
    for _ in range(50):
        backend.library.init()
        backend.library.shutdown()
    assert count() <= before
