"""docs/security.md says what the chart installs: rights, folders of the host, users, policies."""

from __future__ import annotations

import re
from typing import Any

from hack.checks.tree import REPOSITORY
from hack.docs.rights import PAGE, render_security_page
from tests.unit.deploy.rendered import OBJECTS, find

TEXT = PAGE.read_text(encoding="utf-8")
DRIVER_ROOT = "/"


def read_pod(kind: str) -> dict[str, Any]:
    """The pod's spec of the one object of this kind."""
    spec: dict[str, Any] = find(kind)["spec"]["template"]["spec"]
    return spec


def read_column(title: str) -> list[str]:
    """The first column of the table whose first title this is."""
    table = TEXT.split(f"| {title} |", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| (.+?) \|", table, flags=re.MULTILINE)[1:]


def test_the_rights_are_the_charts() -> None:
    """Run ``make docs`` when this fails."""
    assert render_security_page() == TEXT


def test_the_table_has_a_row_for_each_right_of_the_rendered_roles() -> None:
    granted = sum(len(each["rules"]) for each in OBJECTS if each["kind"] in {"ClusterRole", "Role"})
    rows = TEXT.split("<!-- rights:")[1].split("<!-- end of rights -->")[0].count("\n| the ")
    assert rows == granted


def test_the_folders_of_the_host_are_those_that_are_mounted() -> None:
    pod = read_pod("DaemonSet")
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    assert set(paths.values()) == {name.strip("`") for name in read_column("host folder")} - {"the driver root"} | {DRIVER_ROOT}
    read_only = {paths[each["name"]] for each in pod["containers"][0]["volumeMounts"] if each.get("readOnly")}
    assert read_only == {"/var/lib/kubelet", DRIVER_ROOT}
    for path in {*paths.values()} - {DRIVER_ROOT}:
        assert f"| `{path}` | {'read-only' if path in read_only else 'read and write'} |" in TEXT


def test_what_runs_is_what_the_chart_runs() -> None:
    plugin, controller = read_pod("DaemonSet"), read_pod("Deployment")
    assert "| user | root | root | 65532 |" in TEXT
    assert plugin["containers"][0]["securityContext"]["runAsUser"] == 0
    assert controller["securityContext"]["runAsUser"] == 65532
    assert "| privileged | yes | no | no |" in TEXT
    assert plugin["containers"][0]["securityContext"]["privileged"] is True
    assert "| `hostPID` | yes | no | no |" in TEXT
    assert plugin["hostPID"] is True
    assert not {"hostPID", "hostNetwork"} & set(controller)
    assert "hostNetwork" not in plugin
    for pod in (plugin, controller):
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert controller["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_every_policy_is_named() -> None:
    installed = {each["metadata"]["name"] for each in OBJECTS if each["kind"] == "ValidatingAdmissionPolicy"}
    named = {name.strip("`").replace("…", "gpu-dra") for name in read_column("policy")}
    assert named == installed


def test_no_account_may_read_secrets_or_make_pods() -> None:
    for each in OBJECTS:
        for rule in each.get("rules", []):
            assert not {"secrets", "*"} & set(rule["resources"])
            assert "pods" not in rule["resources"] or not {"create", "update", "patch", "delete"} & set(rule["verbs"])


def test_the_page_is_in_the_list_of_made_pages() -> None:
    assert "render_security_page" in (REPOSITORY / "hack" / "docs" / "__main__.py").read_text()
