"""What is asked of a shared library: the name under which the loader looks for it (SONAME), and for which processor it is."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"\x7fELF"
_CLASS_64, _LITTLE_ENDIAN = 2, 1
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<qQ")
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_STRTAB, _DT_SONAME = 0, 5, 14
_MOST_SEGMENTS = 64
_MOST_ENTRIES = 1024
_MOST_NAME_BYTES = 256
_LARGEST_OFFSET = 1 << 40
"""Beyond what a file system can hold, ``seek`` fails as if the disk were broken."""
_NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElfFacts:
    """What an ELF file says of itself. ``is_64_bit`` also means little-endian: there is no NVIDIA driver for others."""

    is_64_bit: bool
    soname: str | None
    machine: int = 0
    """ELF's number of the processor; 0 where it is not told."""


def read_elf(path: Path) -> ElfFacts | None:
    """Reads a few hundred bytes of a library; None for what is no ELF file (a stand-in). A damaged one has no soname.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(_HEADER.size)
        if not start.startswith(_MAGIC):
            return None
        if len(start) < _HEADER.size or start[4:6] != bytes((_CLASS_64, _LITTLE_ENDIAN)):
            return ElfFacts(is_64_bit=False, soname=None)
        try:
            soname = _find_soname(file, start)
        except ValueError:
            soname = None
        return ElfFacts(is_64_bit=True, soname=soname, machine=_HEADER.unpack(start)[2])


def _find_soname(file: BinaryIO, header: bytes) -> str | None:
    segments = _read_segments(file, header)
    dynamic = next((segment for segment in segments if segment[0] == _PT_DYNAMIC), None)
    if dynamic is None:
        return None
    tags = _read_dynamic(file, offset=dynamic[2], size=dynamic[5])
    if _DT_SONAME not in tags or _DT_STRTAB not in tags:
        return None
    offset = _file_offset(segments, tags[_DT_STRTAB] + tags[_DT_SONAME])
    if offset is None:
        return None
    name, end, _ = _read_at(file, offset, _MOST_NAME_BYTES).partition(b"\0")
    text = name.decode("ascii", errors="replace")
    return text if end and _NAME.fullmatch(text) else None


def _read_segments(file: BinaryIO, header: bytes) -> list[tuple[int, ...]]:
    fields = _HEADER.unpack(header)
    offset, entry_size, count = fields[5], fields[9], fields[10]
    if entry_size != _SEGMENT.size:
        return []
    table = _read_at(file, offset, _SEGMENT.size * min(count, _MOST_SEGMENTS))
    return list(_SEGMENT.iter_unpack(table[: len(table) // _SEGMENT.size * _SEGMENT.size]))


def _read_dynamic(file: BinaryIO, *, offset: int, size: int) -> dict[int, int]:
    table = _read_at(file, offset, min(size, _ENTRY.size * _MOST_ENTRIES))
    tags: dict[int, int] = {}
    for tag, value in _ENTRY.iter_unpack(table[: len(table) // _ENTRY.size * _ENTRY.size]):
        if tag == _DT_NULL:
            break
        tags[tag] = value
    return tags


def _read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    if offset > _LARGEST_OFFSET:
        raise ValueError(f"offset {offset:#x} lies in no file")
    file.seek(offset)
    return file.read(size)


def _file_offset(segments: list[tuple[int, ...]], address: int) -> int | None:
    """Where in the file the byte lies that is loaded at ``address``."""
    for kind, _, offset, start, _, size, *_ in segments:
        if kind == _PT_LOAD and start <= address < start + size:
            return address - start + offset
    return None
