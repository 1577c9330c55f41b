"""Records and CDI files are brought into step: at start, and when NVML or the driver comes back.

The kubelet may not call again for claims whose pods run, so what the runtime reads must be right without it (B13).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from driver import log
from driver.claims import record as claim_record
from driver.claims.carry import to_recorded
from driver.claims.effects import Catalog, Incident
from driver.claims.mig_made import renew_instances
from driver.claims.model import ClaimRef, Deadline
from driver.claims.record import State
from driver.claims.store import Corrupt, Stored
from driver.claims.work import ClaimWork
from driver.errors import ClaimError
from driver.names import ClaimUID

_LOG = log.logger(__name__)
_LOCK_S = 5.0


@dataclass(slots=True, kw_only=True)
class Repaired:
    """What was done, by claim; for the log and for tests."""

    restored: list[ClaimUID] = field(default_factory=list)
    """CDI or metadata files were written again."""
    recorded: list[ClaimUID] = field(default_factory=list)
    """A record was made from the CDI file that had lost it."""
    stamped: list[ClaimUID] = field(default_factory=list)
    """A record that did not know its epoch was given the present one (B12)."""
    corrupt: list[ClaimUID] = field(default_factory=list)
    failed: dict[ClaimUID, ClaimError] = field(default_factory=dict)
    """Not now; the kubelet's next call, or the next repair, tries again."""


def repair_claims(work: ClaimWork) -> Repaired:
    """Repair every claim of the node, each under its lock, each apart from the others.

    Raises:
        DeviceNotReady, StateUnwritable: nothing can be looked at.
    """
    done = Repaired()
    catalog = work.catalog.read()
    known = work.index.read_all()
    work.carrier.sharing.sweep(work.index.read_all)
    for uid in sorted({*known, *work.carrier.cdi.list_own()}):
        found = known.get(uid)
        ref = found.record.ref() if isinstance(found, Stored) else ClaimRef(namespace="", name="", uid=uid)
        try:
            with work.locks.hold_claim(ref, Deadline(_LOCK_S), "repair"):
                _repair_one(work, uid, catalog, done)
        except ClaimError as err:
            done.failed[uid] = err
            log.event(_LOG, log.WARNING, "a claim could not be repaired now", claim_uid=uid, error=err)
    return done


def record_grants(work: ClaimWork) -> Repaired:
    """Record what CDI files grant and no record holds. Before the first call: its device would be given to a second claim.

    Raises:
        StateUnwritable: nothing can be looked at.
    """
    done = Repaired()
    for uid in sorted({*work.carrier.cdi.list_own()} - {*work.index.read_all()}):
        try:
            with work.locks.hold_claim(ClaimRef(namespace="", name="", uid=uid), Deadline(_LOCK_S), "repair"):
                if work.carrier.records.read(uid) is None:
                    _record_granted(work, uid, done)
        except ClaimError as err:
            done.failed[uid] = err
            log.event(_LOG, log.WARNING, "a grant could not be recorded", claim_uid=uid, error=err)
    return done


def _repair_one(work: ClaimWork, uid: ClaimUID, catalog: Catalog, done: Repaired) -> None:
    found = work.carrier.records.read(uid)
    if isinstance(found, Corrupt):
        work.set_aside(found)
        done.corrupt.append(uid)
    elif found is None:
        _record_granted(work, uid, done)
    elif found.record.state is State.PREPARE_COMPLETED:
        try:
            _restore(work, found, catalog, done)
        finally:  # behind it: a daemon whose folder is not there counts as unwanted
            work.carrier.sharing.keep(found.record)


def _record_granted(work: ClaimWork, uid: ClaimUID, done: Repaired) -> None:
    """A CDI file without a record grants devices that nobody holds: the record is made again, so that they are held.

    Not the file deleted: its container may be running, and its devices must not go to another claim (B07).
    """
    granted = work.carrier.read_granted(uid)
    if granted is None:
        return
    ref = granted.record.ref()
    work.carrier.records.write(granted.record, onto=granted.body)
    done.recorded.append(uid)
    message = f"{ref}: its record was gone, and was made again from the CDI file"
    work.report(Incident(reason="ClaimRecordRebuilt", message=message, ref=ref))


def _restore(work: ClaimWork, stored: Stored, catalog: Catalog, done: Repaired) -> None:
    uid = ClaimUID(stored.record.uid)
    if not catalog.devices or claim_record.find_swapped(stored.record, catalog.devices):
        return
    epoch = to_recorded(catalog)
    record = renew_instances(stored.record, catalog.devices)
    renewed = Stored(record=msgspec.structs.replace(record, epoch=epoch), body=stored.body)
    is_same = claim_record.is_same_epoch(stored.record.epoch, epoch)
    if not is_same and stored.record.own_instances():
        return  # they went with the epoch, and are made again when the kubelet asks
    if not is_same or record != stored.record:
        if stored.record.is_sharing():
            work.carrier.sharing.apply(stored.record)
        work.carrier.write_grant(renewed, catalog)
        work.carrier.records.write(renewed.record, onto=renewed.body)
        done.restored.append(uid)
        return
    if work.carrier.restore(stored, catalog):
        done.restored.append(uid)
    if stored.record.epoch != epoch and claim_record.is_known(epoch):
        work.carrier.records.write(renewed.record, onto=renewed.body)
        done.stamped.append(uid)
