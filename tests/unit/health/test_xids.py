"""The table of XIDs: whole, in order, in words that serve, and of NVIDIA's mind."""

from __future__ import annotations

import pytest

from driver.health.classify import choose_xid_finding
from driver.health.model import Kind, Scope
from driver.health.xids import LOOK, XIDS, Xid, find_xid, is_known


def _spread(*rows: tuple[str, str, tuple[int, ...]]) -> dict[int, tuple[str, str]]:
    return {number: (action, word) for action, word, numbers in rows for number in numbers}


COPY_ENGINES = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))
MEDIA_ENGINES = (60, 68, 82, 83, 84, 86, 88, 89, 96, 97, 98, *range(99, 106), 139)

CATALOGUE = _spread(
    ("restart the program", "program", (8, 11, 13, 25, 31, 32, 69, 80, *COPY_ENGINES, *MEDIA_ENGINES)),
    ("ignore", "program", (37, 43, 66, 67, 108, 137, 141)),
    ("ignore", "counted", (38, 44, 63, 92, 93, 106, 107, 121, 157, 160, 161)),
    ("restart the program", "counted", (94,)),
    ("look at another XID", "program", (45,)),
    ("look at another XID", "counted", (154, 171, 172)),
    ("reset the GPU", "held", (46, 62, 64, 95, 110, 119, 120, 136, 140, 143, 155, 156, 158)),
    ("reset the GPU", "program", (109,)),
    ("go through steps that end in a reset", "held", (48, 74, *range(144, 151))),
    ("restart the machine", "held", (79, 151)),
    ("look at the cables", "held", (54,)),
    ("none any more", "held", (61,)),
)
"""What NVIDIA's catalogue of XIDs (Ampere and later) says to do at once, and what is made of it here, by number."""


def _word(xid: Xid) -> str:
    return "held" if xid.is_held else "program" if xid.scope is Scope.APPLICATION else "counted"


@pytest.mark.parametrize("xid", XIDS, ids=lambda each: str(each.number))
def test_each_is_counted_or_held_as_the_catalogue_says(xid: Xid) -> None:
    action, word = CATALOGUE[xid.number]
    assert _word(xid) == word
    mends_the_program = action in {"restart the program", "ignore", "look at another XID"}
    assert mends_the_program is not xid.is_held or xid.number == 109, "109 is on the list of NVIDIA's own plugin (facts 1.13)"


@pytest.mark.parametrize("xid", XIDS, ids=lambda each: str(each.number))
def test_each_becomes_a_finding_or_none(xid: Xid) -> None:
    """What is held takes the GPU out under its number, with the table's words; what is counted does nothing to it."""
    found = choose_xid_finding(xid.number, ())
    if not xid.is_held:
        assert found is None
        return
    assert found is not None
    assert (found.kind, found.value, found.scope, found.is_warning) == (Kind.XID, str(xid.number), xid.scope, False)
    assert (found.message, found.advice) == (f"XID {xid.number}: {xid.meaning}", xid.advice)
    assert choose_xid_finding(xid.number, {xid.number}) is None, "ignored by the setting"


def test_the_table_and_the_catalogue_have_the_same_numbers() -> None:
    numbers = [each.number for each in XIDS]
    assert numbers == sorted(CATALOGUE)


@pytest.mark.parametrize("xid", XIDS, ids=lambda each: str(each.number))
def test_each_says_what_and_what_to_do(xid: Xid) -> None:
    assert xid.meaning[0].islower()
    assert not xid.meaning.endswith(".")
    assert xid.advice.endswith(".")
    assert len(xid.meaning) + len(xid.advice) < 300


@pytest.mark.parametrize("xid", [each for each in XIDS if each.scope is Scope.APPLICATION], ids=lambda each: str(each.number))
def test_what_is_a_programs_is_never_held(xid: Xid) -> None:
    """B75: nothing that a program did to itself takes a GPU out."""
    assert not xid.is_held


@pytest.mark.parametrize(("number", "words"), [
    (63, ("memory row", "Reset the GPU when it is idle")),
    (92, ("corrected", "have that GPU tested")),
    (94, ("contained", "Restart the program", "Reset the GPU when it is idle")),
    (121, ("CPU and GPU", "have that GPU tested")),
    (154, ("recovery action", "gpu.nvidia.com/recovery")),
    (109, ("a program's", "gpu.nvidia.com/recovery")),
    (79, ("fell off the bus", "reboot")),
    (54, ("power", "cables")),
])  # fmt: skip
def test_what_is_said_is_about_what_has_to_be_mended(number: int, words: tuple[str, ...]) -> None:
    """63, 92, 94, 121 and 154 once sent people to look at a program."""
    said = f"{find_xid(number).meaning}; {find_xid(number).advice}"
    assert [word for word in words if word not in said] == []
    assert "look at that program" not in said


def test_a_number_of_nobody_is_the_gpus_by_caution() -> None:
    found = find_xid(999)
    assert (found.scope, found.is_held, found.advice) == (Scope.GPU, True, LOOK)
    assert (is_known(999), is_known(48)) == (False, True)
