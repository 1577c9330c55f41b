"""The program as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HEAVY = ("grpc", "google.protobuf", "rich", "yaml", "msgspec", "urllib3", "kubernetes", "pynvml")


def _run(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GPU_DRA_")}
    return subprocess.run(
        [sys.executable, "-m", "driver.cli.main", *argv],
        capture_output=True,
        text=True,
        env=clean | environ,
        timeout=60,
        check=False,
    )


def test_help_imports_nothing_heavy() -> None:
    code = (
        f"from driver.cli.main import build_parser; build_parser(); import sys; print([m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_help_and_version_end_well() -> None:
    assert (_run("--help").returncode, _run("inspect", "--help").returncode) == (0, 0)
    assert _run("--version").stdout.startswith("gpu-dra ")


def test_a_wrong_setting_ends_with_2_and_no_traceback() -> None:
    done = _run("inspect", GPU_DRA_NVML="wrong")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gpu-dra: error: environment GPU_DRA_NVML")
    assert "Traceback" not in done.stderr


def test_debug_adds_the_traceback() -> None:
    assert "Traceback" in _run("inspect", "--debug", GPU_DRA_NVML="wrong").stderr


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(["inspect", "--nvml", "mock:dgx-2", "-o", "yaml"], id="slices"),
        pytest.param(["inspect", "--nvml", "mock:dgx-2"], id="tables"),
        pytest.param(["demo", "--machine", "t4"], id="the demo"),
    ],
)
def test_a_reader_that_goes_away_is_no_traceback(argv: list[str]) -> None:
    """``gpu-dra inspect -o yaml | head -1``: the code is SIGPIPE's, as the shell's own tools have it."""
    with subprocess.Popen(
        [sys.executable, "-m", "driver.cli.main", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 141


def test_ctrl_c_ends_the_demo_with_130_and_leaves_nothing(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="gd-") as folder:
        command = [sys.executable, "-m", "driver.cli.main", "demo"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": folder}) as process:
            assert process.stdout is not None
            assert "A node with GPUs" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        assert list(Path(folder).iterdir()) == []


def test_the_demo_finds_a_short_place_where_the_temporary_folder_is_a_long_way_down(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 90)
    folder.mkdir()
    assert _run("demo", "--machine", "t4", TMPDIR=str(folder)).returncode == 0


def test_output_is_plain_where_the_reader_is_a_program() -> None:
    assert "\x1b" not in _run("inspect", "--nvml", "mock:dgx-1v").stdout
