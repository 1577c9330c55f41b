"""Texts of others for a terminal or a picture: product names, conditions and messages are whatever somebody has written."""

from __future__ import annotations

import json

STRANGE = "�"
"""In the place of what a terminal would obey, or show as something else: escapes, other controls, marks of direction."""


def encode_printable(text: str) -> str:
    """The text without what is not shown; lines stay lines, and spaces of all kinds are spaces."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else " " if char.isspace() else STRANGE for char in text)


def escape_json(document: str) -> str:
    """A JSON document that says the same, and in which nothing moves a cursor or turns the direction of what follows.

    JSON escapes the old controls by itself, but not those from U+0080 on, nor marks of direction.
    """
    if document.isprintable():
        return document
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in document)
