"""What a request draws from a device's capacities, as Kubernetes counts it (contracts 7.5).

A device that is given to one claim alone must have what is asked; one that is shared is drawn down by what is asked, rounded up
as the capacity's policy says, and by a default, or all of it, where nothing is asked. A capacity whose amounts cannot be read
has nothing to give: the API server takes quantities (``1e70``) that nobody can count with, and one device harms no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from driver.api.quantity import format_bytes, parse_quantity
from driver.api.resource_v1 import Capacity, Device

Amounts = Mapping[str, Fraction]
NOTHING: Amounts = {}
_MOST = 10**36
"""More than anybody has; all below can be written and read again in every form."""


def draw(device: Device, asked: Amounts) -> dict[str, Fraction] | None:
    """What the request takes of each capacity; None where the device lacks one, or its policy does not allow the amount."""
    if any(name not in device.capacity for name in asked):
        return None
    drawn: dict[str, Fraction] = {}
    for name, capacity in device.capacity.items():
        try:
            amount = _round_up(capacity, asked.get(name))
        except ValueError:
            return None
        if amount is None or not 0 <= amount < _MOST:
            return None
        drawn[name] = amount
    return drawn


def read_totals(device: Device) -> dict[str, Fraction]:
    """What the device has of each capacity."""
    return {name: _read_total(capacity) for name, capacity in device.capacity.items()}


def _read_total(capacity: Capacity) -> Fraction:
    try:
        return parse_quantity(capacity.value)
    except ValueError:
        return Fraction(0)


def fits(device: Device, drawn: Amounts, taken: Amounts) -> bool:
    """True when no capacity is drawn below zero."""
    return all(taken.get(name, 0) + amount <= _read_total(device.capacity[name]) for name, amount in drawn.items())


def format_amount(amount: Fraction) -> str:
    """A quantity in a form that the API takes."""
    if amount.denominator == 1:
        is_short = amount.numerator % 1024 == 0 and amount < 1 << 63
        return format_bytes(amount.numerator) if is_short else str(amount.numerator)
    milli = amount * 1000
    return f"{-(-milli.numerator // milli.denominator)}m"


def _round_up(capacity: Capacity, asked: Fraction | None) -> Fraction | None:
    policy: Mapping[str, Any] = capacity.request_policy or {}
    if asked is None:
        default = policy.get("default")
        return parse_quantity(str(default) if default is not None else capacity.value)
    if not policy:
        return asked
    span = policy.get("validRange")
    if isinstance(span, Mapping):
        return _round_in_range(span, asked)
    values = sorted(parse_quantity(str(value)) for value in policy.get("validValues") or ())
    return next((value for value in values if asked <= value), None) if values else asked


def _round_in_range(span: Mapping[str, Any], asked: Fraction) -> Fraction | None:
    least = parse_quantity(str(span["min"])) if span.get("min") is not None else asked
    amount = max(asked, least)
    if span.get("step") is not None:
        step = parse_quantity(str(span["step"]))
        amount = least + -((least - amount) // step) * step if step > 0 else amount
    most = span.get("max")
    return None if most is not None and amount > parse_quantity(str(most)) else amount
