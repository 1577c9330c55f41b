"""Kubernetes' grammar for names that come from outside."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver import names


@given(st.uuids(), st.integers(0, 35), st.characters())
def test_only_36_characters_of_lower_case_hex_and_dashes_are_a_uid(made: uuid.UUID, place: int, other: str) -> None:
    """One character that does not belong where it stands spoils it."""
    text = str(made)
    assert names.is_uid(text)
    allowed = "-" if text[place] == "-" else "0123456789abcdef"
    assert names.is_uid(text[:place] + other + text[place + 1 :]) is (other in allowed)
    assert not names.is_uid(text + other)


@pytest.mark.parametrize(
    ("text", "label", "subdomain"),
    [
        ("gpus", True, True),
        ("a.b", False, True),
        ("a" * 63, True, True),
        ("a" * 64, False, True),
        ("a" * 254, False, False),
        ("..", False, False),
        ("a/b", False, False),
        ("A", False, False),
        ("", False, False),
        ("a\n", False, False),
        ("a..b", False, False),
    ],
)
def test_names_of_kubernetes(text: str, label: bool, subdomain: bool) -> None:
    assert (names.is_dns_label(text), names.is_dns_subdomain(text)) == (label, subdomain)
