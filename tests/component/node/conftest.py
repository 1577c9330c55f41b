"""A fresh node for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.component.node.mig_node import MigNode
from tests.component.node.one_node import OneNode, one_node


@pytest.fixture
def node() -> Iterator[OneNode]:
    with one_node() as made:
        yield made


@pytest.fixture
def mig(node: OneNode) -> MigNode:
    return MigNode(node)
