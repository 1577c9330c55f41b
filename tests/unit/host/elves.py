"""Small ELF files for tests: enough of one for the loader's name to be found in it."""

from __future__ import annotations

import struct

_BASE = 0x10000
_DYNAMIC_AT = 0x200
_STRINGS_AT = 0x400


def make_elf(soname: bytes | None, *, with_dynamic: bool = True) -> bytes:
    """A 64-bit little-endian shared library with this SONAME and nothing else."""
    segments = [struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, 0x800, 0x800, 0x1000)]
    if with_dynamic:
        segments.append(struct.pack("<IIQQQQQQ", 2, 6, _DYNAMIC_AT, _BASE + _DYNAMIC_AT, 0, 0x100, 0x100, 8))
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0)
    entries = [(5, _BASE + _STRINGS_AT)] + ([(14, 1)] if soname is not None else [])
    dynamic = b"".join(struct.pack("<qQ", tag, value) for tag, value in [*entries, (0, 0)])
    body = header + b"".join(segments)
    body = body.ljust(_DYNAMIC_AT, b"\0") + dynamic
    return body.ljust(_STRINGS_AT, b"\0") + b"\0" + (soname or b"") + b"\0" * 64
