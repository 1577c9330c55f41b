"""What containers are told of a claim's devices, from its record and the node. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from driver.api.resource_v1 import Attribute
from driver.claims import precedence
from driver.claims.effects import Catalog
from driver.claims.metadata import DescribedDevice, Description
from driver.claims.record import ClaimRecord, RecordedDevice
from driver.names import DeviceName


def _list_attributes(device: RecordedDevice, catalog: Catalog) -> Mapping[str, Attribute]:
    """What the slices say; a MIG device that was made for the claim has a UUID besides."""
    said = catalog.attributes.get(DeviceName(device.device), {})
    return {**said, "uuid": Attribute(string=device.uuid)} if device.mig is not None and device.uuid else said


def list_requests(record: ClaimRecord) -> tuple[str, ...]:
    """The base requests, each once."""
    return tuple(dict.fromkeys(precedence.base_request(device.request) for device in record.devices))


def list_described_requests(record: ClaimRecord) -> tuple[str, ...]:
    """The base requests that have metadata files: those could be written when the claim was prepared."""
    return tuple(precedence.base_request(device.request) for device in record.devices if len(device.cdi_device_ids) > 1)


def describe(record: ClaimRecord, catalog: Catalog) -> Description:
    """The claim as its metadata files tell it."""
    devices = tuple(
        DescribedDevice(
            request=device.request,
            pool=device.pool,
            name=DeviceName(device.device),
            attributes=_list_attributes(device, catalog),
        )
        for device in record.devices
    )
    return Description(ref=record.ref(), pod_claim_name=record.pod_claim_name, devices=devices)
