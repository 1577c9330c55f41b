"""The chart, as far as it can be judged without helm: values and their schema, flags, ports. ``make e2e`` installs it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it has no stubs of its own
import pytest
import yaml

from driver.cli.main import build_parser
from driver.config.health_settings import EVICTING
from driver.config.settings import declared
from driver.config.values import parse_seconds

CHART = Path(__file__).parents[3] / "deploy" / "helm" / "gpu-dra"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
TEMPLATES = {path.name: path.read_text() for path in sorted((CHART / "templates").glob("*.yaml"))}


def test_the_defaults_fit_the_schema() -> None:
    jsonschema.validate(VALUES, SCHEMA)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a value that there is not": ({"kubeletPlugins": {}}, "kubeletPlugins"),
    "a setting that there is not": ({"kubeletPlugin": {"nvmll": "real"}}, "nvmll"),
    "no backend": ({"kubeletPlugin": {"nvml": "fake"}}, "fake"),
    "a mock of no machine": ({"kubeletPlugin": {"nvml": "mock:"}}, "mock:"),
    "an unknown allocator": ({"kubeletPlugin": {"allocation": "both"}}, "both"),
    "a relative folder": ({"kubeletPlugin": {"kubeletRoot": "var/lib/kubelet"}}, "var/lib/kubelet"),
    "a port that there is not": ({"controller": {"httpPort": 70000}}, "70000"),
    "no replica": ({"controller": {"replicas": 0}}, "0"),
    "a flag that is none": ({"kubeletPlugin": {"extraArgs": ["log-level=debug"]}}, "log-level"),
    "a kind that evicts nobody": ({"kubeletPlugin": {"health": {"evictFor": ["heat"]}}}, "heat"),
    "an XID that is no number": ({"kubeletPlugin": {"health": {"ignoredXids": ["79"]}}}, "79"),
    "no scheduler": ({"controller": {"schedulers": []}}, "[]"),
    "a time without a unit of ours": ({"kubeletPlugin": {"drainTime": "15 minutes"}}, "15 minutes"),
    "text for a switch": ({"networkPolicy": {"create": "no"}}, "no"),
}


@pytest.mark.parametrize(("values", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_value_is_refused_and_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(jsonschema.ValidationError, match=re.escape(words)):
        jsonschema.validate(_merged(VALUES, values), SCHEMA)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """As helm lays a user's values over the chart's."""
    both = {name: _merged(below[name], inner) for name, inner in above.items() if isinstance(inner, dict) and name in below}
    return {**below, **above, **both}


def _paths(value: object, prefix: str = "") -> Iterator[str]:
    if isinstance(value, dict) and value and prefix.rpartition(".")[2] not in {"resources", "affinity"}:
        for key, inner in value.items():
            yield from _paths(inner, f"{prefix}.{key}".lstrip("."))
    else:
        yield prefix


def _schema_paths(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, inner in schema.get("properties", {}).items():
        path = f"{prefix}.{key}".lstrip(".")
        if "properties" in inner:
            yield from _schema_paths(inner, path)
        elif path not in {"global", "enabled"}:  # both are what a chart around this one may hand down
            yield path


def test_the_schema_knows_each_value_and_no_other() -> None:
    assert sorted(_schema_paths(SCHEMA)) == sorted(_paths(VALUES))


def test_every_value_is_used() -> None:
    text = "\n".join([*TEMPLATES.values(), (CHART / "templates" / "_names.tpl").read_text()])
    for path in _paths(VALUES):
        last = path.rpartition(".")[2]
        assert re.search(rf"\.{last}\b", text), f"{path} changes nothing"


@pytest.mark.parametrize(
    ("template", "command"), [("kubelet-plugin.yaml", "kubelet-plugin"), ("controller.yaml", "controller")]
)
def test_every_flag_exists(template: str, command: str) -> None:
    _, commands = build_parser()
    known = set(commands.choices[command]._option_string_actions)
    used = set(re.findall(r"^ +- (--[a-z-]+)=", TEMPLATES[template], flags=re.MULTILINE))
    assert used
    assert used <= known


NO_VALUE: dict[str, str] = {
    "--config": "the values are the settings; a file beside them would be a second way",
    "--debug": "a traceback for people at a terminal",
    "--dev-root": "the host's /dev is mounted at the same path",
    "--dev-root-on-host": "likewise",
    "--driver-name": "the chart's classes, policies and folders are named after it",
    "--help": "no setting",
    "--kubeconfig": "the pod's service account",
    "--lease-s": "the four times go together, and fit every API server that answers within 5 s; else extraArgs",
    "--mock-state-dir": "below the plugin's folder",
    "--mps-dir": "mounted at its default, which containers and MPS daemons know, too",
    "--namespace": "from the pod: environment POD_NAMESPACE",
    "--node-name": "from the pod: environment NODE_NAME",
    "--nvml-library": "found below the driver root; where not, extraArgs",
    "--plugin-dir": "below the kubelet's root, where it is mounted",
    "--pod-name": "from the pod: environment POD_NAME",
    "--pod-uid": "from the pod: environment POD_UID",
    "--print-settings": "no setting",
    "--proc-root": "the container's own is the host's in all that is read",
    "--registry-dir": "below the kubelet's root, where it is mounted",
    "--renew-s": "as --lease-s",
    "--request-timeout-s": "as --lease-s",
    "--retry-s": "as --lease-s",
    "--sys-root": "the container's own is the host's",
}
"""Flags that no value of the chart sets, and why."""


def test_every_flag_of_both_halves_has_a_value_or_a_reason() -> None:
    """A setting that only extraArgs reaches is one that operators do not find."""
    _, commands = build_parser()
    flags = {
        flag
        for command in ("kubelet-plugin", "controller")
        for flag in commands.choices[command]._option_string_actions
        if flag.startswith("--")
    }
    text = TEMPLATES["kubelet-plugin.yaml"] + TEMPLATES["controller.yaml"]
    given = set(re.findall(r"^ +- (--[a-z-]+)=", text, flags=re.MULTILINE))
    assert flags - given == NO_VALUE.keys()


@pytest.mark.parametrize("flag", [flag for flag, why in NO_VALUE.items() if why.startswith("from the pod")])
def test_what_comes_from_the_pod_is_in_its_environment(flag: str) -> None:
    variable = NO_VALUE[flag].rpartition(" ")[2]
    assert f"{{name: {variable}, valueFrom:" in TEMPLATES["kubelet-plugin.yaml"] + TEMPLATES["controller.yaml"]


def test_the_kinds_that_evict_are_those_of_the_program() -> None:
    kinds = SCHEMA["properties"]["kubeletPlugin"]["properties"]["health"]["properties"]["evictFor"]["items"]["enum"]
    assert tuple(kinds) == EVICTING


def test_the_defaults_are_the_programs_own() -> None:
    """Whoever runs the program by hand has what the chart has."""
    plugin, controller = VALUES["kubeletPlugin"], VALUES["controller"]
    own = {each.name: each.default for each in declared()}
    assert parse_seconds(plugin["drainTime"]) == own["drain_time"]
    assert (",".join(plugin["health"]["evictFor"]), ",".join(plugin["health"]["ignoredXids"])) == (
        own["evict_for"],
        own["ignored_xids"],
    )
    assert (plugin["health"]["events"], controller["hold"]) == (own["health_events"] == "on", own["hold"] == "on")
    assert (",".join(controller["schedulers"]), controller["unboundSeconds"]) == (own["schedulers"], own["unbound_s"])
    assert (VALUES["logLevel"], VALUES["logFormat"]) == (own["log_level"], own["log_format"])
    assert [plugin[each] for each in ("nvml", "allocation", "mig")] == [own[each] for each in ("nvml", "allocation", "mig")]
    assert plugin["consumableShares"] == own["consumable_shares"]


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (CHART.parents[2] / "pyproject.toml").read_text()
    assert f'version = "{chart["appVersion"]}"' in project


def test_classes_and_policies_are_those_of_the_tree_and_no_copies() -> None:
    for name, target in (("deviceclasses", "deviceclasses"), ("admission", "deploy/admission")):
        link = CHART / "files" / name
        assert link.is_symlink()
        assert link.resolve() == CHART.parents[2] / target
