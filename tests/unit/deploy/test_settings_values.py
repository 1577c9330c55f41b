"""Values of the chart that are settings of the program, as they arrive on its command line. Needs helm."""

from __future__ import annotations

import json
from typing import Any

import pytest

from driver.cli.main import build_parser
from driver.config.setting import Setting
from driver.config.settings import declared
from tests.unit.deploy.helm import needs_helm, of_kind, render

pytestmark = needs_helm

PLUGIN, CONTROLLER = "DaemonSet", "Deployment"

CASES: dict[str, tuple[str, object, str, str]] = {
    "XIDs that are ignored": ("kubeletPlugin.health.ignoredXids", [48, 1063], PLUGIN, "--ignored-xids=48,1063"),
    "kinds that evict": ("kubeletPlugin.health.evictFor", ["gpu-lost", "ecc"], PLUGIN, "--evict-for=gpu-lost,ecc"),
    "no events": ("kubeletPlugin.health.events", False, PLUGIN, "--health-events=off"),
    "a drain time": ("kubeletPlugin.drainTime", "20m", PLUGIN, "--drain-time=20m"),
    "schedulers": ("controller.schedulers", ["default-scheduler", "mine"], CONTROLLER, "--schedulers=default-scheduler,mine"),
    "nobody holds": ("controller.hold", False, CONTROLLER, "--hold=off"),
    "a time unbound": ("controller.unboundSeconds", 90.5, CONTROLLER, "--unbound-s=90.5"),
    "the plugin's logs for people": ("logFormat", "text", PLUGIN, "--log-format=text"),
    "the controller's logs for people": ("logFormat", "text", CONTROLLER, "--log-format=text"),
}


def _read_arguments(objects: list[dict[str, Any]], kind: str) -> list[str]:
    arguments: list[str] = of_kind(objects, kind)["spec"]["template"]["spec"]["containers"][0]["args"]
    return arguments


@pytest.mark.parametrize(("path", "value", "kind", "argument"), CASES.values(), ids=CASES.keys())
def test_a_value_arrives_as_its_flag(path: str, value: object, kind: str, argument: str) -> None:
    arguments = _read_arguments(render(f"--set-json={path}={json.dumps(value)}"), kind)
    assert arguments.count(argument) == 1
    flag = argument.partition("=")[0]
    assert [each for each in arguments if each.startswith(f"{flag}=")] == [argument], "each flag is there once"


@pytest.mark.parametrize("kind", [PLUGIN, CONTROLLER])
def test_the_program_takes_what_the_chart_gives_it(kind: str) -> None:
    """With the defaults and with every value of the table at once: each flag is known, and its text is one that is taken."""
    all_set = [f"--set-json={path}={json.dumps(value)}" for path, value, _, _ in CASES.values()]
    readers = {_flag_of(each): each for each in declared()}
    for more in ([], all_set):
        command, *arguments = _read_arguments(render(*more), kind)
        known = build_parser()[1].choices[command]._option_string_actions
        for argument in arguments:
            flag, _, text = argument.partition("=")
            assert flag in known
            readers[flag].parse(text)


def test_nothing_is_ignored_and_nobody_evicted_by_default() -> None:
    arguments = _read_arguments(render(), PLUGIN)
    assert "--health-events=on" in arguments
    assert not [each for each in arguments if each.startswith(("--ignored-xids", "--evict-for"))]


def _flag_of(setting: Setting) -> str:
    return "--" + setting.name.replace("_", "-")
