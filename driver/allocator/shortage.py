"""Which counter of which GPU is short, in plain words (B71).

Names are looked up here, once, of the one GPU that lacks least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from driver.allocator.capacity import format_amount
from driver.allocator.counter_groups import NamedCounter
from driver.allocator.device_node import DeviceNode
from driver.allocator.lack import Lack
from driver.allocator.partitions import CounterGroup
from driver.allocator.tables import positions_of

_PLACE = "memory-slice-"
"""Counters of this name, one each: all together they are a number, and each is a place."""
_MOST_TELLING = ("multiprocessors", "memory", "compute-slices")
"""After the memory slices. Of several that are short one is told."""
_MOST_PLACES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A GPU of which too little is left."""

    node: str
    gpu: str
    free: str
    """``2 of 8 memory slices``; where there are enough in the wrong places ``memory slices 1-4 of 8``."""
    wanted: str
    """What was to be had of it: a profile, ``the whole GPU``, ``a share``, else the device's name."""
    need: str
    """``4``, or ``0-3 or 4-7``."""
    beside: int = 0
    """So many devices of it that are needed as well: what is free is what they leave."""

    @property
    def detail(self) -> str:
        """``gpu-0000-1b-00-0 has 2 of 8 memory slices free, 3g.40gb needs 4``."""
        beside = f" beside {self.beside} that it could give" if self.beside else ""
        return f"{self.gpu} has {self.free} free{beside}, {self.wanted} needs {self.need}"

    @property
    def text(self) -> str:
        """The same with the node's name before it."""
        return f"{self.node}: {self.detail}"


def build_shortage(node: DeviceNode, lack: Lack) -> Shortage:
    """It in words."""
    if lack.amounts:
        short = max(lack.amounts, key=lambda each: each.need - each.free)
        free, need = _describe(short.name, short.free, short.total, short.need)
        return Shortage(node=node.name, gpu=node.devices[lack.at].name, free=free, wanted="a share", need=need)
    group = node.shape.groups[node.shape.group_of[lack.at]]
    counters = node.name_counters(group)
    wanted = _name_kind(node, lack.at)
    alike = [group.local_of(at) for at in positions_of(lack.among) if _name_kind(node, at) == wanted]
    free, need = _describe_short(group, counters, lack, alike)
    return Shortage(
        node=node.name,
        gpu=node.devices[group.wholes[0]].name if group.wholes else counters[0].counter_set,
        free=free,
        wanted=wanted,
        need=need,
        beside=lack.beside,
    )


def _name_kind(node: DeviceNode, at: int) -> str:
    profile = node.devices[at].attributes.get("profile")
    if profile is not None and profile.string:
        return profile.string
    return "the whole GPU" if node.whole >> at & 1 else node.devices[at].name


def _describe_short(group: CounterGroup, counters: Sequence[NamedCounter], lack: Lack, alike: Sequence[int]) -> tuple[str, str]:
    """What is free of the most telling counter that is short, and what is needed."""
    left, draws = group.tables.amounts_left(lack.left), [dict(group.model.draws[each]) for each in alike]
    draw = dict(group.model.draws[group.local_of(lack.at)])
    short = [number for number, need in draw.items() if need > left[number]]
    places = {number: place for number, each in enumerate(counters) if (place := _place_of(each)) is not None}
    if not places.keys().isdisjoint(short):
        free = sorted(place for number, place in places.items() if left[number])
        sets = [sorted(place for number, place in places.items() if each.get(number)) for each in draws]
        return _describe_places(free, len(places), sorted(sets))

    def order(number: int) -> tuple[int, Fraction]:
        name, missing = counters[number].name, draw[number] - left[number]
        told = _MOST_TELLING.index(name) if name in _MOST_TELLING else len(_MOST_TELLING)
        return told, -Fraction(missing, group.model.counters[number] or missing)

    number = min(short, key=order)
    amounts = (counters[number].unit * each for each in (left[number], group.model.counters[number], draw[number]))
    return _describe(counters[number].name, *amounts)


def _place_of(counter: NamedCounter) -> int | None:
    text = counter.name.removeprefix(_PLACE)
    return int(text) if text != counter.name and text.isdecimal() else None


def _describe_places(free: Sequence[int], total: int, sets: Sequence[Sequence[int]]) -> tuple[str, str]:
    """As a number where too few are free, else as places."""
    least = min(len(each) for each in sets)
    if least > len(free):
        return f"{len(free)} of {total} memory slices", str(least)
    have = f"memory slice{'' if len(free) == 1 else 's'} {describe_spans(free)} of {total}"
    if max(len(each) for each in sets) == 1:
        return have, f"one of {describe_spans(sorted({place for each in sets for place in each}))}"
    needs = list(dict.fromkeys(describe_spans(each) for each in sets))
    more = [*needs[:_MOST_PLACES], "others"] if len(needs) > _MOST_PLACES else needs
    return have, " or ".join(more)


def describe_spans(numbers: Sequence[int]) -> str:
    """Numbers in order as people write them: ``0-3``, ``1 3 5-6``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][-1] == number - 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return " ".join(str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in spans)


def _describe(name: str, free: Fraction, total: Fraction, need: Fraction) -> tuple[str, str]:
    return f"{format_amount(free)} of {format_amount(total)} {_speak(name)}", format_amount(need)


def _speak(name: str) -> str:
    """A counter's name in words: ``copy engines``, ``OFA engines``, ``devices of profile 20``."""
    words = name.rpartition("/")[2].split("-")
    if words[0] == "profile" and len(words) == 2:
        return f"devices of profile {words[1]}"
    return " ".join(word.upper() if word in ("ofa", "jpeg") else word for word in words)
