"""What a call asks: checked claim by claim; and what it may be answered: bounded, never empty."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.claims.model import ClaimRef
from driver.names import ClaimUID
from driver.plugin import claim_calls
from driver.plugin.claim_calls import AskedClaim

UID = "00000000-0000-4000-8000-000000000001"
OTHER_UID = "00000000-0000-4000-8000-000000000002"


def ref(namespace: str, name: str, uid: str) -> ClaimRef:
    return ClaimRef(namespace=namespace, name=name, uid=ClaimUID(uid))


def test_good_claims_pass_in_their_order() -> None:
    checked = claim_calls.validate_claims([AskedClaim("ns", "b.x-1", OTHER_UID), AskedClaim("ns", "a", UID)])
    assert checked == claim_calls.CheckedCall(claims=(ref("ns", "b.x-1", OTHER_UID), ref("ns", "a", UID)), faults={})


def test_an_empty_call_has_nothing_wrong() -> None:
    assert claim_calls.validate_claims([]) == claim_calls.CheckedCall(claims=(), faults={})


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        (AskedClaim("ns", "a", ""), "claim uid '': not 36 characters"),
        (AskedClaim("ns", "a", UID.upper().replace("8", "A")), "not 36 characters of lower-case hex"),
        (AskedClaim("ns", "a", "../../../etc/passwd"), "claim uid '../../../etc/passwd': not"),
        (AskedClaim("ns", "a", UID + "\n"), "\\n"),
        (AskedClaim("ns", "a", "x" * 100_000), "xxx..."),
        (AskedClaim("", "a", UID), f"claim uid {UID}: namespace '' is not a DNS label"),
        (AskedClaim("n" * 64, "a", UID), "is not a DNS label"),
        (AskedClaim("a.b", "a", UID), "namespace 'a.b' is not a DNS label"),
        (AskedClaim("ns", "", UID), "name '' is not a DNS name"),
        (AskedClaim("ns", "..", UID), "name '..' is not a DNS name"),
        (AskedClaim("ns", "a/b", UID), "name 'a/b' is not a DNS name"),
        (AskedClaim("ns", "a\0", UID), "name 'a\\x00' is not a DNS name"),
        (AskedClaim("ns", "é", UID), "is not a DNS name"),
        (AskedClaim("ns", "a" * 254, UID), "is not a DNS name"),
        (AskedClaim("ns", "a-." * 80, UID), "is not a DNS name"),
    ],
    ids=[
        *("no uid", "uid in capitals", "uid is a path", "uid with a line end", "huge uid", "no namespace", "long namespace"),
        *("namespace with a dot", "no name", "name is a parent folder", "name with a slash", "name with a NUL"),
        *("name beyond ascii", "long name", "name of many wrong labels"),
    ],
)
def test_a_wrong_claim_is_its_own_fault_and_spares_its_neighbour(claim: AskedClaim, says: str) -> None:
    good = AskedClaim("ns", "good", OTHER_UID)
    checked = claim_calls.validate_claims([claim, good])
    assert checked.claims == (ref("ns", "good", OTHER_UID),)
    assert set(checked.faults) == {claim.uid}
    assert says in checked.faults[claim.uid]
    assert len(checked.faults[claim.uid]) < 300


def test_a_name_of_253_characters_passes() -> None:
    assert claim_calls.validate_claims([AskedClaim("n" * 63, "a" * 253, UID)]).faults == {}


def test_the_same_claim_twice_counts_once() -> None:
    assert claim_calls.validate_claims([AskedClaim("ns", "a", UID)] * 3).claims == (ref("ns", "a", UID),)


@pytest.mark.parametrize("repeats", [1, 2], ids=["twice", "three times"])
def test_one_uid_under_two_names_is_refused(repeats: int) -> None:
    asked = [AskedClaim("ns", "a", UID), *[AskedClaim("ns", "b", UID)] * repeats, AskedClaim("ns", "c", OTHER_UID)]
    checked = claim_calls.validate_claims(asked)
    assert checked.claims == (ref("ns", "c", OTHER_UID),)
    assert checked.faults == {UID: f"claim uid {UID}: asked twice, as ns/a and as ns/b"}


def test_claims_beyond_the_bound_are_refused_and_the_others_served() -> None:
    asked = [AskedClaim("ns", "a", f"00000000-0000-4000-8000-{number:012x}") for number in range(claim_calls.MAX_CLAIMS + 2)]
    checked = claim_calls.validate_claims(asked)
    assert len(checked.claims) == claim_calls.MAX_CLAIMS
    assert set(checked.faults) == {each.uid for each in asked[-2:]}


@given(
    st.lists(
        st.builds(
            AskedClaim, st.text(max_size=8), st.text(max_size=8), st.sampled_from([UID, OTHER_UID]) | st.text(max_size=40)
        )
    )
)
def test_every_uid_that_is_asked_is_sorted_once(asked: list[AskedClaim]) -> None:
    """B59: nothing asked is lost, nothing is added."""
    checked = claim_calls.validate_claims(asked)
    sorted_uids = [*(claim.uid for claim in checked.claims), *checked.faults]
    assert sorted(sorted_uids) == sorted({each.uid for each in asked})


def test_names_made_to_confuse_a_pattern_are_refused_quickly() -> None:
    """A name of one kind of letter and a wrong end must not cost seconds of backtracking."""
    started = time.monotonic()
    claim_calls.validate_claims([AskedClaim("ns", "a" * 252 + "_", make_uid) for make_uid in (UID, OTHER_UID)])
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("remaining_s", "work_s"),
    [(45.0, 42.0), (60.0, 57.0), (6.0, 3.0), (2.0, 1.0), (0.0, 0.0), (None, 42.0), (9.2e18, 42.0), (float("inf"), 42.0)],
    ids=["the kubelet", "patient", "margin is half", "impatient", "over", "none", "gRPC's none", "infinite"],
)
def test_work_ends_a_margin_before_the_caller_stops_waiting(remaining_s: float | None, work_s: float) -> None:
    assert claim_calls.choose_deadline_s(remaining_s) == work_s


@pytest.mark.parametrize(
    ("err", "text"),
    [
        (ValueError("no GPU"), "no GPU"),
        (KeyError(), "KeyError"),
        (ValueError("  \n "), "ValueError"),
        (ValueError("two\nlines\x1b[31m"), "two lines [31m"),
        (ValueError("bad \udcff name"), "bad ? name"),
        (ValueError("x" * 5000), "x" * 1997 + "..."),
    ],
    ids=["plain", "no text", "only blanks", "control characters", "not UTF-8", "long"],
)
def test_an_error_becomes_a_text_that_can_be_sent_and_is_not_success(err: Exception, text: str) -> None:
    assert claim_calls.describe_error(err) == text
