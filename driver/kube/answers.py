"""What the server's answers say: a body of bounded size, and for a refusal the error of our own tree."""

from __future__ import annotations

import time
from typing import TypeVar

import msgspec

from driver.api.nesting import cut_nesting
from driver.errors import ApiError
from driver.kube.connection import Answer, AnswerBroken
from driver.kube.refusals import build_refusal, decode_status
from driver.kube.transport import Request, errors_mapped

V = TypeVar("V")

MAX_ANSWER_BYTES = 64 << 20
MAX_ANSWER_S = 60.0
"""How long a whole answer may take, however steadily it trickles in: whoever waits for it may hold the lock of a claim."""

_CHUNK_BYTES = 1 << 20
_MAX_FAULT = 500
_MAX_RETRY_AFTER_S = 300.0


def read_answer(request: Request, response: Answer, type_: type[V]) -> V:
    """The body as ``type_``. Raises the refusal where the status is none of success, and ``ApiError`` for another form."""
    body = read_bytes(request, response)
    try:
        return decode_object(body, type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as err:
        text = f"the answer is not what Kubernetes sends here: {str(err)[:_MAX_FAULT]}; is {response.place.url} an API server?"
        raise ApiError(str(request), response.status, text) from err


def read_bytes(request: Request, response: Answer) -> bytes:
    """The body as it is. Raises the refusal where the status is none of success."""
    if response.status not in {200, 201, 202}:
        raise read_refusal(request, response)
    return _read_body(request, response, MAX_ANSWER_BYTES)


def decode_object(text: bytes | msgspec.Raw, type_: type[V]) -> V:
    """``text`` as ``type_``. A field that is null counts as absent, as everywhere in the API: 1.34 answers ``devices: null``.

    Opaque parameters that are nested too deeply are cut (``driver.api.nesting``): one claim must not hide all others.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: it is no such object.
    """
    try:
        return _decode(text, type_)
    except RecursionError:
        return _decode(cut_nesting(bytes(text)), type_)


def _decode(text: bytes | msgspec.Raw, type_: type[V]) -> V:
    try:
        return msgspec.json.decode(text, type=type_)
    except msgspec.ValidationError:
        return msgspec.json.decode(msgspec.json.encode(without_nulls(msgspec.json.decode(text))), type=type_)


def without_nulls(value: object) -> object:
    """Without the fields that are null; what users wrote into ``parameters`` stays as it is."""
    if isinstance(value, dict):
        return {key: each if key == "parameters" else without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


def read_refusal(request: Request, response: Answer) -> ApiError:
    """The error that a refusing answer stands for."""
    body = _read_body(request, response, 64 * 1024, is_cut=True)
    status = decode_status(body)
    after = response.headers.get("retry-after") or (status.details.retry_after_seconds if status.details else None)
    return build_refusal(
        str(request), response.status, status, server=response.place.url, retry_after_s=_parse_retry_after(after)
    )


def _read_body(request: Request, response: Answer, limit: int, *, is_cut: bool = False) -> bytes:
    """The body, and the connection back to the pool; a body over the limit closes the connection instead."""
    ends_at = time.monotonic() + MAX_ANSWER_S
    data = bytearray()
    with errors_mapped(request, response.place):
        while len(data) <= limit and (part := response.read1(_CHUNK_BYTES)):
            data += part
            if time.monotonic() > ends_at:
                response.close()
                raise AnswerBroken(f"the answer was not whole after {MAX_ANSWER_S:.0f} s")
        if len(data) <= limit:
            response.release_conn()
            return bytes(data)
        response.close()
    if is_cut:
        return bytes(data[:limit])
    raise ApiError(str(request), response.status, f"the answer is longer than {limit} bytes")


def _parse_retry_after(value: str | float | None) -> float | None:
    try:
        seconds = float(value) if value else 0.0
    except ValueError:
        return None  # a date: no API server sends one
    return min(seconds, _MAX_RETRY_AFTER_S) if seconds > 0 else None
