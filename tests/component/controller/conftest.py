"""A fresh cluster for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.component.controller.scene import Scene, scene


@pytest.fixture
def cluster() -> Iterator[Scene]:
    with scene() as made:
        yield made
