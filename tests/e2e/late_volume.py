"""A volume that comes late: it holds a pod in kube-scheduler's PreBind, its claims written and itself unbound.

The volume is to be provisioned on the node that is chosen, by a provisioner that nobody is. What is held back before a claim is
written stands in ``held_writes``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hack.devcluster.layout import Layout
from tests.e2e.kube import ApiRefused, Json, KubeApi
from tests.e2e.objects import NAMESPACE

_CLASS = "late"
_SELECTED = "volume.kubernetes.io/selected-node"


@dataclass(frozen=True, slots=True, kw_only=True)
class LateVolume:
    """A claim for a volume, and the volume when it is let go."""

    api: KubeApi
    layout: Layout
    name: str

    def pod_fields(self) -> Json:
        """What a pod's spec gets, so that it waits for the volume."""
        return {"volumes": [{"name": "late", "persistentVolumeClaim": {"claimName": self.name}}]}

    def wait_chosen(self) -> str:
        """Wait until kube-scheduler has chosen a node, and hangs; the node."""

        def is_chosen(claims: list[Json]) -> bool:
            return any(each["metadata"]["name"] == self.name and self._selected(each) for each in claims)

        found = self.api.wait("PersistentVolumeClaim", NAMESPACE, is_chosen, what=f"a node chosen for volume {self.name}")
        return next(self._selected(each) for each in found if each["metadata"]["name"] == self.name)

    def let_go(self) -> None:
        """The volume is there."""
        claim = self.api.get("PersistentVolumeClaim", NAMESPACE, self.name) or {}
        reference = {"namespace": NAMESPACE, "name": self.name, "uid": claim["metadata"]["uid"]}
        spec = {
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": _CLASS,
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference},
            "hostPath": {"path": str(self.layout.home / "late-volume"), "type": "DirectoryOrCreate"},
            "persistentVolumeReclaimPolicy": "Retain",
        }
        self.api.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": self.name}, "spec": spec})

    @staticmethod
    def _selected(claim: Json) -> str:
        return str(claim["metadata"].get("annotations", {}).get(_SELECTED, ""))


@contextmanager
def late_volume(api: KubeApi, layout: Layout, name: str) -> Iterator[LateVolume]:
    """One of this name, gone afterwards."""
    api.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": _CLASS},
            "provisioner": "nobody.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    spec = {
        "storageClassName": _CLASS,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Mi"}},
    }
    metadata = {"name": name, "namespace": NAMESPACE}
    api.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
    try:
        yield LateVolume(api=api, layout=layout, name=name)
    finally:
        for kind, namespace in (("PersistentVolumeClaim", NAMESPACE), ("PersistentVolume", None)):
            _remove(api, kind, namespace, name)
        api.delete("StorageClass", None, _CLASS)


def _remove(api: KubeApi, kind: str, namespace: str | None, name: str) -> None:
    """Pods that use it may still be there: what protects it goes with it."""
    api.delete(kind, namespace, name)
    where = api.path(kind, namespace, name)
    try:
        api.request("PATCH", where, {"metadata": {"finalizers": None}}, kind="application/merge-patch+json")
    except ApiRefused as err:
        if err.status != 404:
            raise
