"""What preparing and unpreparing do to the node, as data in the order in which it is done. Pure.

Each step is safe to take twice, and a process may die between any two. The order is what makes that safe:

- A plan without a step on the hardware is recorded once, as completed, *before* its CDI file is written: whoever finds the
  record without the file writes the file (B13).
- Unprepare first records that it began, so that nobody writes the file again; the grant goes before the record, so that a
  device is never free while a file still grants it (B03, R11).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from driver.claims.record import State


@dataclass(frozen=True, slots=True)
class WriteMetadata:
    """The files that tell containers what they were given."""

    name: ClassVar[str] = "metadata"


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """The record, in this state."""

    state: State

    @property
    def name(self) -> str:
        """``record-PrepareCompleted``."""
        return f"record-{self.state.value}"


@dataclass(frozen=True, slots=True)
class WriteCdiFile:
    """The grant."""

    name: ClassVar[str] = "cdi-file"


@dataclass(frozen=True, slots=True)
class DeleteCdiFile:
    """The grant's end."""

    name: ClassVar[str] = "delete-cdi-file"


@dataclass(frozen=True, slots=True)
class DeleteMetadata:
    """The metadata files' end."""

    name: ClassVar[str] = "delete-metadata"


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """The claim is unknown from here on, its devices free."""

    name: ClassVar[str] = "delete-record"


PrepareStep: TypeAlias = WriteMetadata | WriteRecord | WriteCdiFile
UnprepareStep: TypeAlias = WriteRecord | DeleteCdiFile | DeleteMetadata | DeleteRecord

PREPARE: tuple[PrepareStep, ...] = (WriteMetadata(), WriteRecord(State.PREPARE_COMPLETED), WriteCdiFile())
UNPREPARE: tuple[UnprepareStep, ...] = (
    WriteRecord(State.UNPREPARE_STARTED),
    DeleteCdiFile(),
    DeleteMetadata(),
    DeleteRecord(),
)


def plan_unprepare(state: State) -> tuple[UnprepareStep, ...]:
    """What is left to do for a claim whose record is in ``state``."""
    return UNPREPARE[1:] if state is State.UNPREPARE_STARTED else UNPREPARE
