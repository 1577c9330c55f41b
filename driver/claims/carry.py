"""Carries out the steps of ``driver.claims.steps``, one after the other, and says each before it is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import msgspec

from driver import log
from driver.cdi import edits
from driver.cdi import names as cdi_names
from driver.cdi.spec import CdiSpec
from driver.cdi.store import RECORD_ANNOTATION, CdiStore
from driver.claims import precedence, steps
from driver.claims import record as claim_record
from driver.claims.effects import Catalog, HostFacts, OnStep
from driver.claims.metadata import DescribedDevice, Description, MetadataFolder
from driver.claims.model import ClaimRef
from driver.claims.plan import ClaimPlan
from driver.claims.record import ClaimRecord, RecordedDevice, RecordedEpoch, RecordInvalid
from driver.claims.store import RecordFolder, Stored
from driver.errors import ClaimError, DeviceNotReady, StateUnwritable
from driver.host.device_nodes import DeviceNode
from driver.host.driver_files import DriverFiles
from driver.names import CDIDeviceID, ClaimUID, DeviceName

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
    on_step: OnStep

    def prepare(self, plan: ClaimPlan, catalog: Catalog, *, onto: Mapping[str, Any] | None, say: Say) -> ClaimRecord:
        """Carry out a plan; ``onto`` is the body of an earlier record of the claim, ``say`` is told each step.

        Raises:
            ClaimError: nothing more was done than the steps before; safe to do again, and to undo.
        """
        record = claim_record.build_record(plan, to_recorded(catalog), {})
        grant = self._read_grant(record, catalog)
        for step in steps.PREPARE:
            self._announce(f"prepare:{step.name}", say)
            match step:
                case steps.WriteMetadata():
                    extra_ids = self._write_metadata(record, catalog)
                    record = claim_record.build_record(plan, record.epoch, extra_ids)
                case steps.WriteRecord(state):
                    record = msgspec.structs.replace(record, state=state)
                    self.records.write(record, onto=onto)
                case steps.WriteCdiFile():
                    self.cdi.write(plan.ref.uid, grant.build_spec(record, onto))
                case _:
                    assert_never(step)
        self.on_step("prepare:done")
        return record

    def unprepare(self, stored: Stored, *, say: Say) -> None:
        """Undo whatever was done for the claim, from its record alone.

        Raises:
            StateUnwritable: the claim keeps its devices, and asking again goes on from there (B03).
        """
        record = stored.record
        uid = ClaimUID(record.uid)
        for step in steps.plan_unprepare(record.state):
            self._announce(f"unprepare:{step.name}", say)
            match step:
                case steps.WriteRecord(state):
                    self._mark(msgspec.structs.replace(record, state=state), stored.body)
                case steps.DeleteCdiFile():
                    self.cdi.delete(uid)
                case steps.DeleteMetadata():
                    self._delete_metadata(record.ref())
                case steps.DeleteRecord():
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
        self._delete_metadata(ref)

    def restore(self, stored: Stored, catalog: Catalog) -> bool:
        """Write again what is missing, or no longer ours, of a prepared claim's files (B13); True when something was.

        A file counts once it was read: in its place there may be a folder, a link, or nothing but its name.

        Raises:
            DeviceNotReady, StateUnwritable: it cannot be written now.
        """
        record = stored.record
        ref = record.ref()
        has_metadata = self.metadata is None or self.metadata.exists(ref, _requests_with_metadata(record))
        has_grant = self.read_granted(ref.uid) is not None
        if not has_metadata and self.metadata is not None:
            self.metadata.write(_describe(record, catalog))
        if not has_grant:
            self.write_grant(stored, catalog)
        return not (has_metadata and has_grant)

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
        gpu = catalog.devices.get(DeviceName(device.device))
        if gpu is None:
            raise DeviceNotReady(
                f"{record.ref()}: device {device.device} is not on this node now, so it cannot be granted again"
            )
        return edits.GrantedGpu(
            name=cdi_names.device_of_id(device.cdi_device_ids[0]),
            uuid=gpu.reading.uuid,
            pci=gpu.reading.pci,
            node=self.host.read_gpu_node(gpu.reading.minor),
        )

    def _write_metadata(self, record: ClaimRecord, catalog: Catalog) -> Mapping[str, CDIDeviceID]:
        """The metadata devices by base request; none when they cannot be written, which must not fail the claim."""
        if self.metadata is None:
            return {}
        try:
            return self.metadata.write(_describe(record, catalog))
        except ClaimError as err:
            log.event(_LOG, log.WARNING, "prepared without metadata files", claim=str(record.ref()), error=err)
            return {}

    def _delete_metadata(self, ref: ClaimRef) -> None:
        if self.metadata is None:
            return
        try:
            self.metadata.delete(ref)
        except ClaimError as err:
            log.event(_LOG, log.WARNING, "metadata files are left over", claim=str(ref), error=err)


def to_recorded(catalog: Catalog) -> RecordedEpoch:
    """The node's epoch as a record holds it."""
    epoch = catalog.epoch
    return RecordedEpoch(boot_id=epoch.boot_id, driver_version=epoch.driver_version, load_marker=epoch.load_marker)


def _requests_with_metadata(record: ClaimRecord) -> tuple[str, ...]:
    return tuple(precedence.base_request(device.request) for device in record.devices if len(device.cdi_device_ids) > 1)


def _describe(record: ClaimRecord, catalog: Catalog) -> Description:
    devices = tuple(
        DescribedDevice(
            request=device.request,
            pool=device.pool,
            name=DeviceName(device.device),
            attributes=catalog.attributes.get(DeviceName(device.device), {}),
        )
        for device in record.devices
    )
    return Description(ref=record.ref(), pod_claim_name=record.pod_claim_name, devices=devices)
