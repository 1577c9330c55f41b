"""The loader's name is read out of a library, and no file makes that hang or fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.host.elf import ElfFacts, read_elf
from tests.unit.host.elves import make_elf


def written(folder: Path, content: bytes) -> Path:
    path = folder / "lib"
    path.write_bytes(content)
    return path


def test_a_library_says_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, make_elf(b"libcuda.so.1"))
    assert read_elf(path) == ElfFacts(is_64_bit=True, soname="libcuda.so.1", machine=62)


def test_the_running_interpreter_is_read(tmp_path: Path) -> None:
    """A real file, made by a real linker."""
    facts = read_elf(Path(sys.executable).resolve())
    assert facts is None or facts.is_64_bit


NAMELESS = {
    "no SONAME": make_elf(None),
    "no dynamic part": make_elf(b"libcuda.so.1", with_dynamic=False),
    "an empty name": make_elf(b""),
    "a path for a name": make_elf(b"../../etc/passwd"),
    "a hidden file": make_elf(b".so"),
    "other bytes": make_elf(b"lib\xff.so"),
    "a name without an end": make_elf(b"a" * 300),
    "an offset that lies in no file": make_elf(b"libcuda.so.1")[:32] + b"\xff" * 8 + make_elf(b"libcuda.so.1")[40:],
    "segments of another size": make_elf(b"libcuda.so.1")[:54] + b"\x00" + make_elf(b"libcuda.so.1")[55:],
    "cut after the header": make_elf(b"libcuda.so.1")[:64],
    "cut in the segments": make_elf(b"libcuda.so.1")[:100],
    "cut before the strings": make_elf(b"libcuda.so.1")[:0x300],
}


@pytest.mark.parametrize("content", NAMELESS.values(), ids=NAMELESS.keys())
def test_a_library_without_a_usable_name_has_none(tmp_path: Path, content: bytes) -> None:
    assert read_elf(written(tmp_path, content)) == ElfFacts(is_64_bit=True, soname=None, machine=62)


@pytest.mark.parametrize("content", [b"", b"stand-in", b"\x7fEL", b"#!/bin/sh\n"])
def test_a_stand_in_is_no_elf_file(tmp_path: Path, content: bytes) -> None:
    assert read_elf(written(tmp_path, content)) is None


FOREIGN = {
    "32 bits": b"\x7fELF\x01\x01" + bytes(100),
    "big-endian": b"\x7fELF\x02\x02" + bytes(100),
    "cut off": b"\x7fELF\x02",
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_no_container_of_ours_can_load_is_told_apart(tmp_path: Path, content: bytes) -> None:
    assert read_elf(written(tmp_path, content)) == ElfFacts(is_64_bit=False, soname=None)


@given(st.lists(st.tuples(st.integers(4, 0x400), st.integers(0, 255)), max_size=12), st.integers(0, 0x500))
@settings(max_examples=150, deadline=None)
def test_a_damaged_library_is_nameless_at_worst(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], length: int
) -> None:
    content = bytearray(make_elf(b"libcuda.so.1"))
    for place, byte in changes:
        content[place] = byte
    facts = read_elf(written(tmp_path_factory.mktemp("elf"), bytes(content[:length])))
    assert facts is None or facts.soname is None or len(facts.soname) < 256
