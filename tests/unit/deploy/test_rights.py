"""The chart lets each account do each thing that the code does, and no more. A missing right may show late, in a take-back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.identity import ACCOUNTS, CONTROLLER, PLUGIN, SYSTEM_NAMESPACE
from tests.e2e.rights import RIGHTS, Right, allows, read_requests
from tests.unit.deploy.rendered import OBJECTS, ROOT, find

Granted = tuple[str, str, str, str]
"""Resource with its group, verb, namespace, name; empty for all of them."""


def _spell(group: str, resource: str) -> str:
    return f"{group}/{resource}" if group else resource


def _read_rules(role: dict[str, Any], namespace: str) -> Iterator[Granted]:
    for rule in role["rules"]:
        names = rule.get("resourceNames", [""])
        for group, resource, verb, name in product(rule["apiGroups"], rule["resources"], rule["verbs"], names):
            yield _spell(group, resource), verb, namespace, name


def _granted_to(account: str) -> list[Granted]:
    """Every right of every role that is bound to the account."""
    found: list[Granted] = []
    for binding in OBJECTS:
        if not binding["kind"].endswith("RoleBinding"):
            continue
        for subject in binding["subjects"]:
            if (subject["kind"], subject["name"], subject["namespace"]) == ("ServiceAccount", account, SYSTEM_NAMESPACE):
                reference = binding["roleRef"]
                is_for_all = binding["kind"] == "ClusterRoleBinding"
                namespace = "" if is_for_all else binding["metadata"]["namespace"]
                found += _read_rules(find(reference["kind"], reference["name"]), namespace)
    return found


@pytest.mark.parametrize("account", ACCOUNTS)
def test_the_chart_grants_what_the_table_has_and_each_right_once(account: str) -> None:
    wanted = [(each.resource, each.verb, each.namespace, each.name) for each in RIGHTS[account]]
    assert sorted(_granted_to(account)) == sorted(wanted)


def _place(right: Right) -> tuple[str, ...]:
    return right.file, *right.key, right.namespace, right.name


_ALL = sorted({right for rights in RIGHTS.values() for right in rights}, key=_place)


@pytest.mark.parametrize("right", _ALL, ids=lambda right: "-".join(right.key))
def test_the_code_that_needs_a_right_is_there(right: Right) -> None:
    assert right.text in (ROOT / right.file).read_text()


def test_every_binding_is_to_an_account_of_the_chart() -> None:
    """Nothing is granted to a group, or to an account that something else may make."""
    subjects = [each for binding in OBJECTS if binding["kind"].endswith("Binding") for each in binding.get("subjects", [])]
    assert {(each["kind"], each["namespace"], each["name"]) for each in subjects} == {
        ("ServiceAccount", SYSTEM_NAMESPACE, PLUGIN),
        ("ServiceAccount", SYSTEM_NAMESPACE, CONTROLLER),
    }


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_right_is_a_way_up(account: str) -> None:
    """No wildcard, no secrets, no pods made or entered, no rights given on."""
    for resource, verb, _, _ in _granted_to(account):
        assert "*" not in {resource, verb}
        assert verb not in {"bind", "escalate", "impersonate", "deletecollection"}
        assert resource not in {"secrets", "nodes/proxy", "pods/exec", "pods/eviction", "serviceaccounts/token"}
        assert resource != "pods" or verb in {"get", "list", "watch"}


def test_the_table_knows_names_and_namespaces() -> None:
    def may(verb: str, namespace: str, name: str) -> bool:
        return allows(CONTROLLER, resource="coordination.k8s.io/leases", verb=verb, namespace=namespace, name=name)

    assert may("update", SYSTEM_NAMESPACE, CONTROLLER)
    assert may("create", SYSTEM_NAMESPACE, "")
    assert not may("update", SYSTEM_NAMESPACE, "another")
    assert not may("update", SYSTEM_NAMESPACE, "")
    assert not may("update", "kube-node-lease", CONTROLLER)


def test_the_audit_log_is_read_for_the_drivers_own_requests(tmp_path: Path) -> None:
    """Scenarios try things with the driver's tokens, too; and ``/version`` is no object."""
    claim = {
        "apiGroup": "resource.k8s.io",
        "resource": "resourceclaims",
        "subresource": "status",
        "namespace": "a",
        "name": "c",
    }
    user = {"username": f"system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER}"}
    events = [
        {"user": user, "userAgent": "gpu-dra", "verb": "update", "objectRef": claim, "responseStatus": {"code": 409}},
        {"user": user, "userAgent": "gpu-dra", "verb": "list", "objectRef": {"resource": "pods"}},
        {"user": user, "userAgent": "python-urllib3", "verb": "delete", "objectRef": claim},
        {"user": user, "userAgent": "gpu-dra", "verb": "get", "requestURI": "/version"},
    ]
    log = tmp_path / "audit.log"
    log.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert [
        (each.account, each.verb, each.resource, each.namespace, each.name, each.status) for each in read_requests(log)
    ] == [
        (CONTROLLER, "update", "resource.k8s.io/resourceclaims/status", "a", "c", 409),
        (CONTROLLER, "list", "pods", "", "", 0),
    ]
