"""Hostile values, and good ones with something wrong in them. Everything follows from the seed."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

TEXTS = (
    *("", "..", "/", "../../etc/passwd", "a\0b", "%2e%2e", "A", "-", "null", "{}", "$(id)", "\n\r\t", "team", "node-b"),
    *("a" * 300, "x" * 20_000, "\u200b", "\u202egpu", "\uffff", "\U0001f600" * 80),
    *("gpu-0000-1b-00-0", "GPU-0000-1B-00-0", "00000000-0000-4000-8000-000000000000"),
)
VALUES: tuple[Any, ...] = (None, True, 0, -1, 1 << 62, 1 << 70, 1e308, [], {}, [[]], [None] * 500, {"": ""}, "9" * 5000)


class Mutator:
    """One row of random choices."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def text(self) -> str:
        """Words that mean something somewhere, or noise."""
        if self.rng.random() < 0.7:
            return self.rng.choice(TEXTS)
        return "".join(chr(self.rng.choice((0x20, 0x7F, 0x100, 0x3000, 0x1F600)) + self.rng.randrange(0x40)) for _ in range(20))

    def value(self) -> Any:
        """What JSON can say."""
        return self.text() if self.rng.random() < 0.5 else copy.deepcopy(self.rng.choice(VALUES))

    def json_bytes(self, good: Any) -> bytes:
        """The good object with one to three things wrong, and perhaps as torn bytes."""
        bad = copy.deepcopy(good)
        for _ in range(self.rng.randint(1, 3)):
            bad = self._spoil(bad)
        data = json.dumps(bad).encode()
        if self.rng.random() < 0.1:
            depth = self.rng.choice((50, 900, 970, 20_000))
            data = data.replace(b"null", b"[" * depth + b"]" * depth, 1)
        return self.bytes(data) if self.rng.random() < 0.3 else data

    def bytes(self, good: bytes) -> bytes:
        """The good bytes, torn, turned, doubled, or replaced by noise."""
        at = self.rng.randrange(len(good) + 1)
        match self.rng.randrange(6):
            case 0:
                return good[:at]
            case 1:
                return good[:at] + self.rng.randbytes(self.rng.randint(1, 8)) + good[at + 1 :]
            case 2:
                return good + good
            case 3:
                return self.rng.randbytes(self.rng.randint(0, 400))
            case 4:
                return good[:at] + b"\0" * self.rng.choice((1, 100, 5000)) + good[at:]
            case _:
                return self.rng.choice((b"", b"<html>", b"null", b"[" * 100_000, b"\xff" * 50, b"{" * 3000))

    def _spoil(self, node: Any) -> Any:
        """One place of the tree is changed, taken away, or given a neighbour."""
        if isinstance(node, dict) and node and self.rng.random() < 0.85:
            key = self.rng.choice(sorted(node))
            if self.rng.random() < 0.15:
                del node[key]
            elif self.rng.random() < 0.1:
                node[self.text()] = self.value()
            else:
                node[key] = self._spoil(node[key])
            return node
        if isinstance(node, list) and node and self.rng.random() < 0.85:
            at = self.rng.randrange(len(node))
            if self.rng.random() < 0.2:
                return node * self.rng.choice((2, 40))
            node[at] = self._spoil(node[at])
            return node
        return self.value()
