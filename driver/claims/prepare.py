"""``ClaimPreparer``: the kubelet's calls, each claim apart from the others and side by side, answered in time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from driver.cdi.store import CdiStore
from driver.claims.carry import Carrier
from driver.claims.effects import ClaimReader, DeviceCatalog, HostFacts, MigHardware, OnStep, Report, SharingEffects
from driver.claims.ended import EndedLog
from driver.claims.index import ClaimIndex
from driver.claims.locks import LockTable
from driver.claims.metadata import MetadataFolder
from driver.claims.mig import MigInstances
from driver.claims.mig_debts import MigDebts
from driver.claims.mig_upkeep import MigClaims, pay_debts, read_mig_claims
from driver.claims.model import CallContext, ClaimRef, PrepareAnswers, PreparedDevice, UnprepareAnswers
from driver.claims.repair import Repaired, record_grants, repair_claims
from driver.claims.store import RecordFolder
from driver.claims.turns import Turns
from driver.claims.work import ClaimWork, Identity
from driver.claims.workers import Workers
from driver.errors import ClaimBusy, DriverError
from driver.names import ClaimUID, DeviceName

ANSWER_MARGIN_S = 1.0
"""An answer leaves this long before the call's end, with "still working" for what is not done (R36)."""

ResultT = TypeVar("ResultT")
Measure: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Around the work for one claim, in its thread: ``prepare`` or ``unprepare``, until it is done or fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Everything outside of this package that preparing claims needs."""

    folder: Path
    """The plugin's own folder; records, locks and counts lie below it."""
    identity: Identity
    reader: ClaimReader
    catalog: DeviceCatalog
    cdi: CdiStore
    host: HostFacts
    report: Report
    sharing: SharingEffects
    mig: MigHardware
    on_step: OnStep = lambda _step: None
    measure: Measure = lambda _operation: nullcontext()
    metadata: MetadataFolder | None = None


class ClaimPreparer:
    """Implements ``ClaimService``. Several instances, in several processes, may share one folder."""

    def __init__(self, around: Surroundings) -> None:
        records = RecordFolder(around.folder / "claims")
        turns = Turns()
        carrier = Carrier(
            records=records,
            cdi=around.cdi,
            host=around.host,
            metadata=around.metadata,
            sharing=around.sharing,
            mig=MigInstances(around.mig, MigDebts(around.folder / "mig")),
            on_step=around.on_step,
            turns=turns,
        )
        self._around = around
        self._workers = Workers()
        self.index = ClaimIndex(records, carrier.read_granted)
        self.work = ClaimWork(
            identity=around.identity,
            reader=around.reader,
            catalog=around.catalog,
            carrier=carrier,
            index=self.index,
            locks=LockTable(around.folder / "locks", turns),
            ended=EndedLog(around.folder / "ended"),
            report=around.report,
        )

    def start(self) -> None:
        """Make the folders, and see that every grant that lies there is held. Before the first call.

        Raises:
            StateUnwritable
        """
        self.work.make_folders()
        record_grants(self.work)

    def repair(self) -> Repaired:
        """Bring CDI files and records into step: at the start, and whenever NVML has come or the driver's epoch may be another.

        Raises:
            DeviceNotReady, StateUnwritable: the node cannot be looked at; nothing was changed.
        """
        done = repair_claims(self.work)
        pay_debts(self.work)
        return done

    def read_mig(self) -> MigClaims:
        """The MIG instances that claims answer for, and what those take that outlived theirs.

        Raises:
            StateUnwritable
        """
        return read_mig_claims(self.work)

    def note_registered(self) -> None:
        """The kubelet has registered this plugin (again): each record is compared with the API server once more (R9)."""
        self.work.compared.forget_all()

    def read_held_devices(self) -> frozenset[DeviceName]:
        """Every device in a record of any state, a monitor's too: none of them may vanish from the slices (R23).

        Raises:
            StateUnwritable
        """
        return self.index.read_devices()

    def prepare(self, claims: Sequence[ClaimRef], call: CallContext) -> PrepareAnswers:
        """One entry for each claim asked: its devices, or its own error (B59)."""
        return self._answer(claims, call, lambda ref: self._prepare(ref, call))

    def unprepare(self, claims: Sequence[ClaimRef], call: CallContext) -> UnprepareAnswers:
        """One entry for each claim asked: None once it is released, or its own error."""
        return self._answer(claims, call, lambda ref: self._unprepare(ref, call))

    def _prepare(self, ref: ClaimRef, call: CallContext) -> tuple[PreparedDevice, ...]:
        with self._around.measure("prepare"):
            return self.work.prepare(ref, call)

    def _unprepare(self, ref: ClaimRef, call: CallContext) -> None:
        with self._around.measure("unprepare"):
            self.work.unprepare(ref, call.deadline())

    def _answer(
        self, claims: Sequence[ClaimRef], call: CallContext, work: Callable[[ClaimRef], ResultT]
    ) -> dict[ClaimUID, ResultT | DriverError]:
        refs = {ref.uid: ref for ref in claims}
        tasks = {uid: self._workers.submit(functools.partial(work, ref)) for uid, ref in refs.items()}
        deadline = call.deadline()
        return {
            uid: task.wait(
                max(0.0, deadline.remaining_s() - ANSWER_MARGIN_S), functools.partial(self._still_working, refs[uid])
            )
            for uid, task in tasks.items()
        }

    def _still_working(self, ref: ClaimRef) -> ClaimBusy:
        holder = self.work.locks.holder_of(ref.uid)
        return ClaimBusy(f"{ref}: still working{f' ({holder})' if holder else ''}; ask again")
