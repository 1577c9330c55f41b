"""The kernel may number a GPU anew within a boot: a CDI file with the old number grants another claim's GPU, or none.

Minors are given out as GPUs are found, so two that were taken off the bus and found again may have changed theirs; a driver's
major is another when its module is loaded again. Names, UUIDs and the epoch stay.

https://github.com/ROCm/k8s-gpu-dra-driver/issues/86
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.claims import Node, claim, device, prepare_one, ref, result
from tests.unit.claims.situations import answer


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Claims 1 and 2 have GPUs 1 and 2."""
    made = Node(tmp_path)
    made.api.put(*(claim(ref(n), [result(n)]) for n in range(8)))
    preparer = made.start()
    for number in (1, 2):
        assert prepare_one(preparer, number) == answer(number, number)
    return made


def swap(node: Node) -> None:
    """GPUs 1 and 2 were found again in the other order."""
    for position, minor in ((1, 2), (2, 1)):
        found = node.gpus[device(position)]
        node.gpus[device(position)] = replace(found, reading=replace(found.reading, minor=minor))


def granted_minor(node: Node, number: int) -> int:
    """The number of the GPU that a claim's container would get."""
    (granted,) = json.loads(node.cdi_path(number).read_text())["devices"]
    minor: int = granted["containerEdits"]["deviceNodes"][0]["minor"]
    return minor


def by_repair(node: Node) -> None:
    node.start().repair()


def by_a_call(node: Node) -> None:
    preparer = node.start()
    for number in (1, 2):
        assert prepare_one(preparer, number) == answer(number, number)


MENDERS = pytest.mark.parametrize("mend", [by_repair, by_a_call])


@MENDERS
def test_gpus_that_changed_their_numbers_are_granted_by_the_new_ones(node: Node, mend: Callable[[Node], None]) -> None:
    assert [granted_minor(node, number) for number in (1, 2)] == [1, 2]
    swap(node)
    mend(node)
    assert [granted_minor(node, number) for number in (1, 2)] == [2, 1]


@MENDERS
def test_a_module_that_was_loaded_again_is_granted_by_its_new_number(node: Node, mend: Callable[[Node], None]) -> None:
    """``modprobe -r nvidia-uvm`` and back: the driver itself stays loaded, so the epoch does too."""
    node.host.major = 511
    mend(node)
    for number in (1, 2):
        nodes = json.loads(node.cdi_path(number).read_text())["containerEdits"]["deviceNodes"]
        assert {each["major"] for each in nodes} == {511}


@MENDERS
def test_a_grant_that_cannot_be_compared_now_stays_as_it_is(node: Node, mend: Callable[[Node], None]) -> None:
    """A missing node, or NVML away: the pods that run may still be started again when it is back."""
    before = node.cdi_files()
    node.host.missing = {"nvidia1", "nvidia-uvm"}
    mend(node)
    assert node.cdi_files() == before


@MENDERS
def test_without_a_change_no_file_is_written(node: Node, mend: Callable[[Node], None]) -> None:
    before = {path: path.stat().st_mtime_ns for path in node.cdi.iterdir()}
    mend(node)
    assert {path: path.stat().st_mtime_ns for path in node.cdi.iterdir()} == before
