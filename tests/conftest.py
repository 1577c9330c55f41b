"""What every test may rely on."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator

import hypothesis
import pytest

# A slow machine is no failure, and a run of CI says the same of the same commit.
hypothesis.settings.register_profile("default", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("repeatable", hypothesis.settings.get_profile("default"), derandomize=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@contextlib.contextmanager
def logging_as_it_was() -> Iterator[None]:
    """Undoes `log.start` at its end."""
    root = logging.getLogger()
    handlers, level, raising, hook = list(root.handlers), root.level, logging.raiseExceptions, threading.excepthook
    try:
        yield
    finally:
        root.handlers[:] = [handler for handler in root.handlers if handler in handlers]
        root.setLevel(level)
        logging.raiseExceptions, threading.excepthook = raising, hook
        logging.captureWarnings(capture=False)
        for library in ("urllib3", "kubernetes", "grpc", "asyncio"):
            logging.getLogger(library).setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def _umask_as_it_was() -> Iterator[None]:
    """A test that runs ``kubelet-plugin`` in its own process leaves no umask behind for those that make folders."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A test that runs a command starts the program's logging; later tests, in random order, would miss events."""
    with logging_as_it_was():
        yield
