"""Whether ``gpu-dra controller`` would refuse a selector as too slow, in the words of its events."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from driver.allocator.reads import Read, find_reads
from driver.allocator.selector_meter import MOST_MEAN_UNITS, SelectorMeter
from driver.cel import DeviceView, Selector
from driver.cel.parser import parse
from driver.cli.match_sources import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerCost:
    """What the controller has to spend on a selector."""

    units: int
    """In Kubernetes' units of cost."""
    evaluations: int
    """Devices that differ in what the selector reads: one answer is enough for those that do not."""
    refusal: str
    """Why the controller asks the selector no more; empty where it does not refuse it."""


def count_cost(selector: Selector, candidates: Sequence[Candidate]) -> ControllerCost | None:
    """What the selector costs on these devices, up to where the controller gives it up.

    None where it is so quick that the controller does not count.
    """
    if selector.max_cost <= MOST_MEAN_UNITS:
        return None
    meter, refusal = SelectorMeter(), ""
    reads = find_reads(parse(selector.source))
    known: set[Hashable] = set()
    for candidate in candidates:
        key = _key(candidate, reads)
        if key in known:
            continue
        known.add(key)
        meter.note(selector.answer(candidate.view, limit=meter.limit()).cost)
        refusal = meter.find_excess()
        if refusal:
            break
    return ControllerCost(units=meter.units, evaluations=meter.evaluations, refusal=refusal)


def _key(candidate: Candidate, reads: frozenset[Read] | None) -> Hashable:
    """Equal for devices that the selector cannot tell apart; where that is not certain, each has its own."""
    if reads is None or candidate.view.fault:
        return candidate.driver, candidate.pool, candidate.name
    return tuple(_value(read, candidate.view) for read in sorted(reads))


def _value(read: Read, view: DeviceView) -> Hashable:
    if read.kind == "driver":
        return view.driver
    if read.kind == "allowMultipleAllocations":
        return view.multi
    if read.kind == "attributes":
        return repr(view.known.get((read.domain, read.name)))
    amount = view.amounts.get((read.domain, read.name))
    return None if amount is None else (amount.unscaled, amount.exponent, amount.is_decimal)
