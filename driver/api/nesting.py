"""JSON that is nested deeper than a decoder can follow, made readable.

The API server takes opaque parameters that are nested thousands deep (10 KiB of brackets). Decoders recurse, and the answer to
a list holds everybody's objects: without this, whoever may make a claim hides all others from whoever lists them.
"""

from __future__ import annotations

import re

MOST_LEVELS = 100
"""More than any object of the API has outside of opaque parameters."""
CUT = b'"gpu-dra: nested too deeply"'
"""Stands where something was left out: nobody may act on what is around it as if it were whole."""
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def cut_nesting(text: bytes) -> bytes:
    """The text with ``CUT`` in the place of each value below ``MOST_LEVELS``."""
    parts: list[bytes] = []
    level = begin = 0
    for token in _TOKEN.finditer(text):
        sign = text[token.start()]
        if sign in b"[{":
            level += 1
            if level == MOST_LEVELS + 1:
                parts += (text[begin : token.start()], CUT)
        elif sign in b"]}":
            if level == MOST_LEVELS + 1:
                begin = token.end()
            level -= 1
    return b"".join((*parts, text[begin:] if level <= MOST_LEVELS else b""))
