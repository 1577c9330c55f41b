"""What is done for one claim, under its lock: prepare, prepare again, unprepare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from driver import log
from driver.claims import record as claim_record
from driver.claims.arrival import Arrival
from driver.claims.carry import Carrier, to_recorded
from driver.claims.compared import Compared
from driver.claims.effects import Catalog, ClaimReader, DeviceCatalog, Incident, Report
from driver.claims.ended import EndedLog
from driver.claims.index import ClaimIndex
from driver.claims.locks import Hold, LockTable
from driver.claims.mig_made import renew_instances
from driver.claims.model import CallContext, ClaimRef, Deadline, PreparedDevice
from driver.claims.plan import ClaimPlan, Holder, PlanningNode, list_exclusive_gpus, plan_claim, validate_exclusive
from driver.claims.record import ClaimRecord, State
from driver.claims.shares import validate_shares
from driver.claims.store import Corrupt, Stored
from driver.errors import ClaimError, DeviceNotReady, RecordUnreadable, StateUnwritable
from driver.names import DeviceName, PoolName

_LOG = log.logger(__name__)

LOCK_MARGIN_S = 3.0
"""A lock that is not had this long before the call's end is given up: the answer that says who has it must still arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose claims these are."""

    driver: str
    pool: PoolName


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What this node knows of a claim. ``is_rebuilt``: from its CDI file or from memory, the record itself being corrupt."""

    stored: Stored
    is_rebuilt: bool = False

    def is_completed(self) -> bool:
        """True when the record itself says that the claim is prepared."""
        return not self.is_rebuilt and self.stored.record.state is State.PREPARE_COMPLETED


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimWork:
    """Prepares and unprepares one claim at a time; calls for different claims run side by side."""

    identity: Identity
    reader: ClaimReader
    catalog: DeviceCatalog
    carrier: Carrier
    index: ClaimIndex
    locks: LockTable
    ended: EndedLog
    report: Report
    compared: Compared = field(default_factory=Compared)

    def make_folders(self) -> None:
        """Make every folder that is not there, and delete what a killed process left half written once it is old.

        Raises:
            StateUnwritable
        """
        self.carrier.records.start()
        self.carrier.cdi.start()
        self.carrier.mig.debts.start()
        self.locks.start()
        self.ended.start()

    def prepare(self, ref: ClaimRef, call: CallContext) -> tuple[PreparedDevice, ...]:
        """Prepare the claim, or answer again what was answered before.

        Raises:
            ClaimError, ApiError: this claim's own answer.
        """
        arrival = Arrival(ref=ref, call=call, ended=self.ended, came_at=self.ended.read_end())
        deadline = Deadline(call.deadline().remaining_s() - LOCK_MARGIN_S)
        with self.locks.hold_claim(ref, deadline, "prepare:begin") as hold, self.carrier.turns.taken():
            hold.is_last = True
            arrival.validate()
            found = self.find(ref)
            hold.is_last = found is None
            catalog = self.catalog.read()
            if found is not None and self.compared.has(found.stored.record) and self._still_holds(found, catalog):
                return self._answer_again(found.stored, catalog)
            arrival.era = self.compared.era
            with self.carrier.turns.given_up():
                claim = self.reader.read_claim(ref)
            plan = plan_claim(claim, ref, self._planning_node(catalog))
            if found is not None and found.stored.record.allocation == plan.allocation:
                if self._still_holds(found, catalog):
                    answer = self._answer_again(found.stored, catalog)
                    self.compared.remember(ref.uid, plan.allocation, arrival.era)
                    return answer
                self._refuse_swapped(found, catalog)
            self._undo_earlier(found, plan, deadline, hold)
            if not plan.devices:
                return ()
            with self.locks.hold_gpus(list_exclusive_gpus(plan), ref, deadline, "prepare:begin"):
                return self._prepare_afresh(plan, catalog, found, arrival, hold)

    def unprepare(self, ref: ClaimRef, deadline: Deadline) -> None:
        """Release the claim from its record alone; the API server and NVML are not asked (B17).

        Raises:
            ClaimError: the claim keeps its devices; the kubelet asks again.
        """
        self._count(ref)
        until = Deadline(deadline.remaining_s() - LOCK_MARGIN_S)
        with self.locks.hold_claim(ref, until, "unprepare:begin") as hold, self.carrier.turns.taken():
            self.unprepare_held(ref, until, hold)

    def _count(self, ref: ClaimRef) -> None:
        """Say that an unprepare begins. On a full disk it must go on without: no late prepare can write a record there."""
        try:
            self.ended.add(ref.uid)
        except StateUnwritable as err:
            log.event(_LOG, log.WARNING, "an unprepare could not be counted", claim=str(ref), error=err)

    def unprepare_held(self, ref: ClaimRef, deadline: Deadline, hold: Hold) -> None:
        """``unprepare`` for whoever holds the claim's lock."""
        found = self.find(ref, must_be_known=True)
        self.compared.forget(ref.uid)
        if found is not None:
            self._end(found.stored, deadline, hold)
        else:
            self.carrier.clear(ref)
        hold.is_last = True

    def find(self, ref: ClaimRef, *, must_be_known: bool = False) -> Found | None:
        """What is known of the claim. A corrupt record is set aside, said, and rebuilt as far as its CDI file goes (R12).

        Raises:
            RecordUnreadable: with ``must_be_known``, when nothing says what the corrupt record held.
            StateUnwritable: the disk refuses.
        """
        read = self.carrier.records.read(ref.uid)
        if isinstance(read, Stored):
            return Found(stored=read)
        if isinstance(read, Corrupt):
            read = self.set_aside(read)
        granted = self.carrier.read_granted(ref.uid)
        if granted is not None:
            return Found(stored=granted, is_rebuilt=True)
        recalled = self.index.recall(ref.uid) if read is not None else None
        if recalled is not None:
            return Found(stored=Stored(record=recalled, body={}), is_rebuilt=True)
        if read is not None and must_be_known:
            raise RecordUnreadable(f"{ref}: {_describe_corrupt(read)}")
        return None

    def set_aside(self, corrupt: Corrupt) -> Corrupt:
        """Rename a corrupt record and say so, once."""
        aside = self.carrier.records.set_aside(corrupt)
        if aside.path != corrupt.path:
            self.report(Incident(reason="ClaimRecordCorrupt", message=_describe_corrupt(aside)))
        return aside

    def _planning_node(self, catalog: Catalog) -> PlanningNode:
        identity = self.identity
        return PlanningNode(
            driver=identity.driver, pool=identity.pool, devices=catalog.devices, unread=catalog.unread, divided=catalog.divided
        )

    def _still_holds(self, found: Found, catalog: Catalog) -> bool:
        """True when the record's facts are those of this epoch and of the same cards (R24)."""
        record = found.stored.record
        return (
            found.is_completed()
            and claim_record.is_same_epoch(record.epoch, to_recorded(catalog))
            and not claim_record.find_swapped(record, catalog.devices)
            and renew_instances(record, catalog.devices) == record
            and self.carrier.has_instances(record, catalog)
        )

    def _answer_again(self, stored: Stored, catalog: Catalog) -> tuple[PreparedDevice, ...]:
        self.carrier.restore(stored, catalog)
        return claim_record.build_answer(stored.record)

    def _refuse_swapped(self, found: Found, catalog: Catalog) -> None:
        """Another card under the same name is not what was allocated: selectors were matched against the first (R24)."""
        record = found.stored.record
        for device in claim_record.find_swapped(record, catalog.devices) if found.is_completed() else ():
            card = catalog.card(device.gpu)
            message = (
                f"{record.ref()}: device {device.device} was on {device.card_uuid} when the claim was prepared, and is on "
                f"{card.reading.uuid if card is not None else 'another'} now: the card was replaced; delete the pod, "
                "so that its claim is allocated anew"
            )
            self.report(Incident(reason="GpuReplaced", message=message, ref=record.ref()))
            raise DeviceNotReady(message)

    def _end(self, stored: Stored, deadline: Deadline, hold: Hold) -> None:
        """Undo a claim, holding the GPUs on which it has set what other shares may set too."""
        record = stored.record
        gpus = tuple(sorted({device.gpu for device in record.devices if device.sharing is not None or device.has_own_instance}))
        with self.locks.hold_gpus(gpus, record.ref(), deadline, "unprepare:begin"):
            self.carrier.unprepare(stored, self._read_others(record), say=hold.say)

    def _read_others(self, record: ClaimRecord) -> tuple[ClaimRecord, ...]:
        """The records of other claims, where they matter to undoing this one."""
        found = self.index.read_records() if record.is_sharing() or record.own_instances() else ()
        return tuple(each for each in found if each.uid != record.uid)

    def _read_holders(self, plan: ClaimPlan) -> Mapping[DeviceName, tuple[Holder, ...]]:
        """Who holds a part of what the plan's devices take: claims, and MIG instances that outlived theirs."""
        wanted = {device.device: device.footprint for device in plan.devices if not device.is_admin}
        holders = dict(self.index.read_holders(wanted, but=plan.ref.uid)) if wanted else {}
        for debt in self.carrier.mig.debts.read_all() if wanted else ():
            for name, footprint in wanted.items():
                if not debt.is_mode_only and footprint.overlaps(debt.mig.footprint):
                    holders[name] = (*holders.get(name, ()), Holder(who=f"the MIG instance of {debt.ref()}, yet to be removed"))
        return holders

    def _take_back(self, plan: ClaimPlan, hold: Hold) -> None:
        """Leave no MIG instance of a prepare that failed: others may want its place before the kubelet asks again."""
        stored = self.carrier.records.read(plan.ref.uid)
        if not isinstance(stored, Stored) or not stored.record.own_instances():
            return
        try:
            self.carrier.unprepare(stored, self._read_others(stored.record), say=hold.say)
            hold.is_last = True
        except ClaimError as err:
            log.event(_LOG, log.WARNING, "what a failed prepare made stays for now", claim=str(plan.ref), error=err)

    def _undo_earlier(self, found: Found | None, plan: ClaimPlan, deadline: Deadline, hold: Hold) -> None:
        """Another allocation, or something half done, ends before anything new begins (R9, B04)."""
        if found is None:
            return
        record = found.stored.record
        if record.state is not State.PREPARE_COMPLETED or record.allocation != plan.allocation:
            self.compared.forget(plan.ref.uid)
            self._end(found.stored, deadline, hold)
            hold.is_last = True

    def _prepare_afresh(
        self, plan: ClaimPlan, catalog: Catalog, found: Found | None, arrival: Arrival, hold: Hold
    ) -> tuple[PreparedDevice, ...]:
        holders = self._read_holders(plan)
        validate_exclusive(plan, holders)
        validate_shares(plan, holders, self._planning_node(catalog))
        self.carrier.make_ready(plan, catalog, None if found is None else found.stored.record, say=hold.say)
        arrival.validate()
        hold.is_last = False
        onto = found.stored.body if found is not None else None
        try:
            record = self.carrier.prepare(plan, catalog, onto=onto, say=hold.say)
        except ClaimError:
            if not _was_prepared(found, plan):
                self._take_back(plan, hold)
            raise
        if arrival.is_over():
            if not _was_prepared(found, plan):
                self.carrier.unprepare(Stored(record=record, body=onto or {}), self._read_others(record), say=hold.say)
                hold.is_last = True
            arrival.validate()
        self.compared.remember(plan.ref.uid, plan.allocation, arrival.era)
        return claim_record.build_answer(record)


def _was_prepared(found: Found | None, plan: ClaimPlan) -> bool:
    """True when an earlier call had prepared the claim so: its pods may run, and only an unprepare may end that."""
    if found is None:
        return False
    record = found.stored.record
    return record.state is State.PREPARE_COMPLETED and record.allocation == plan.allocation


def _describe_corrupt(corrupt: Corrupt) -> str:
    return (
        f"the record of claim {corrupt.uid} cannot be read ({corrupt.why}) and is kept as {corrupt.path}; its devices stay "
        "blocked. Preparing the claim again mends it; if no container uses the claim any more, delete the file"
    )
