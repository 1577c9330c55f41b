"""What an administrator may say of health, and what is refused at start with the word that is wrong (B75)."""

from __future__ import annotations

import pytest

from driver.config.health_settings import EVICTING, parse_kinds, parse_xids
from driver.health.model import Kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ""), (" ", ""), ("48", "48"), ("63,48", "48,63"), (" 48 , 63 ", "48,63"), ("48,48", "48"), ("048", "48")],
    ids=["nothing", "blank", "one", "sorted", "spaces", "twice", "leading-zero"],
)
def test_xids_are_taken_once_and_in_order(text: str, expected: str) -> None:
    assert parse_xids(text) == expected


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("4x,,109", "'4x'"),
        ("48,,109", "''"),
        ("48,", "''"),
        ("-1", "'-1'"),
        ("0", "'0'"),
        ("10000", "'10000'"),
        ("٤٨", "'٤٨'"),
        ("all", "'all'"),
    ],
    ids=["letter", "empty", "trailing-comma", "negative", "nought", "too-large", "other-digits", "word"],
)
def test_a_word_that_is_no_xid_is_named(text: str, token: str) -> None:
    with pytest.raises(ValueError, match="is no XID; say numbers with commas") as caught:
        parse_xids(text)
    assert str(caught.value).startswith(f"{token} in ")


def test_kinds_are_taken_in_the_order_of_their_weight() -> None:
    assert parse_kinds("ecc, gpu-lost,ecc") == "gpu-lost,ecc"
    assert parse_kinds("") == ""


@pytest.mark.parametrize("text", ["thermal", "nvlink", "XID", "ecc;xid", "ecc,"], ids=str)
def test_a_kind_that_nobody_is_evicted_for_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="say one or more of gpu-lost, xid, ecc, recovery, remapped-rows"):
        parse_kinds(text)


def test_every_kind_of_the_setting_is_one() -> None:
    assert {Kind(word) for word in EVICTING} == {Kind.GPU_LOST, Kind.XID, Kind.ECC, Kind.RECOVERY, Kind.REMAPPED_ROWS}
