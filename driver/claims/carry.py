"""Carries out the steps of ``driver.claims.steps``, one after the other, and says each before it is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

import msgspec

from driver import log
from driver.cdi import edits
from driver.cdi import names as cdi_names
from driver.cdi.spec import CdiSpec
from driver.cdi.store import RECORD_ANNOTATION, CdiStore
from driver.claims import record as claim_record
from driver.claims import steps
from driver.claims.described import describe, list_described_requests, list_requests
from driver.claims.effects import Catalog, HostFacts, OnStep, SharingEffects
from driver.claims.metadata import MetadataFolder
from driver.claims.mig import MigInstances
from driver.claims.mig_record import RecordedMig
from driver.claims.model import ClaimRef
from driver.claims.plan import ClaimPlan
from driver.claims.record import ClaimRecord, RecordedDevice, RecordedEpoch, RecordInvalid
from driver.claims.store import RecordFolder, Stored
from driver.claims.turns import Turns
from driver.errors import ClaimError, DeviceNotReady, StateUnwritable
from driver.host.device_nodes import DeviceNode
from driver.host.driver_files import DriverFiles
from driver.names import CDIDeviceID, ClaimUID

_LOG = log.logger(__name__)

Say: TypeAlias = Callable[[str], None]
"""Told each step, so that the holder of a lock can be named with what it is at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grant:
    """What a CDI file needs of the host, read before anything is written: a missing node must leave nothing behind (B48)."""

    gpus: tuple[edits.GrantedGpu, ...]
    control: tuple[DeviceNode, ...]
    files: DriverFiles

    def build_spec(self, record: ClaimRecord, body: Mapping[str, Any] | None) -> CdiSpec:
        annotations = {RECORD_ANNOTATION: claim_record.encode_body(record, body).decode()}
        return edits.build_claim_spec(self.gpus, self.control, self.files, annotations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """The effects of prepare and unprepare on one node. The caller holds the claim's lock."""

    records: RecordFolder
    cdi: CdiStore
    host: HostFacts
    metadata: MetadataFolder | None
    sharing: SharingEffects
    mig: MigInstances
    on_step: OnStep
    turns: Turns = field(default_factory=Turns)

    def make_ready(self, plan: ClaimPlan, catalog: Catalog, before: ClaimRecord | None, *, say: Say) -> None:
        """See that no MIG instance of others is in the way; ``before`` is an earlier record of the claim.

        Raises:
            MigRefused, DeviceNotReady: nothing was made.
        """
        divided = frozenset(
            card.name
            for card in (catalog.card(name) for name in catalog.divided)
            if card is not None and (card.reading.is_mig_enabled or self.host.has_mig_instances(card.reading.minor))
        )
        with self.turns.given_up():
            self.mig.make_ready(plan, divided, before, lambda each: self._announce(f"prepare:{each}", say))

    def prepare(self, plan: ClaimPlan, catalog: Catalog, *, onto: Mapping[str, Any] | None, say: Say) -> ClaimRecord:
        """Carry out a plan; ``onto`` is the body of an earlier record of the claim, ``say`` is told each step.

        Raises:
            ClaimError: nothing more was done than the steps before; safe to do again, and to undo.
        """
        record = claim_record.build_record(plan, to_recorded(catalog))
        grant = self._read_grant(record, catalog)
        for step in steps.plan_prepare(record):
            self._announce(f"prepare:{step.name}", say)
            match step:
                case steps.WriteMetadata():
                    record = claim_record.add_ids(record, self._write_metadata(record, catalog))
                case steps.WriteRecord(state):
                    record = msgspec.structs.replace(record, state=state)
                    with self.turns.given_up():
                        self.records.write(record, onto=onto)
                case steps.MakeInstances():
                    with self.turns.given_up():
                        record = self.mig.make(record, lambda each: self._announce(f"prepare:{each}", say))
                    grant = self._read_grant(record, catalog)
                case steps.ApplySharing():
                    with self.turns.given_up():
                        self.sharing.apply(record)
                case steps.WriteCdiFile():
                    self.cdi.write(plan.ref.uid, grant.build_spec(record, onto))
                case _:
                    assert_never(step)
        self.on_step("prepare:done")
        self.sharing.keep(record)
        return record

    def unprepare(self, stored: Stored, others: Iterable[ClaimRecord] = (), *, say: Say) -> None:
        """Undo whatever was done for the claim, from its record alone; ``others`` are the records of other claims.

        Raises:
            StateUnwritable, DeviceNotReady: the claim keeps its devices, and asking again goes on from there (B03).
        """
        record = stored.record
        uid = ClaimUID(record.uid)
        for step in steps.plan_unprepare(record):
            self._announce(f"unprepare:{step.name}", say)
            match step:
                case steps.WriteRecord(state):
                    self._mark(msgspec.structs.replace(record, state=state), stored.body)
                case steps.DeleteCdiFile():
                    self.cdi.delete(uid)
                case steps.DeleteMetadata():
                    self._delete_metadata(record.ref(), list_requests(record))
                case steps.ReleaseSharing():
                    with self.turns.given_up():
                        self.sharing.release(record, others)
                case steps.RemoveInstances():
                    with self.turns.given_up():
                        self.mig.remove(record, others, lambda each: self._announce(f"unprepare:{each}", say))
                case steps.DeleteRecord():
                    with self.turns.given_up():
                        self.records.delete(uid)
                case _:
                    assert_never(step)
        self.on_step("unprepare:done")

    def clear(self, ref: ClaimRef) -> None:
        """Delete what a prepare left that died before its record was written.

        Raises:
            StateUnwritable
        """
        self.cdi.delete(ref.uid)
        self._delete_metadata(ref, None)

    def restore(self, stored: Stored, catalog: Catalog) -> bool:
        """Make again what is missing, no longer ours, or no longer true of a claim's files (B13); True when something was.

        A file counts once it was read: in its place there may be a folder, a link, or nothing but its name. The kernel may
        have given the GPU another number since, and the old one to another GPU.

        Raises:
            DeviceNotReady, StateUnwritable: it cannot be written now.
        """
        record = stored.record
        ref = record.ref()
        has_metadata = self.metadata is None or self.metadata.exists(ref, list_described_requests(record))
        has_grant = self.read_granted(ref.uid) is not None and not self._is_outdated(stored, catalog)
        has_daemons = self.sharing.has_folders(record)
        if not has_daemons:
            with self.turns.given_up():
                self.sharing.apply(record)
            self.sharing.keep(record)
        if not has_metadata and self.metadata is not None:
            self.metadata.write(describe(record, catalog))
        if not has_grant:
            self.write_grant(stored, catalog)
        return not (has_metadata and has_grant and has_daemons)

    def _is_outdated(self, stored: Stored, catalog: Catalog) -> bool:
        """Whether the claim's CDI file would be another one now. One that cannot be made now is compared with nothing."""
        try:
            grant = self._read_grant(stored.record, catalog)
        except DeviceNotReady:
            return False
        spec = grant.build_spec(stored.record, stored.body)
        return not self.cdi.is_same_grant(ClaimUID(stored.record.uid), spec)

    def write_grant(self, stored: Stored, catalog: Catalog) -> None:
        """Write the CDI file of a record from the host's facts now.

        Raises:
            DeviceNotReady, StateUnwritable
        """
        grant = self._read_grant(stored.record, catalog)
        self.cdi.write(ClaimUID(stored.record.uid), grant.build_spec(stored.record, stored.body))

    def read_granted(self, uid: ClaimUID) -> Stored | None:
        """The record in the annotation of the claim's CDI file; None where there is none that can be read."""
        body = self.cdi.read_record(uid)
        if body is None:
            return None
        try:
            record, whole = claim_record.decode_body(body)
        except RecordInvalid:
            return None
        return Stored(record=record, body=whole) if record.uid == uid else None

    def _mark(self, record: ClaimRecord, onto: Mapping[str, Any]) -> None:
        """Record that an unprepare began; without, where the disk is full, since ending claims is what frees it.

        The claim then still reads as prepared: after a kill a start grants it again, and the next unprepare ends it.
        """
        try:
            if not self.records.mark_ending(ClaimUID(record.uid)):
                self.records.write(record, onto=onto)
        except StateUnwritable as err:
            log.event(_LOG, log.WARNING, "an unprepare goes on unrecorded", claim=str(record.ref()), error=err)

    def _announce(self, step: str, say: Say) -> None:
        say(step)
        self.on_step(step)

    def _read_grant(self, record: ClaimRecord, catalog: Catalog) -> _Grant:
        files = self.host.read_driver_files(catalog.epoch.driver_version)
        gpus = tuple(self._read_gpu(record, device, catalog) for device in record.devices)
        return _Grant(gpus=gpus, control=self.host.read_control_nodes(), files=files)

    def _read_gpu(self, record: ClaimRecord, device: RecordedDevice, catalog: Catalog) -> edits.GrantedGpu:
        card = catalog.card(device.gpu)
        if card is None:
            raise DeviceNotReady(
                f"{record.ref()}: device {device.device} is not on this node now, so it cannot be granted again"
            )
        return edits.GrantedGpu(
            name=cdi_names.device_of_id(device.cdi_device_ids[0]),
            uuid=card.reading.uuid if device.mig is None else device.uuid,
            pci=card.reading.pci,
            node=self.host.read_gpu_node(card.reading.minor),
            part="" if device.mig is None else device.mig.part,
            capabilities=self._read_capabilities(device.mig, card.reading.minor),
            mps=self.sharing.read_access(record, device),
            share_bytes=device.consumed_bytes,
        )

    def has_instances(self, record: ClaimRecord, catalog: Catalog) -> bool:
        """Whether the driver has the MIG devices that the record says: nobody may have removed them behind our back."""
        try:
            for device in record.devices:
                card = catalog.card(device.gpu) if device.mig is not None else None
                if card is not None:
                    self._read_capabilities(device.mig, card.reading.minor)
        except DeviceNotReady:
            return False
        return True

    def _read_capabilities(self, mig: RecordedMig | None, minor: int) -> tuple[DeviceNode, ...]:
        if mig is None or mig.gpu_instance_id is None or mig.compute_instance_id is None:
            return ()
        return self.host.read_mig_nodes(minor, mig.gpu_instance_id, mig.compute_instance_id)

    def _write_metadata(self, record: ClaimRecord, catalog: Catalog) -> Mapping[str, CDIDeviceID]:
        """The metadata devices by base request; none when they cannot be written, which must not fail the claim."""
        if self.metadata is None:
            return {}
        try:
            return self.metadata.write(describe(record, catalog))
        except ClaimError as err:
            log.event(_LOG, log.WARNING, "prepared without metadata files", claim=str(record.ref()), error=err)
            return {}

    def _delete_metadata(self, ref: ClaimRef, requests: Iterable[str] | None) -> None:
        if self.metadata is None:
            return
        try:
            if requests is None:
                self.metadata.delete_unknown(ref)
            else:
                self.metadata.delete(ref, requests)
        except ClaimError as err:
            log.event(_LOG, log.WARNING, "metadata files are left over", claim=str(ref), error=err)


def to_recorded(catalog: Catalog) -> RecordedEpoch:
    """The node's epoch as a record holds it."""
    epoch = catalog.epoch
    return RecordedEpoch(boot_id=epoch.boot_id, driver_version=epoch.driver_version, load_marker=epoch.load_marker)
