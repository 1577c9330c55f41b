"""A short run of ``make fuzz``: each kind of hostile input, and the plugin whole afterwards."""

from __future__ import annotations

import pytest

from hack.fuzz.__main__ import run
from hack.fuzz.attacks import ATTACKS
from hack.fuzz.mutate import Mutator
from hack.fuzz.node import Broken, fuzz_node


@pytest.mark.parametrize("name", list(ATTACKS))
def test_the_plugin_is_whole_after_a_few_throws(name: str) -> None:
    with fuzz_node() as node:
        run(node, [name], count=25, seed=7)
        assert node.end() == 0


def test_a_plugin_that_is_gone_is_found_broken() -> None:
    """Else a run that proves nothing would look like a good one."""
    with fuzz_node() as node:
        node.end()
        with pytest.raises(Broken, match="ended with code 0"):
            node.check("a test")


def test_the_same_seed_throws_the_same() -> None:
    good = {"a": [1, {"b": "c"}], "d": None}
    first, second = Mutator(5), Mutator(5)
    thrown = [first.json_bytes(good) for _ in range(200)]
    assert thrown == [second.json_bytes(good) for _ in range(200)]
    assert len(set(thrown)) > 100
