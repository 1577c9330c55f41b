"""What is added to a refusal of the server's: what to do, where its own words do not say it, and nothing where they do."""

from __future__ import annotations

import pytest

from driver.kube.refusals import Status, build_refusal, decode_status

SERVER = "https://10.0.0.1:6443"
SLICES = "GET /apis/resource.k8s.io/v1/resourceslices?limit=500"
LOG_IN = f"{SERVER} does not know these credentials (any more): log in again, or name another kubeconfig or context"
NO_DRA = (
    f"{SERVER} does not serve resource.k8s.io/v1: DRA is in Kubernetes 1.34 and later: is it such a cluster? (kubectl version)"
)
PAGE = "404 page not found"


@pytest.mark.parametrize(
    ("request_", "code", "status", "text"),
    [
        pytest.param(
            SLICES,
            401,
            Status(kind="Status", reason="Unauthorized", message="Unauthorized"),
            f"Unauthorized: Unauthorized; {LOG_IN}",
            id="credentials",
        ),
        pytest.param(
            SLICES,
            403,
            Status(kind="Status", reason="Forbidden", message='User "a" cannot list resource "resourceslices"'),
            'Forbidden: User "a" cannot list resource "resourceslices"; '
            "RBAC: a Role or ClusterRole with that right must be bound to that user",
            id="a right",
        ),
        pytest.param(
            "POST /api/v1/namespaces/a/pods",
            403,
            Status(kind="Status", reason="Forbidden", message="exceeded quota"),
            "Forbidden: exceeded quota",
            id="admission is no right",
        ),
        pytest.param(SLICES, 404, Status(message=PAGE), f"{PAGE}; {NO_DRA}", id="no DRA, in Go's words"),
        pytest.param(
            "GET /apis/resource.k8s.io/v1/resourceslices?watch=1",
            404,
            Status(kind="Status", reason="NotFound", message="the server could not find the requested resource"),
            f"NotFound: the server could not find the requested resource; {NO_DRA}",
            id="no DRA, in Kubernetes' words",
        ),
        pytest.param(
            "PUT /apis/resource.k8s.io/v1/namespaces/a/resourceclaims/b/status?timeout=30s",
            404,
            Status(kind="Status", reason="NotFound", message='resourceclaims "b" not found'),
            'NotFound: resourceclaims "b" not found',
            id="an object that is gone",
        ),
        pytest.param(
            "GET /apis/events.k8s.io/v1/events?limit=500",
            404,
            Status(message=PAGE),
            f"{PAGE}; {SERVER} does not serve events.k8s.io/v1: is Kubernetes older there, or the API switched off?",
            id="another API",
        ),
        pytest.param(
            "GET /api/v1/nodes?limit=500",
            404,
            Status(message=PAGE),
            f"{PAGE}; is {SERVER} an API server, and does its address have the path that it needs?",
            id="no API at all",
        ),
        pytest.param(
            SLICES,
            400,
            Status(message="Client sent an HTTP request to an HTTPS server."),
            f"Client sent an HTTP request to an HTTPS server.; {SERVER} speaks TLS: its address begins with https://",
            id="http for https",
        ),
        pytest.param(
            SLICES,
            302,
            Status(),
            f"no reason given; {SERVER} sends us on to another address, which is not followed: "
            "is it an API server, or a login page?",
            id="a redirect",
        ),
        pytest.param(
            SLICES,
            502,
            Status(message="<html>"),
            f"<html>; these are no words of Kubernetes: is {SERVER} an API server, or does a proxy answer for it?",
            id="a proxy's page",
        ),
        pytest.param(
            SLICES,
            503,
            Status(kind="Status", reason="ServiceUnavailable", message="apiserver is shutting down"),
            "ServiceUnavailable: apiserver is shutting down",
            id="Kubernetes' own words are enough",
        ),
    ],
)
def test_a_refusal_says_what_to_do(request_: str, code: int, status: Status, text: str) -> None:
    assert str(build_refusal(request_, code, status, server=SERVER)) == f"{request_}: {code} {text}"


def test_a_long_message_is_cut_and_the_advice_is_not() -> None:
    err = build_refusal(SLICES, 401, Status(reason="Unauthorized", message="m" * 5000), server=SERVER)
    assert len(err.message) < 1300
    assert err.message.endswith(LOG_IN)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"404 page not found\n", "404 page not found"),
        (b"<html>\n\x00bad \xff gateway", "<html> bad \N{REPLACEMENT CHARACTER} gateway"),
        (b"", ""),
        (b"[" * 5000, "[" * 300),
    ],
)
def test_what_is_no_status_is_shown_by_its_first_words(body: bytes, message: str) -> None:
    assert decode_status(body) == Status(message=message)
