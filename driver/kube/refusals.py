"""What a refusing answer means: the error of our own tree, in words that say what to do where the server's own do not."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from driver.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
)

_MAX_MESSAGE = 1000
_MAX_SHOWN = 300
_GO_SAYS_NO_SUCH_PATH = "404 page not found"
_GO_SAYS_TLS = "client sent an http request to an https server"
_UNSERVED = frozenset({_GO_SAYS_NO_SUCH_PATH, "the server could not find the requested resource"})

_ERRORS: Mapping[int, type[ApiError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class _StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    retry_after_seconds: float = 0


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The server's own account of a refusal; also what an ERROR in a watch carries."""

    kind: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
    details: _StatusDetails | None = None


def decode_status(body: bytes) -> Status:
    """The account in a body; where it is none of Kubernetes', its first words as the message."""
    try:
        return msgspec.json.decode(body, type=Status)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Status(message=_shown(body))


def build_refusal(request: str, code: int, status: Status, *, server: str = "", retry_after_s: float | None = None) -> ApiError:
    """The error for a status of the server's; ``server`` is its URL, for messages."""
    message = ": ".join(part for part in (status.reason, status.message) if part) or "no reason given"
    if len(message) > _MAX_MESSAGE:
        message = message[:_MAX_MESSAGE] + "..."
    advice = _find_advice(code, status, request, server)
    return _ERRORS.get(code, ApiError)(request, code, message + (f"; {advice}" if advice else ""), retry_after_s=retry_after_s)


def _find_advice(code: int, status: Status, request: str, server: str) -> str:
    where = server or "the server"
    if code in {401, 403}:
        return _find_advice_on_rights(code, status, where)
    if code == 404:
        return _find_advice_on_absence(status, request, where)
    if _GO_SAYS_TLS in status.message.lower():
        return f"{where} speaks TLS: its address begins with https://"
    if 300 <= code < 400:
        return f"{where} sends us on to another address, which is not followed: is it an API server, or a login page?"
    if server and not status.kind and not status.reason and code >= 400:
        return f"these are no words of Kubernetes: is {server} an API server, or does a proxy answer for it?"
    return ""


def _find_advice_on_rights(code: int, status: Status, where: str) -> str:
    if code == 401:
        return f"{where} does not know these credentials (any more): log in again, or name another kubeconfig or context"
    # what admission refuses is a 403, too
    return "RBAC: a Role or ClusterRole with that right must be bound to that user" if " cannot " in status.message else ""


def _find_advice_on_absence(status: Status, request: str, where: str) -> str:
    """Only where the kind is unknown there, not where an object of it is."""
    path, _, query = request.partition(" ")[2].partition("?")
    if status.message not in _UNSERVED and "limit=" not in query:  # a list of what there is none of is an empty one
        return ""
    parts = path.split("/")
    if parts[1:3] == ["apis", "resource.k8s.io"]:
        return (
            f"{where} does not serve {'/'.join(parts[2:4])}: DRA is in Kubernetes 1.34 and later: is it such a cluster? "
            "(kubectl version)"
        )
    if parts[1:2] == ["apis"] and len(parts) > 3:
        return f"{where} does not serve {'/'.join(parts[2:4])}: is Kubernetes older there, or the API switched off?"
    return f"is {where} an API server, and does its address have the path that it needs?"


def _shown(body: bytes) -> str:
    """The first words of an answer that is no Status: a proxy's page, say."""
    text = body[:_MAX_SHOWN].decode(errors="replace")
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
