"""Vendor versions become strict semantic versions, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.versions import parse_version
from tests.fakes.slice_rules import SEMVER

CASES = {
    "leading zero in the last part": ("580.159.04", "580.159.4"),
    "leading zero in the middle": ("550.05.127", "550.5.127"),
    "two parts": ("13.0", "13.0.0"),
    "one part": ("580", "580.0.0"),
    "already legal": ("580.126.20", "580.126.20"),
    "all zeros": ("00.00.00", "0.0.0"),
    "a fourth part is cut": ("580.82.07.01", "580.82.7"),
    # https://github.com/ROCm/gpu-operator/issues/609
    "a fourth part with more digits than the others": ("6.19.14.31400000", "6.19.14"),
    "spaces around": (" 580.95.05\n", "580.95.5"),
    "prerelease": ("615.1.0-rc.1", "615.1.0-rc.1"),
    "build": ("615.1.0+grid", "615.1.0+grid"),
    "prerelease after two parts": ("615.1-beta", "615.1.0-beta"),
    "prerelease with a leading zero": ("615.1.0-01", None),
    "letter in a part": ("580.x.1", None),
    "a v in front": ("v580.1.2", None),
    "empty": ("", None),
    "only dots": ("..", None),
    "text": ("N/A", None),
    "negative": ("-1.0.0", None),
    "other digits": ("\u0665.\u0661.\u0662", None),
    "more digits than 64 bits": ("9" * 19 + ".0.0", None),
    "longer than 64 bytes": ("1.2.3-" + "a" * 60, None),
}


@pytest.mark.parametrize(("text", "version"), CASES.values(), ids=CASES.keys())
def test_vendor_text_becomes_a_legal_version_or_none(text: str, version: str | None) -> None:
    assert parse_version(text) == version


@given(st.one_of(st.text(max_size=80), st.from_regex(r"\d{1,5}(\.\d{1,5}){0,4}([-+].{0,20})?", fullmatch=True)))
@settings(max_examples=200, deadline=None)
def test_whatever_nvml_says_no_illegal_version_comes_out(text: str) -> None:
    version = parse_version(text)
    assert version is None or (SEMVER.fullmatch(version) and len(version) <= 64)


@given(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6)))
@settings(max_examples=50, deadline=None)
def test_a_legal_version_stays_as_it_is(parts: tuple[int, int, int]) -> None:
    text = ".".join(map(str, parts))
    assert parse_version(text) == text
