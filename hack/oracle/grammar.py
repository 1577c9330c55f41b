"""Random selectors: mostly of right types, with enough wrong ones to meet each refusal and each error."""

from __future__ import annotations

import random
from collections.abc import Callable

from hack.oracle.grammar_rules import EXTRARULES, RULES

_IDS = ("index", "numa", "productName", "brand", "nvlink", "mig", "driverVersion", "cudaComputeCapability", "uuid", "nope")
_DOMAINS = ('"gpu.example.com"', '"other.example.com"', '"resource.kubernetes.io"', '"nope"', "device.driver")


class Generator:
    """Writes selectors; the same seed writes the same ones."""

    def __init__(self, seed: int, *, lists: bool) -> None:
        self._random = random.Random(seed)
        self._lists = lists
        self._variables: list[tuple[str, str]] = []

    def selector(self) -> str:
        """One selector."""
        return self.of("bool", self._random.randint(1, 4))

    def pick(self, *options: str) -> str:
        """One of the options."""
        return self._random.choice(options)

    def of(self, kind: str, depth: int) -> str:
        """An expression that is of a type, most of the time."""
        draw = self._random.random()
        if draw < 0.02:
            kind = self.pick(*RULES)
        elif draw < 0.06:
            return f"dyn({self.of(self.pick(*RULES), depth - 1)})" if depth > 0 else "dyn(1)"
        fitting = [name for name, its in self._variables if its == kind]
        if fitting and self._random.random() < 0.4:
            return self.pick(*fitting)
        leaves, nodes = RULES[kind]
        if depth <= 0 or self._random.random() < 0.15:
            return self._random.choice(leaves)(self, 0)
        return self._random.choice(nodes)(self, depth - 1)

    def within(self, name: str, kind: str, write: Callable[[], str]) -> str:
        """What is written where a local variable is in sight."""
        self._variables.append((name, kind))
        try:
            return write()
        finally:
            self._variables.pop()

    def name(self) -> str:
        """A variable's name."""
        return self.pick("x", "y", "z", "device" if self._random.random() < 0.05 else "v")

    def attribute(self, depth: int) -> str:
        """An attribute of the device."""
        domain, identifier = self.pick(*_DOMAINS), self.pick(*_IDS)
        if self._lists and self._random.random() < 0.3:
            identifier = self.pick("links", "ids", "flags", "vers", "one")
        form = self._random.randrange(6)
        base = f"device.attributes[{domain}]"
        if form == 0:
            return f"{base}[{self.of('string', depth)}]"
        if form == 1:
            return f"{base}.?{identifier}.orValue({self.of(self.pick('int', 'string', 'bool'), depth)})"
        if form == 2:
            return f'{base}["{identifier}"]'
        return f'device.attributes["gpu.example.com"].{identifier}'

    def macro(self, depth: int, name: str) -> str:
        """A macro with a predicate over a list."""
        kind = self.pick("int", "string", "double")
        variable = self.name()
        predicate = self.within(variable, kind, lambda: self.of("bool", depth))
        return f"{self.of('list_' + kind, depth)}.{name}({variable}, {predicate})"

    def macro_two(self, depth: int, name: str) -> str:
        """The same with two variables."""
        kind = self.pick("int", "string")
        predicate = self.within("i", "int", lambda: self.within("e", kind, lambda: self.of("bool", depth)))
        return f"{self.of('list_' + kind, depth)}.{name}(i, e, {predicate})"

    def transform(self, depth: int, target: str) -> str:
        """A macro that makes a list."""
        kind, variable = self.pick("int", "string", "double"), self.name()
        form = self._random.randrange(4)
        if form == 0:
            predicate = self.within(variable, target, lambda: self.of("bool", depth))
            return f"{self.of('list_' + target, depth)}.filter({variable}, {predicate})"
        source = self.of("list_" + kind, depth)
        element = self.within(variable, kind, lambda: self.of(target, depth))
        if form == 1:
            predicate = self.within(variable, kind, lambda: self.of("bool", depth))
            return f"{source}.map({variable}, {predicate}, {element})"
        if form == 2:
            element = self.within("i", "int", lambda: self.within("e", kind, lambda: self.of(target, depth)))
            return f"{source}.transformList(i, e, {element})"
        return f"{source}.map({variable}, {element})"

    def bind(self, depth: int, kind: str) -> str:
        """A local variable."""
        other, variable = self.pick("int", "string", "bool", "list_int", "quantity"), self.name()
        result = self.within(variable, other, lambda: self.of(kind, depth))
        return f"cel.bind({variable}, {self.of(other, depth)}, {result})"

    def fill(self, template: str, depth: int) -> str:
        """A template with ``<kind>`` replaced by expressions."""
        parts = template.split("<")
        written = parts[0]
        for part in parts[1:]:
            kind, _, rest = part.partition(">")
            written += (EXTRARULES[kind](self, depth) if kind in EXTRARULES else self.of(kind, depth)) + rest
        return written
