"""The boards, MIG tables and named machines that come with the package, and machines from files."""

from __future__ import annotations

import difflib
import re
from functools import cache
from importlib import resources
from pathlib import Path

from driver.errors import MachineInvalid
from driver.nvml.mock.build import build_machine
from driver.nvml.mock.document import BoardDocument, MachineDocument, MigTableDocument
from driver.nvml.mock.model import Machine
from driver.nvml.mock.yaml_text import MAX_BYTES, decode_yaml

_FILES = resources.files("driver.nvml.mock")
_SEED = re.compile(r"[A-Za-z0-9._-]{1,253}")


@cache
def read_boards() -> dict[str, BoardDocument]:
    """The catalogue of boards."""
    return decode_yaml(_FILES.joinpath("boards.yaml").read_bytes(), dict[str, BoardDocument], source="boards.yaml")


@cache
def read_mig_tables() -> dict[str, MigTableDocument]:
    """The MIG tables that boards name."""
    return decode_yaml(_FILES.joinpath("mig.yaml").read_bytes(), dict[str, MigTableDocument], source="mig.yaml")


@cache
def read_machine_names() -> tuple[str, ...]:
    """The named machines, sorted."""
    entries = (entry.name for entry in _FILES.joinpath("machines").iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in entries if name.endswith(".yaml")))


def read_mock_machine(spec: str) -> Machine:
    """The machine of ``spec``: ``NAME[@SEED]`` or ``PATH.yaml[@SEED]``. A spec with a slash or ``.yaml`` in it is a path.

    Raises:
        MachineInvalid: no such machine or file, or the file is wrong.
    """
    where, at, seed = spec.rpartition("@")
    if not at or "/" in seed:
        where, seed = spec, ""
    elif _SEED.fullmatch(seed) is None:
        raise MachineInvalid(f"mock machine {spec!r}: a seed after @ is 1 to 253 letters, digits, dots, dashes: a node's name")
    if "/" in where or where.endswith((".yaml", ".yml")):
        return decode_machine(_read_file(where), source=where, seed=seed)
    if where not in read_machine_names():
        names = read_machine_names()
        near = difflib.get_close_matches(where.lower(), names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise MachineInvalid(
            f"mock machine {where!r}: no such machine; {hint}named ones: {', '.join(names)}; or a path to a .yaml file"
        )
    data = _FILES.joinpath("machines", f"{where}.yaml").read_bytes()
    return decode_machine(data, source=f"{where}.yaml", seed=seed)


def _read_file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as err:
        raise MachineInvalid(
            f"mock machine {path}: cannot be read: {err.strerror}; give the path of a machine file (docs/mock-machines.md), "
            "or a name without a slash, such as dgx-h100"
        ) from err


def decode_machine(data: bytes, *, source: str, seed: str) -> Machine:
    """A machine file's bytes as a machine; ``source`` names it in errors. Pure but for the catalogue.

    Raises:
        MachineInvalid: with the path in the document and what would be right there.
    """
    document = decode_yaml(data, MachineDocument, source=source)
    try:
        return build_machine(document, boards=read_boards(), mig_tables=read_mig_tables(), seed=seed)
    except MachineInvalid as err:
        raise MachineInvalid(f"{source}: {err}") from err
