"""What a call about claims asks, and what may be answered. Pure.

Strings of a call are checked before they become names (of locks, records, files): a wrong one is the fault of its own claim
and of no other. The answer has an entry for each uid that was asked, and for no other: the kubelet fails a pod when one is
missing, and also when it finds one that it did not ask for (B59).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driver.claims.model import ClaimRef
from driver.names import ClaimUID, is_dns_label, is_dns_subdomain, is_uid

MAX_CLAIMS = 512
"""A pod has a handful. What is beyond this in one call is answered with an error."""
MAX_TEXT = 2000
"""Characters of an error: it ends in an event of the pod, which the API server cuts at 1024 bytes."""

UNASKED_DEADLINE_S = 42.0
"""For a caller that set no deadline: the kubelet's 45 s less the margin."""
MARGIN_S = 3.0
"""An answer must be with the kubelet before the kubelet stops waiting, so work ends this much earlier."""
_LONGEST_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class AskedClaim:
    """A claim as it stands in a call: nothing is checked yet."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCall:
    """A call, sorted out. Each uid that was asked is in one of the two."""

    claims: tuple[ClaimRef, ...]
    """Worth asking the claim service, each once."""
    faults: Mapping[str, str]
    """The error text of the others, by uid as it was asked."""


def validate_claims(asked: Sequence[AskedClaim]) -> CheckedCall:
    """Sort the claims of a call into good ones and faults; the same claim twice counts once."""
    claims: dict[str, ClaimRef] = {}
    faults: dict[str, str] = {}
    for claim in asked:
        if claim.uid in faults:
            continue
        fault = _find_fault(claim, claims)
        if fault is None:
            claims[claim.uid] = ClaimRef(namespace=claim.namespace, name=claim.name, uid=ClaimUID(claim.uid))
        else:
            claims.pop(claim.uid, None)
            faults[claim.uid] = fault
    return CheckedCall(claims=tuple(claims.values()), faults=faults)


def choose_deadline_s(remaining_s: float | None) -> float:
    """How long work for a call may take, from what its caller still waits (None, or a time without end: unknown)."""
    if remaining_s is None or not 0.0 <= remaining_s <= _LONGEST_S:
        return UNASKED_DEADLINE_S
    return remaining_s - min(MARGIN_S, remaining_s / 2)


def describe_error(err: BaseException) -> str:
    """An error as a claim's answer: never empty (that would mean success), never so long or odd that it cannot be sent."""
    return clean_text(str(err)) or type(err).__name__


def clean_text(text: str) -> str:
    """The text in UTF-8, without control characters, at most ``MAX_TEXT`` long."""
    plain = text[: MAX_TEXT + 1].encode("utf-8", "replace").decode("utf-8")
    plain = "".join(letter if letter.isprintable() else " " for letter in plain).strip()
    return plain if len(plain) <= MAX_TEXT else f"{plain[: MAX_TEXT - 3]}..."


def _find_fault(claim: AskedClaim, claims: Mapping[str, ClaimRef]) -> str | None:
    if not is_uid(claim.uid):
        return f"claim uid {_show(claim.uid)}: not 36 characters of lower-case hex and dashes"
    if not is_dns_label(claim.namespace):
        return f"claim uid {claim.uid}: namespace {_show(claim.namespace)} is not a DNS label"
    if not is_dns_subdomain(claim.name):
        return f"claim uid {claim.uid}: name {_show(claim.name)} is not a DNS name"
    known = claims.get(claim.uid)
    if known is not None and (known.namespace, known.name) != (claim.namespace, claim.name):
        return f"claim uid {claim.uid}: asked twice, as {known.namespace}/{known.name} and as {claim.namespace}/{claim.name}"
    if known is None and len(claims) >= MAX_CLAIMS:
        return f"claim uid {claim.uid}: a call may have {MAX_CLAIMS} claims, this one has more; ask for fewer at a time"
    return None


def _show(text: str) -> str:
    return ascii(text if len(text) <= 80 else f"{text[:77]}...")
