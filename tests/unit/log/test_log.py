"""What one log event looks like, in both forms, and what never gets into it."""

from __future__ import annotations

import contextvars
import io
import json
import logging
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from driver import log
from driver.errors import DeviceInUse

_LOG = log.logger("tests.log")


@pytest.fixture(autouse=True)
def _same_logging_afterwards() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, raising, hook = list(root.handlers), root.level, logging.raiseExceptions, threading.excepthook
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions, threading.excepthook = raising, hook
    logging.captureWarnings(capture=False)
    for library in ("urllib3", "kubernetes", "grpc", "asyncio"):
        logging.getLogger(library).setLevel(logging.NOTSET)


@pytest.fixture
def sink() -> io.StringIO:
    return io.StringIO()


def _json_lines(sink: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def test_json_event_is_one_object_with_time_level_message_and_fields(sink: io.StringIO) -> None:
    log.start(form="json", level="info", stream=sink)
    log.event(_LOG, log.INFO, "published slices", pool="node-a", generation=7, changed=True, missing=None)
    [line] = _json_lines(sink)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(line.pop("time")))
    assert line == {
        "level": "info",
        "msg": "published slices",
        "pool": "node-a",
        "generation": 7,
        "changed": True,
        "missing": None,
        "logger": "tests.log",
    }


def test_text_event_has_the_form_of_klog(sink: io.StringIO) -> None:
    log.start(form="text", level="info", stream=sink)
    log.event(_LOG, log.WARNING, "retrying", after_s=1.5, reason='said "no"')
    pattern = r'W\d{4} \d\d:\d\d:\d\d\.\d{3} +\d+ test_log\.py:\d+\] retrying after_s=1\.5 reason="said \\"no\\""\n'
    assert re.fullmatch(pattern, sink.getvalue())


@pytest.mark.parametrize("form", log.FORMATS)
def test_an_event_is_one_line_whatever_is_in_it(sink: io.StringIO, form: str) -> None:
    log.start(form=form, level="info", stream=sink)
    log.event(_LOG, log.INFO, "a\nb\x1b[2J", evil='x\n{"level":"error"}\r\x00\u2028', surrogate="\udc80", path=Path("/a\nb"))
    assert len(sink.getvalue().splitlines()) == 1
    assert sink.getvalue().isascii()
    assert "\x1b" not in sink.getvalue()


def test_events_below_the_level_are_not_written(sink: io.StringIO) -> None:
    log.start(form="json", level="warning", stream=sink)
    log.event(_LOG, log.INFO, "quiet")
    log.event(_LOG, log.ERROR, "loud")
    assert [line["msg"] for line in _json_lines(sink)] == ["loud"]


def test_starting_again_replaces_the_first_sink(sink: io.StringIO) -> None:
    first = io.StringIO()
    log.start(form="json", level="info", stream=first)
    log.start(form="text", level="info", stream=sink)
    log.event(_LOG, log.INFO, "once")
    assert first.getvalue() == ""
    assert sink.getvalue().count("once") == 1


def test_operation_gives_every_event_its_id_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with log.operation(claim_uid="u-1") as op:
        log.event(_LOG, log.INFO, "inside", step="cdi")
    log.event(_LOG, log.INFO, "outside")
    assert [log.read_event(record) for record in caplog.records] == [
        {"level": "info", "msg": "inside", "op": op, "claim_uid": "u-1", "step": "cdi"},
        {"level": "info", "msg": "outside"},
    ]
    assert re.fullmatch("[0-9a-f]{8}", op)


def test_an_operation_inside_another_keeps_the_id_and_adds_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with log.operation(op="abc", call="prepare"), log.operation(claim_uid="u-2") as inner:
        log.event(_LOG, log.INFO, "both")
    assert inner == "abc"
    assert log.read_event(caplog.records[0]) == {
        "level": "info",
        "msg": "both",
        "op": "abc",
        "call": "prepare",
        "claim_uid": "u-2",
    }


def test_an_operation_ends_with_its_block_when_it_raises(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(DeviceInUse), log.operation(claim_uid="u-3"):
        raise DeviceInUse("held")
    log.event(_LOG, log.INFO, "after")
    assert "op" not in log.read_event(caplog.records[0])


def test_a_copied_context_carries_the_operation_into_an_executor(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with ThreadPoolExecutor(1) as pool, log.operation(claim_uid="u-4"):
        pool.submit(contextvars.copy_context().run, log.event, _LOG, log.INFO, "there").result()
        pool.submit(log.event, _LOG, log.INFO, "bare").result()
    assert [log.read_event(record).get("claim_uid") for record in caplog.records] == ["u-4", None]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param({"token": "abc"}, {"token": "(hidden)"}, id="a field called token"),
        pytest.param({"Authorization": "x"}, {"Authorization": "(hidden)"}, id="a header"),
        pytest.param(
            {"error": "401 for Bearer eyJ.a-b_c"}, {"error": "401 for Bearer (hidden)"}, id="a bearer token in a text"
        ),
        pytest.param(
            {"headers": {"authorization": "x", "a": 1}}, {"headers": {"authorization": "(hidden)", "a": 1}}, id="nested"
        ),
        pytest.param({"x": ["bearer abc"]}, {"x": ["Bearer (hidden)"]}, id="in a list"),
    ],
)
def test_credentials_never_get_into_an_event(
    caplog: pytest.LogCaptureFixture, fields: dict[str, Any], said: dict[str, Any]
) -> None:
    caplog.set_level(logging.INFO)
    log.event(_LOG, log.INFO, "asked", **fields)
    assert log.read_event(caplog.records[0]) == {"level": "info", "msg": "asked", **said}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param(float("nan"), "nan", id="no JSON number"),
        pytest.param(DeviceInUse("gpu held"), "gpu held", id="an error is its text"),
        pytest.param(TimeoutError(), "TimeoutError", id="an error without text is its name"),
        pytest.param(Path("/dev"), "/dev", id="a path"),
        pytest.param(("a", 1), ["a", 1], id="a tuple"),
        pytest.param({"a": {"b": {"c": {"d": {"e": 1}}}}}, {"a": {"b": {"c": {"d": "{'e': 1}"}}}}, id="too deep"),
        pytest.param(list(range(1000)), list(range(256)), id="too long"),
        pytest.param("x" * 5000, "x" * 4096 + "... (5000 characters)", id="a huge text"),
    ],
)
def test_a_value_becomes_plain_bounded_json(caplog: pytest.LogCaptureFixture, value: object, said: object) -> None:
    caplog.set_level(logging.INFO)
    log.event(_LOG, log.INFO, "value", value=value)
    assert log.read_event(caplog.records[0])["value"] == said


def test_a_field_named_like_a_fixed_key_is_kept_beside_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    fields: dict[str, Any] = {"level": 3, "time": 4}
    log.event(_LOG, log.INFO, "m", **fields)
    assert log.read_event(caplog.records[0]) == {"level": "info", "msg": "m", "level_": 3, "time_": 4}


@pytest.mark.parametrize("form", log.FORMATS)
def test_exc_adds_the_traceback_to_the_same_line(sink: io.StringIO, form: str) -> None:
    log.start(form=form, level="info", stream=sink)
    try:
        raise KeyError("gone")
    except KeyError as err:
        log.event(_LOG, log.ERROR, "stopped", exc=err)
    assert len(sink.getvalue().splitlines()) == 1
    assert "Traceback (most recent call last)" in sink.getvalue()
    assert "gone" in sink.getvalue()


def test_a_library_record_is_an_event_too(sink: io.StringIO) -> None:
    log.start(form="json", level="info", stream=sink)
    logging.getLogger("some.library").warning("said %s", "so")
    [line] = _json_lines(sink)
    assert (line["msg"], line["level"], line["logger"]) == ("said so", "warning", "some.library")


def test_http_libraries_stay_quiet_at_debug(sink: io.StringIO) -> None:
    """At DEBUG urllib3 and kubernetes print requests, bodies and headers."""
    log.start(form="json", level="debug", stream=sink)
    logging.getLogger("urllib3.connectionpool").debug("GET /secret")
    logging.getLogger("kubernetes.client.rest").debug("response body: token")
    assert sink.getvalue() == ""


def test_a_thread_that_dies_says_so_in_one_event(sink: io.StringIO) -> None:
    log.start(form="json", level="info", stream=sink)

    def fail() -> None:
        raise RuntimeError("boom")

    thread = threading.Thread(target=fail, name="watch")
    thread.start()
    thread.join()
    [line] = _json_lines(sink)
    assert (line["msg"], line["thread"], line["error"]) == ("a thread ended with an exception", "watch", "boom")
    assert "RuntimeError: boom" in str(line["traceback"])


def test_a_broken_stream_does_not_stop_the_program() -> None:
    stream = io.StringIO()
    log.start(form="json", level="info", stream=stream)
    stream.close()
    log.event(_LOG, log.INFO, "nobody reads this")
