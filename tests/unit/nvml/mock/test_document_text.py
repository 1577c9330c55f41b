"""The text of a machine file: what is no plain YAML is refused, and values are what they look like."""

from __future__ import annotations

from typing import Any

import pytest

from driver.errors import MachineInvalid
from driver.nvml.mock.catalogue import decode_machine
from driver.nvml.mock.yaml_text import MAX_BYTES, decode_yaml

TEXTS = [
    pytest.param(b"a: &x [1]\nb: *x", "anchors and aliases are not read", id="alias"),
    pytest.param(b"a: &x 1", "anchors and aliases are not read", id="anchor"),
    pytest.param(b"a: !!python/object/apply:os.system ['true']", "tags such as !!str are not read", id="Python type"),
    pytest.param(b"a: !!binary aGk=", "tags", id="binary"),
    pytest.param(b"name: x\nname: y", "the key 'name' is there twice", id="key twice"),
    pytest.param(b"[" * 100, "16 levels", id="nested without end"),
    pytest.param(b"{a: " * 100, "16 levels", id="mappings without end"),
    pytest.param(b"- 1\n" * 200_000, "100000 nodes", id="too many nodes"),
    pytest.param(b"a: 1\n---\nb: 2", "more than one document", id="two documents"),
    pytest.param(b"? [a]\n: 1", "a key must be plain text", id="a list as key"),
    pytest.param(b"a: [1, 2", "line", id="cut off"),
    pytest.param(b"\xff\xfe\x00", "can't decode", id="no UTF-8"),
    pytest.param(b"a: \x00", "no readable YAML", id="control character"),
    pytest.param(b" " * (MAX_BYTES + 1), "at most 1048576 are read", id="too long"),
    pytest.param(b"", "Expected `object`, got `null`", id="empty"),
]


@pytest.mark.parametrize(("data", "message"), TEXTS)
def test_text_that_is_no_plain_yaml_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(MachineInvalid) as caught:
        decode_machine(data, source="mine.yaml", seed="")
    assert message in str(caught.value)


def test_values_are_what_they_look_like() -> None:
    """YAML 1.1 would read a number in base 60, a date, false and an octal number here."""
    text = b"[06:00.0, 2026-12-01, no, 010, 0x10, 12, -1, 1.5, true, null, ~, '', 1e3, .inf, =, <<]"
    assert decode_yaml(text, list[Any], source="x") == [
        "06:00.0", "2026-12-01", "no", "010", 16, 12, -1, 1.5, True, None, None, "", "1e3", ".inf", "=", "<<",
    ]  # fmt: skip
