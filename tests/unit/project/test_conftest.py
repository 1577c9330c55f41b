"""A test leaves the process as the next one expects it."""

from __future__ import annotations

import logging
import threading

from driver import log
from tests.conftest import logging_as_it_was


def read_state() -> tuple[object, ...]:
    """All that `log.start` changes."""
    root = logging.getLogger()
    chatty = logging.getLogger("urllib3").level
    return (*root.handlers, root.level, logging.raiseExceptions, threading.excepthook, chatty)


def test_logging_that_a_test_starts_ends_with_it() -> None:
    before = read_state()
    with logging_as_it_was():
        log.start(form="json", level="error")
        assert read_state() != before
    assert read_state() == before
