"""Paths of objects, and refusals of any form as errors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.errors import ApiError, Conflict, Forbidden, Gone, Invalid, NotFound, TooManyRequests
from driver.kube.refusals import Status, build_refusal
from driver.kube.resources import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES, Selection


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (NODES.path(name="node-a"), "/api/v1/nodes/node-a"),
        (RESOURCE_SLICES.path(), "/apis/resource.k8s.io/v1/resourceslices"),
        (
            RESOURCE_CLAIMS.path(namespace="team-a", name="c", subresource="status"),
            "/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims/c/status",
        ),
        (NODES.path(name="a/../b?c#d"), "/api/v1/nodes/a%2F..%2Fb%3Fc%23d"),
    ],
)
def test_path(path: str, expected: str) -> None:
    assert path == expected


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_no_name_leaves_its_place_in_a_path(namespace: str, name: str) -> None:
    try:
        path = RESOURCE_CLAIMS.path(namespace=namespace, name=name)
    except (ValueError, UnicodeEncodeError):
        return  # dots and lone surrogates are nobody's name
    assert path.count("/") == len("/apis/resource.k8s.io/v1/namespaces/x/resourceclaims/x".split("/")) - 1
    assert path.isascii()
    assert not set(path) & set("?# \n")


def test_a_selection_has_only_what_was_given() -> None:
    assert Selection().query() == {}
    assert Selection(field_selector="a=b", label_selector="c").query() == {"fieldSelector": "a=b", "labelSelector": "c"}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, Invalid),
        (401, Forbidden),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (422, Invalid),
        (429, TooManyRequests),
        (500, ApiError),
        (0, ApiError),
    ],
)
def test_each_status_is_an_error_of_its_own(code: int, kind: type[ApiError]) -> None:
    found = build_refusal("GET /x", code, Status(reason="R", message="m"))
    assert (type(found), found.status, found.message.partition(";")[0]) == (kind, code, "R: m")


def test_a_refusal_without_words_says_so() -> None:
    assert build_refusal("GET /x", 500, Status()).message == "no reason given"
