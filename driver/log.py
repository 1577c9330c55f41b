"""One line an event, with its facts as fields: JSON for machines, klog's form for people.

The whole program logs through one function::

    from driver import log

    _LOG = log.logger(__name__)

    log.event(_LOG, log.INFO, "published slices", pool=pool, generation=7)

    with log.operation(claim_uid=uid, claim=f"{namespace}/{name}"):
        ...                       # every event in here carries op=<8 hex> and these fields

``operation`` holds its fields in a context variable, which a new thread does not inherit: hand work to an executor as
``executor.submit(contextvars.copy_context().run, work, argument)``. A message is a fixed text, what differs is a field: so a
search finds every event of a kind. Pass an error as ``error=err``; pass ``exc=err`` only where its traceback matters.

Tests read events as plain values: ``[log.read_event(record) for record in caplog.records]``.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import logging
import math
import re
import secrets
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TextIO, TypeAlias

DEBUG = logging.DEBUG
INFO = logging.INFO
WARNING = logging.WARNING
ERROR = logging.ERROR

LEVELS: Mapping[str, int] = {"debug": DEBUG, "info": INFO, "warning": WARNING, "error": ERROR}
FORMATS = ("json", "text")

Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"

_MAX_TEXT = 4096
_MAX_ITEMS = 256
_MAX_DEPTH = 4
_HIDDEN = "(hidden)"
_SECRET_FIELDS = frozenset({"token", "password", "secret", "authorization", "bearer", "client_key", "client_key_data"})
_BEARER = re.compile(r"(?i)\bbearer\s+[\w.~+/=-]+")
_FIXED = frozenset({"time", "level", "msg", "logger", "traceback"})
_CHATTY_LIBRARIES = ("urllib3", "kubernetes", "grpc", "asyncio")
"""Never below WARNING: at DEBUG some of them print requests with their credentials."""

_bound: contextvars.ContextVar[Mapping[str, object]] = contextvars.ContextVar("driver_log_fields", default=MappingProxyType({}))


def logger(name: str) -> logging.Logger:
    """The logger of a module: ``_LOG = log.logger(__name__)``."""
    return logging.getLogger(name)


def event(to: logging.Logger, level: int, message: str, /, *, exc: BaseException | None = None, **fields: object) -> None:
    """Log one event. ``fields`` beat the operation's fields of the same name; ``exc`` adds its traceback."""
    if to.isEnabledFor(level):
        to.log(level, "%s", message, exc_info=exc, stacklevel=2, extra={"event_fields": {**_bound.get(), **fields}})


@contextlib.contextmanager
def operation(**fields: object) -> Iterator[str]:
    """Give every event in the block these fields and an operation id, which is yielded.

    An operation inside another keeps the outer id and adds its fields: one id for one thing that was asked of us. Say
    ``op=...`` to set the id.
    """
    outer = _bound.get()
    op = str(fields.pop("op", None) or outer.get("op") or secrets.token_hex(4))
    token = _bound.set({**outer, "op": op, **fields})
    try:
        yield op
    finally:
        _bound.reset(token)


def start(*, form: str, level: str, stream: TextIO | None = None) -> None:
    """Send every event of the process, and of its libraries, to ``stream`` (stderr) in ``form``, from ``level`` up.

    Replaces what an earlier call set up. An exception that ends a thread becomes an event too, never a bare traceback.
    """
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each.formatter, JsonFormatter | TextFormatter)]:
        root.removeHandler(old)
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root.addHandler(handler)
    root.setLevel(LEVELS[level])
    for library in _CHATTY_LIBRARIES:
        logging.getLogger(library).setLevel(max(WARNING, LEVELS[level]))
    logging.captureWarnings(capture=True)
    logging.raiseExceptions = False
    threading.excepthook = _log_thread_end


def read_event(record: logging.LogRecord) -> dict[str, Plain]:
    """What a record says, without time and logger: ``{"level": "info", "msg": ..., **fields}``."""
    own = getattr(record, "event_fields", None)
    fields = own if isinstance(own, dict) else dict(_bound.get())
    said: dict[str, Plain] = {"level": record.levelname.lower(), "msg": _plain(record.getMessage())}
    for key, value in fields.items():
        name = f"{key}_" if key in _FIXED else key
        said[name] = _HIDDEN if key.lower() in _SECRET_FIELDS else _plain(value)
    return said


class JsonFormatter(logging.Formatter):
    """``{"time": "2026-12-01T04:13:35.692Z", "level": "info", "msg": ..., <fields>, "logger": ...}`` on one line of ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line = {"time": _rfc3339(record.created), **read_event(record), "logger": record.name}
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = _plain(self.formatException(record.exc_info))
        return _ENCODER.encode(line)


class TextFormatter(logging.Formatter):
    """``I1201 04:13:35.692  7918 publish.py:27] published slices pool="node-a" generation=7``: as the kubelet logs."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line; the traceback, if any, is its last field."""
        said = read_event(record)
        level, message = str(said.pop("level")), str(said.pop("msg"))
        if record.exc_info and record.exc_info[0] is not None:
            said["traceback"] = _plain(self.formatException(record.exc_info))
        moment = datetime.fromtimestamp(record.created, UTC)
        stamp = f"{moment:%m%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
        where = f"{record.filename}:{record.lineno}"
        fields = "".join(f" {key}={_ENCODER.encode(value)}" for key, value in said.items())
        return f"{level[0].upper()}{stamp} {record.process or 0:>5} {where}] {_one_line(message)}{fields}"


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _plain(value: object, depth: int = 0) -> Plain:
    """A value as JSON can say it: bounded, finite, and with no credentials in it."""
    if value is None or isinstance(value, bool):
        return value
    if type(value) is int:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        items = list(value.items())[:_MAX_ITEMS]
        return {str(key): _HIDDEN if str(key).lower() in _SECRET_FIELDS else _plain(each, depth + 1) for key, each in items}
    if depth < _MAX_DEPTH and isinstance(value, list | tuple | set | frozenset):
        return [_plain(each, depth + 1) for each in list(value)[:_MAX_ITEMS]]
    return _text(value)


def _text(value: object) -> str:
    text = str(value)
    if isinstance(value, BaseException) and not text:
        text = type(value).__name__
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}... ({len(text)} characters)"
    return _BEARER.sub(f"Bearer {_HIDDEN}", text)


def _one_line(text: str) -> str:
    return text if text.isprintable() and text.isascii() else _ENCODER.encode(text)


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _log_thread_end(args: threading.ExceptHookArgs) -> None:
    name = args.thread.name if args.thread is not None else "?"
    event(logger(__name__), ERROR, "a thread ended with an exception", thread=name, error=args.exc_value, exc=args.exc_value)
