"""The program as a whole: its help, its exit codes, and what an error looks like."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from driver.cli.main import build_parser, main, parse, run
from driver.errors import (
    AnotherPublisher,
    ApiUnreachable,
    DriverError,
    MachineInvalid,
    NvmlError,
    SettingsInvalid,
    SocketPathTooLong,
)


def _raise(err: BaseException) -> Callable[[argparse.Namespace], int]:
    def fail(_: argparse.Namespace) -> int:
        raise err

    return fail


def _ended(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        parse(argv)
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("err", "code"),
    [
        pytest.param(ApiUnreachable("GET slices", 0, "connection refused"), 1, id="the cluster"),
        pytest.param(NvmlError("nvmlInit", 12, "LIBRARY_NOT_FOUND"), 1, id="the hardware"),
        pytest.param(SettingsInvalid("--nvml: wrong"), 2, id="settings"),
        pytest.param(MachineInvalid("gpus[0].board: no such board"), 2, id="a machine file"),
        pytest.param(SocketPathTooLong("/a/long/path"), 2, id="a socket path"),
        pytest.param(AnotherPublisher("gpu.nvidia.com publishes here"), 3, id="another publisher"),
    ],
)
def test_an_error_is_one_text_on_stderr_and_a_stable_exit_code(
    err: DriverError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(argparse.Namespace(run=_raise(err), debug=False)) == code
    out, said = capsys.readouterr()
    assert out == ""
    assert said.startswith(f"gpu-dra: error: {err}")
    assert said.count("\n") == 1
    assert "Traceback" not in said


def test_debug_shows_where_an_error_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(argparse.Namespace(run=_raise(SettingsInvalid("wrong")), debug=True)) == 2
    said = capsys.readouterr().err
    assert "Traceback (most recent call last)" in said
    assert said.endswith("gpu-dra: error: wrong\n")


def test_an_nvml_error_says_what_to_try_without_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    run(argparse.Namespace(run=_raise(NvmlError("nvmlInit", 12, "LIBRARY_NOT_FOUND")), debug=False))
    assert "--nvml mock:dgx-h100" in capsys.readouterr().err


def test_ctrl_c_is_130_and_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(argparse.Namespace(run=_raise(KeyboardInterrupt()), debug=False)) == 130
    assert capsys.readouterr() == ("", "")


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        run(argparse.Namespace(run=_raise(ZeroDivisionError()), debug=False))


@pytest.mark.parametrize("code", [0, 1])
def test_a_command_says_its_own_exit_code(code: int) -> None:
    assert run(argparse.Namespace(run=lambda _: code, debug=False)) == code


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        pytest.param([], "the following arguments are required: COMMAND", id="no command"),
        pytest.param(["inspekt"], "invalid choice: 'inspekt' (choose from", id="an unknown command"),
        pytest.param(
            ["inspect", "--nvlm", "real"], "'--nvlm' is no argument of this command; did you mean --nvml?", id="a typo"
        ),
        pytest.param(["inspect", "--node", "a"], "did you mean --node-name?", id="an abbreviation"),
        pytest.param(["inspect", "mock:t4"], "'mock:t4' is no argument of this command", id="a stray word"),
        pytest.param(["inspect", "--nvml"], "argument --nvml: expected one argument", id="a flag without its value"),
        pytest.param(["inspect", "-o", "xml"], "argument -o/--output: invalid choice: 'xml'", id="an unknown form"),
        pytest.param(
            ["inspect", "--cdi-root", "/x"], "'--cdi-root' is no argument of this command", id="another command's flag"
        ),
        pytest.param(["inspect", "--output"], "argument -o/--output: expected one argument", id="a form without its value"),
        pytest.param(["--verbose", "inspect"], "'--verbose' is no argument", id="a flag of no command"),
    ],
)
def test_a_wrong_command_line_is_code_2_with_what_and_where_to_look(
    argv: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = _ended(argv, capsys)
    assert code == 2
    assert says in said
    assert said.rstrip().endswith("--help` says what is right")
    assert said.count("\n") == 1


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    name, version = capsys.readouterr().out.split()
    assert (name, version.count(".")) == ("gpu-dra", 2)


def test_every_command_has_a_help_that_teaches(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does, examples, exit codes, and where to read on, within 80 columns of own text."""
    monkeypatch.setenv("COLUMNS", "80")
    parser, commands = build_parser()
    for name, each in {"": parser, **commands.choices}.items():
        text = each.format_help()
        for needed in ("examples:", f"gpu-dra {name}".strip(), "exit codes", "Next:"):
            assert needed in text, f"{name}: {needed}"
        assert max(len(line) for line in text.splitlines()) <= 100, name


def test_every_command_takes_debug() -> None:
    for name in build_parser()[1].choices:
        assert "--debug" in build_parser()[1].choices[name].format_help()


def test_print_settings_shows_them_all_and_where_they_come_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_NAME", "node-a")
    assert main(["inspect", "--print-settings", "--nvml", "mock:t4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "nvml: 'mock:t4'  # --nvml" in lines
    assert "nodeName: 'node-a'  # environment NODE_NAME" in lines
    assert not any("cdiRoot" in line for line in lines)  # is no setting of this command


def test_print_settings_of_the_controller_are_its_own_and_those_it_would_start_with(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_NAME", "node-a")
    assert main(["controller", "--print-settings", "--lease-s", "20"]) == 0
    keys = [line.removeprefix("# ").partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert {"leaseS", "renewS", "hold", "kubeconfig", "healthAddress"} <= set(keys)
    assert not {"nvml", "cdiRoot", "nodeName", "drainTime"} & set(keys)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--renew-s", "30"], "lease (15.0 s) must be longer than renew (30.0 s)"),
        (["--request-timeout-s", "20"], "must be longer than request time-out (20.0 s) and retry (2.0 s) together"),
        (["--health-address", "unix:/run/h.sock"], "--health-address: unix:/run/h.sock is a unix socket"),
    ],
    ids=["renew after the lease", "a request that outlives the lease", "health on a unix socket"],
)
def test_print_settings_refuses_what_the_controller_would_refuse(
    capsys: pytest.CaptureFixture[str], flags: list[str], words: str
) -> None:
    assert main(["controller", "--print-settings", *flags]) == 2
    told = capsys.readouterr()
    assert words in told.err
    assert told.out == ""


def test_a_flag_of_another_command_is_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["controller", "--node-name=x"])
    told = capsys.readouterr().err
    assert "'--node-name=x' is no argument of this command, but of kubelet-plugin and " in told
    assert "did you mean" not in told
