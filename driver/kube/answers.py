"""What the server's answers say: a body of bounded size, and for a refusal the error of our own tree."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

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
from driver.kube.transport import Request, errors_mapped

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

V = TypeVar("V")

MAX_ANSWER_BYTES = 64 << 20
MAX_ANSWER_S = 60.0
"""How long a whole answer may take, however steadily it trickles in: whoever waits for it may hold the lock of a claim."""

_CHUNK_BYTES = 1 << 20
_MAX_MESSAGE = 1000
_MAX_RETRY_AFTER_S = 300.0
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


def read_answer(request: Request, response: BaseHTTPResponse, type_: type[V]) -> V:
    """The body as ``type_``. Raises the refusal where the status is none of success, and ``ApiError`` for another form."""
    if response.status not in {200, 201, 202}:
        raise read_refusal(request, response)
    body = _read_body(request, response, MAX_ANSWER_BYTES)
    try:
        return decode_object(body, type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as err:
        text = f"the answer is not what Kubernetes sends here: {err}"
        raise ApiError(str(request), response.status, text[:_MAX_MESSAGE]) from err


def decode_object(text: bytes | msgspec.Raw, type_: type[V]) -> V:
    """``text`` as ``type_``. A field that is null counts as absent, as everywhere in the API: 1.34 answers ``devices: null``.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: it is no such object.
    """
    try:
        return msgspec.json.decode(text, type=type_)
    except msgspec.ValidationError:
        return msgspec.json.decode(msgspec.json.encode(_without_nulls(msgspec.json.decode(text))), type=type_)


def _without_nulls(value: object) -> object:
    """Without the fields that are null; what users wrote into ``parameters`` stays as it is."""
    if isinstance(value, dict):
        return {key: each if key == "parameters" else _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


def read_refusal(request: Request, response: BaseHTTPResponse) -> ApiError:
    """The error that a refusing answer stands for."""
    body = _read_body(request, response, 64 * 1024, is_cut=True)
    try:
        status = msgspec.json.decode(body, type=Status)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        status = Status(message=_shown(body))
    after = response.headers.get("Retry-After") or (status.details.retry_after_seconds if status.details else None)
    return build_refusal(str(request), response.status, status, retry_after_s=_parse_retry_after(after))


def build_refusal(request: str, code: int, status: Status, *, retry_after_s: float | None = None) -> ApiError:
    """The error for a status of the server's."""
    message = ": ".join(part for part in (status.reason, status.message) if part) or "no reason given"
    if len(message) > _MAX_MESSAGE:
        message = message[:_MAX_MESSAGE] + "..."
    return _ERRORS.get(code, ApiError)(request, code, message, retry_after_s=retry_after_s)


def _read_body(request: Request, response: BaseHTTPResponse, limit: int, *, is_cut: bool = False) -> bytes:
    """The body, and the connection back to the pool; a body over the limit closes the connection instead."""
    ends_at = time.monotonic() + MAX_ANSWER_S
    data = bytearray()
    with errors_mapped(request):
        while len(data) <= limit and (part := response.read1(_CHUNK_BYTES, decode_content=False)):
            data += part
            if time.monotonic() > ends_at:
                response.close()
                raise TimeoutError(f"the answer was not whole after {MAX_ANSWER_S:.0f} s")
        if len(data) <= limit:
            response.release_conn()
            return bytes(data)
        response.close()
    if is_cut:
        return bytes(data[:limit])
    raise ApiError(str(request), response.status, f"the answer is longer than {limit} bytes")


def _shown(body: bytes) -> str:
    """The first words of an answer that is no Status: a proxy's page, say."""
    text = body[:300].decode(errors="replace")
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _parse_retry_after(value: str | float | None) -> float | None:
    try:
        seconds = float(value) if value else 0.0
    except ValueError:
        return None  # a date: no API server sends one
    return min(seconds, _MAX_RETRY_AFTER_S) if seconds > 0 else None
