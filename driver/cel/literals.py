"""The values of literals in a selector: numbers with their limits, strings and bytes with their escapes."""

from __future__ import annotations

import re

from driver.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7][0-7])|(.))", re.DOTALL)


def parse_int(text: str) -> int:
    """A signed literal, decimal or with 0x.

    Raises:
        ValueError: it does not fit into 64 bits.
    """
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    value = sign * _parse_digits(digits)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("the integer does not fit into 64 bits")
    return value


def parse_uint(text: str) -> Uint:
    """An unsigned literal (``5u``).

    Raises:
        ValueError: it does not fit into 64 bits.
    """
    value = _parse_digits(text[:-1])
    if value > UINT_MAX:
        raise ValueError("the unsigned integer does not fit into 64 bits")
    return Uint(value)


def _parse_digits(digits: str) -> int:
    # Python limits the length of what int() reads; everything that long is too large anyway.
    if len(digits.lstrip("0x")) > 30:
        raise ValueError("the integer does not fit into 64 bits")
    return int(digits[2:], 16) if digits.startswith("0x") else int(digits)


def parse_float(text: str) -> float:
    """A double literal.

    Raises:
        ValueError: it is beyond the largest double.
    """
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("the number is beyond the largest double")
    return value


def parse_string(text: str) -> str:
    """A string literal with quotes and prefix.

    Raises:
        ValueError: an escape stands for no character.
    """
    body, is_raw = _strip_quotes(text)
    return body if is_raw else _ESCAPE.sub(_decode_character, body)


def parse_bytes(text: str) -> bytes:
    r"""A bytes literal with its ``b``: escapes ``\x`` and octal are bytes, everything else is UTF-8.

    Raises:
        ValueError: an escape that bytes do not have.
    """
    body, is_raw = _strip_quotes(text[1:])
    if is_raw:
        return body.encode()
    parts: list[bytes] = []
    position = 0
    for found in _ESCAPE.finditer(body):
        parts.append(body[position : found.start()].encode())
        parts.append(_decode_byte(found))
        position = found.end()
    return b"".join((*parts, body[position:].encode()))


def _strip_quotes(text: str) -> tuple[str, bool]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    is_raw = text[0] in "rR"
    if is_raw:
        text = text[1:]
    width = 3 if text[:3] in ('"""', "'''") and len(text) >= 6 else 1
    return text[width:-width], is_raw


def _decode_character(found: re.Match[str]) -> str:
    byte, short, long, octal, simple = found.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    code = int(octal, 8) if octal is not None else int(byte or short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("an escape stands for no Unicode character")
    return chr(code)


def _decode_byte(found: re.Match[str]) -> bytes:
    byte, short, long, octal, simple = found.groups()
    if short is not None or long is not None:
        raise ValueError("bytes have no \\u and \\U escapes")
    if simple is not None:
        return _SIMPLE.get(simple, simple).encode()
    return bytes([int(octal, 8) if octal is not None else int(byte, 16)])
