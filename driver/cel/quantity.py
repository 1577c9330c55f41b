"""Quantities with the exact arithmetic of Kubernetes, where ``1.5Gi`` is equal to ``1536Mi`` and yet no integer.

Kubernetes holds a quantity in one of two forms: a 64-bit number with a power of ten, or a decimal of any length. Which one it
is shows: only the first has ``isInteger`` and ``asInteger``, and comparing one of the first with one of the second turns it
into the second.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from driver.cel.errors import EvaluationAborted, EvaluationError
from driver.cel.values import INT_MAX, INT_MIN

_TEXT = re.compile(r"([+-]?)([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_DECIMAL: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO: Final = -9
_MOST_DIGITS: Final = 18
_MOST_SHIFT: Final = 50_000


class Quantity:
    """``unscaled * 10**exponent``. ``is_decimal`` is the second form; ``is_computed`` marks the result of add and sub."""

    __slots__ = ("exponent", "is_computed", "is_decimal", "is_shared", "unscaled")

    def __init__(self, unscaled: int, exponent: int = 0, *, is_decimal: bool = False, is_computed: bool = False) -> None:
        self.unscaled = unscaled
        self.exponent = exponent
        self.is_decimal = is_decimal
        self.is_computed = is_computed
        self.is_shared = False

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1, exactly."""
        one, two = self.unscaled, other.unscaled
        if self.exponent == other.exponent:
            return (one > two) - (one < two)
        sign = (one > 0) - (one < 0)
        if sign != (two > 0) - (two < 0) or not sign:
            return (sign > (two > 0) - (two < 0)) - (sign < (two > 0) - (two < 0))
        # Far apart, a rough logarithm decides; else the shift below is no longer than the digits that are there.
        rough = abs(one).bit_length() * 0.30103 + self.exponent - abs(two).bit_length() * 0.30103 - other.exponent
        if abs(rough) > 2:
            return sign if rough > 0 else -sign
        shift = self.exponent - other.exponent
        if shift > 0:
            one *= 10**shift
        else:
            two *= 10**-shift
        return (one > two) - (one < two)

    def compare_and_settle(self, other: Quantity) -> int:
        """As ``compare``, with the change of form that Kubernetes' methods have."""
        if other.is_decimal and not self.is_shared:
            self.is_decimal = True
        return self.compare(other)

    def as_integer(self) -> int | None:
        """The number, if it is in the first form and a whole number of 64 bits."""
        if self.is_decimal or self.exponent < 0:
            return None
        if self.unscaled == 0:
            return 0
        if self.exponent > _MOST_DIGITS:
            return None
        value = int(self.unscaled * 10**self.exponent)
        return value if INT_MIN <= value <= INT_MAX and (self.unscaled != INT_MIN or self.exponent == 0) else None

    def as_float(self) -> float:
        """The nearest double, or nearly so."""
        try:
            base = float(self.unscaled)
        except OverflowError:
            base = float("inf") if self.unscaled > 0 else float("-inf")
        if self.exponent == 0:
            return base
        return base * float(f"1e{self.exponent}")

    def add(self, other: Quantity) -> Quantity:
        """The sum."""
        return self._add(other.unscaled, other)

    def sub(self, other: Quantity) -> Quantity:
        """The difference."""
        return self._add(-other.unscaled, other)

    def _add(self, unscaled: int, other: Quantity) -> Quantity:
        is_decimal = self.is_decimal or other.is_decimal
        if not is_decimal and unscaled == 0:
            return Quantity(self.unscaled, self.exponent, is_computed=True)
        if not is_decimal and self.unscaled == 0:
            return Quantity(unscaled, other.exponent, is_computed=True)
        exponent = min(self.exponent, other.exponent)
        if max(self.exponent, other.exponent) - exponent > _MOST_SHIFT:
            raise EvaluationAborted("adding quantities of such different size needs more memory than it is worth")
        one = self.unscaled * 10 ** (self.exponent - exponent)
        two = unscaled * 10 ** (other.exponent - exponent)
        fits = all(INT_MIN <= part <= INT_MAX for part in (one, two, one + two))
        return Quantity(one + two, exponent, is_decimal=is_decimal or not fits, is_computed=True)

    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.unscaled > 0) - (self.unscaled < 0)

    def copy(self) -> Quantity:
        """One that nobody else holds."""
        return Quantity(self.unscaled, self.exponent, is_decimal=self.is_decimal, is_computed=self.is_computed)


def parse_quantity(text: str) -> Quantity:
    """A quantity of its text, in the form that Kubernetes would hold it in.

    Raises:
        EvaluationError: no quantity.
    """
    unscaled, exponent, is_decimal = _parse(text)
    return Quantity(unscaled, exponent, is_decimal=is_decimal)


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[int, int, bool]:
    found = _TEXT.fullmatch(text)
    if not text or found is None:
        raise EvaluationError(f"{text[:80]!r} is no quantity such as 80Gi, 500m or 1e3")
    sign, whole, point, fraction, suffix = found.groups()
    whole, fraction = whole.lstrip("0"), fraction or ""
    if not whole and not point and not suffix:
        return 0, 0, False
    exponent, is_binary = _parse_suffix(suffix, text)
    held = _hold_in_64_bits(whole or "0", fraction, exponent, is_binary=is_binary)
    if held is not None:
        return (-held[0] if sign == "-" else held[0]), held[1], False
    if not found[2] and not fraction:
        raise EvaluationError(f"{text[:80]!r} is no quantity: it has no digit")
    unscaled, exponent = _hold_as_decimal(digits_to_int(whole + fraction), len(fraction), exponent, is_binary=is_binary)
    return (-unscaled if sign == "-" else unscaled), exponent, True


def _parse_suffix(suffix: str, text: str) -> tuple[int, bool]:
    """The exponent, and whether it is one of two."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], False
    if suffix in _BINARY:
        return _BINARY[suffix], True
    number = re.fullmatch(r"[eE]([+-]?[0-9]+)", suffix)
    if number is None or len(number[1]) > 20 or not INT_MIN <= int(number[1]) <= INT_MAX:
        raise EvaluationError(f"{text[:80]!r} is no quantity: {suffix[:20]!r} is no suffix of one")
    # Kubernetes keeps 32 bits of the exponent.
    return (int(number[1]) + (1 << 31)) % (1 << 32) - (1 << 31), False


def _hold_in_64_bits(whole: str, fraction: str, exponent: int, *, is_binary: bool) -> tuple[int, int] | None:
    """The first form, or None if Kubernetes takes the second."""
    if is_binary:
        fits = not fraction and 15 - len(whole) - exponent * 3 // 10 - 1 >= 0
        value, scale = (int(whole) << exponent, 0) if fits else (0, 0)
    else:
        fits = len(whole) + len(fraction) <= _MOST_DIGITS and exponent - len(fraction) >= _NANO
        value, scale = (int(whole + fraction), exponent - len(fraction)) if fits else (0, 0)
    return (value, scale) if fits and value <= INT_MAX else None


def _hold_as_decimal(unscaled: int, fraction_digits: int, exponent: int, *, is_binary: bool) -> tuple[int, int]:
    """The second form: whole nanos, rounded away from zero; binary ones end at the largest 64-bit number."""
    if is_binary:
        unscaled <<= exponent
        exponent = 0
    exponent -= fraction_digits
    if unscaled == 0:
        return 0, exponent
    shift = exponent - _NANO
    if shift > _MOST_SHIFT:
        raise EvaluationAborted("a quantity of this size needs more memory than it is worth")
    if shift >= 0:
        unscaled *= 10**shift
    elif -shift > unscaled.bit_length():
        unscaled = 1
    else:
        unscaled = -(-unscaled // 10**-shift)
    if is_binary and unscaled > INT_MAX * 10**9:
        return INT_MAX, 0
    return unscaled, _NANO


def digits_to_int(digits: str) -> int:
    """The number of many digits: Python refuses to read more than some thousands at once."""
    value = 0
    for start in range(0, len(digits), 4000):
        part = digits[start : start + 4000]
        value = value * 10 ** len(part) + int(part)
    return value
