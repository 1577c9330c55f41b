"""DeviceClasses, decoded whole; one that cannot be read is kept as the reason why (R14)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from driver.api.claim_spec_v1 import DeviceClassSpec, SpecFault, decode_class_spec
from driver.controller.objects.model import DeviceClass
from driver.kube.changes import Change, ChangeKind


class ClassBook:
    """Classes by name."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        self._specs: dict[str, DeviceClassSpec] = {}
        self._faults: dict[str, str] = {}
        self.specs: Mapping[str, DeviceClassSpec] = MappingProxyType(self._specs)
        self.faults: Mapping[str, str] = MappingProxyType(self._faults)
        """Classes that nobody can use, each with the reason."""
        self.version = 0
        """Another after each change of what a class says."""

    @property
    def extended_resources(self) -> frozenset[str]:
        """Names of resources that kube-scheduler takes from devices."""
        return frozenset(spec.extended_resource_name for spec in self._specs.values() if spec.extended_resource_name)

    def note(self, change: Change[DeviceClass]) -> None:
        """A class came, changed or went."""
        item = change.item
        name = item.metadata.name
        if change.kind is not ChangeKind.DELETED:
            self._uids[name] = item.metadata.uid
            self._set(name, bytes(item.spec))
        elif self._uids.get(name) == item.metadata.uid:
            del self._uids[name]
            self._specs.pop(name, None)
            self._faults.pop(name, None)
            self.version += 1

    def _set(self, name: str, spec: bytes) -> None:
        before = (self._specs.pop(name, None), self._faults.pop(name, None))
        try:
            self._specs[name] = decode_class_spec(spec)
        except SpecFault as err:
            self._faults[name] = str(err)
        if before != (self._specs.get(name), self._faults.get(name)):
            self.version += 1
