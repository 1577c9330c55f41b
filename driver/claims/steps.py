"""What preparing and unpreparing do to the node, as data in the order in which it is done. Pure.

Each step is safe to take twice, and a process may die between any two. The order is what makes that safe:

- A plan without a step on the hardware is recorded once, as completed, *before* its CDI file is written: whoever finds the
  record without the file writes the file (B13).
- A plan with one is recorded as started before it, with all that undoing it needs: whoever finds such a record undoes it.
- Unprepare first records that it began, so that nobody writes the file again; the grant goes before the record, so that a
  device is never free while a file still grants it (B03, R11).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from driver.claims.record import ClaimRecord, State


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
class MakeInstances:
    """MIG devices that are made for the claim; says its own steps besides."""

    name: ClassVar[str] = "mig"


@dataclass(frozen=True, slots=True)
class ApplySharing:
    """Compute modes, time slices and MPS daemons, as the record says."""

    name: ClassVar[str] = "sharing"


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
class ReleaseSharing:
    """Daemons end, and what was set on GPUs is taken back."""

    name: ClassVar[str] = "release-sharing"


@dataclass(frozen=True, slots=True)
class RemoveInstances:
    """MIG devices that were made for the claim; says its own steps besides."""

    name: ClassVar[str] = "remove-mig"


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """The claim is unknown from here on, its devices free."""

    name: ClassVar[str] = "delete-record"


PrepareStep: TypeAlias = WriteMetadata | WriteRecord | MakeInstances | ApplySharing | WriteCdiFile
UnprepareStep: TypeAlias = WriteRecord | DeleteCdiFile | DeleteMetadata | ReleaseSharing | RemoveInstances | DeleteRecord


def plan_prepare(record: ClaimRecord) -> tuple[PrepareStep, ...]:
    """What preparing the claim of ``record`` takes."""
    completed = (WriteRecord(State.PREPARE_COMPLETED), WriteCdiFile())
    if record.own_instances():
        sharing = (ApplySharing(),) if record.is_sharing() else ()
        return (WriteRecord(State.PREPARE_STARTED), MakeInstances(), WriteMetadata(), *sharing, *completed)
    if not record.is_sharing():
        return (WriteMetadata(), *completed)
    return (WriteMetadata(), WriteRecord(State.PREPARE_STARTED), ApplySharing(), *completed)


def plan_unprepare(record: ClaimRecord) -> tuple[UnprepareStep, ...]:
    """What is left to do for a claim with ``record``."""
    begin = () if record.state is State.UNPREPARE_STARTED else (WriteRecord(State.UNPREPARE_STARTED),)
    sharing = (ReleaseSharing(),) if record.is_sharing() else ()
    mig = (RemoveInstances(),) if record.own_instances() else ()
    return (*begin, DeleteCdiFile(), DeleteMetadata(), *sharing, *mig, DeleteRecord())
