"""Kubernetes quantities: amounts of bytes written as the API server writes them, and any quantity read as a number."""

from __future__ import annotations

import re
from fractions import Fraction

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(
    r"([+-]?)(\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,3}))?", re.ASCII
)
_MOST_EXPONENT = 64


def format_bytes(amount: int) -> str:
    """An amount of bytes in the API server's canonical form: ``80Gi``, ``81559Mi``, ``1500``.

    The API server gives back what it was given in this form only, so anything else would look like a change on each comparison.
    Below 1024 it counts in thousands, hence ``1k`` for 1000.

    Raises:
        ValueError: a negative amount, or one that does not fit into 64 bits.
    """
    if not 0 <= amount < 1 << 63:
        raise ValueError(f"{amount} is no amount of bytes: 0 to 2^63 - 1 is needed")
    if amount == 1000:
        return "1k"
    step = 0
    while amount >= 1024 and amount % 1024 == 0:
        amount //= 1024
        step += 1
    return f"{amount}{_BINARY[step]}"


def parse_quantity(text: str) -> Fraction:
    """The number that a quantity stands for, so that ``1Gi`` and ``1024Mi`` compare equal.

    Raises:
        ValueError: the text is no quantity of sensible size.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is no Kubernetes quantity such as 80Gi, 500m or 1e3")
    sign, digits, binary, decimal, exponent_text = match.groups()
    number = Fraction(digits if not digits.endswith(".") else digits + "0")
    if binary is not None:
        number *= 1024 ** _BINARY.index(binary)
    else:
        exponent = int(exponent_text) if exponent_text is not None else _DECIMAL[decimal or ""]
        if abs(exponent) > _MOST_EXPONENT:
            raise ValueError(f"{text[:80]!r} is no sensible quantity: its exponent is beyond {_MOST_EXPONENT}")
        number *= Fraction(10) ** exponent
    return -number if sign == "-" else number
