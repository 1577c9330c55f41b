"""To which nodes a pod's volumes bind it: PersistentVolumes that are bound and can be reached from some nodes alone.

A cluster's volumes come and go all day, and hardly any is of a pod that waits for our devices: what nobody asked for changes no
answer. Which volume a claim that is not bound yet will get is kube-scheduler's choice. Source: kube-scheduler 1.37.2, plugin
VolumeBinding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from driver.api.meta_v1 import OwnerReference
from driver.controller.objects.model import Lean, NodeSelector, Pod
from driver.controller.objects.node_terms import NodeTerms
from driver.kube.resources import Resource

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_LOST = "Lost"


class VolumeMeta(Lean, frozen=True, kw_only=True):
    """A volume's metadata."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class VolumeClaimMeta(Lean, frozen=True, kw_only=True):
    """A claim's metadata."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()


class VolumeClaimSpec(Lean, frozen=True, kw_only=True):
    """Which volume the claim has."""

    volume_name: str = ""


class VolumeClaimStatus(Lean, frozen=True, kw_only=True):
    """``Lost`` where the volume is gone."""

    phase: str = ""


class VolumeClaim(Lean, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    metadata: VolumeClaimMeta
    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: VolumeClaimStatus = VolumeClaimStatus()


class VolumeAffinity(Lean, frozen=True, kw_only=True):
    """From which nodes a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Lean, frozen=True, kw_only=True):
    """What binds a volume to nodes."""

    node_affinity: VolumeAffinity | None = None


class PersistentVolume(Lean, frozen=True, kw_only=True):
    """A PersistentVolume."""

    metadata: VolumeMeta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


VOLUME_CLAIMS = Resource(group_version="v1", plural="persistentvolumeclaims", type_=VolumeClaim)
VOLUMES = Resource(group_version="v1", plural="persistentvolumes", type_=PersistentVolume)


@dataclass(frozen=True, slots=True)
class VolumeTie:
    """One of a pod's volumes, and where it lets the pod run; nowhere when neither ``terms`` nor ``node`` is given."""

    text: str
    """Why a node that it does not allow is no good."""
    terms: NodeTerms | None = None
    node: str | None = None

    def allows(self, labels: Mapping[str, str], node: str) -> bool:
        """True where the volume can be had. Kubernetes looks at a node's labels alone here."""
        return self.terms.selects(labels, None) if self.terms is not None else node == self.node


class Volumes:
    """The volumes and their claims as far as they are known. Not thread-safe: one owner."""

    def __init__(self) -> None:
        self.claims_listed = False
        """True once the first list of claims is through; ``volumes_listed`` is the same of volumes."""
        self.volumes_listed = False
        self.version = 0
        """Another after each change of an answer that was given."""
        self._claims: dict[tuple[str, str], VolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._terms: dict[str, NodeTerms] = {}
        self._asked: set[tuple[str, str]] = set()
        """Claims by namespace and name, volumes by no namespace and name, that answers of this ``version`` depend on."""

    def note_listed(self, *, claims: bool = False, volumes: bool = False) -> None:
        """The first list of claims, or of volumes, is through."""
        self.claims_listed |= claims
        self.volumes_listed |= volumes
        self.version += 1

    def set_claim(self, claim: VolumeClaim) -> None:
        """The claim is now this."""
        self._claims[claim.metadata.namespace, claim.metadata.name] = claim
        self._note_changed(claim.metadata.namespace, claim.metadata.name)

    def drop_claim(self, claim: VolumeClaim) -> None:
        """The claim is gone."""
        self._claims.pop((claim.metadata.namespace, claim.metadata.name), None)
        self._note_changed(claim.metadata.namespace, claim.metadata.name)

    def set_volume(self, volume: PersistentVolume) -> None:
        """The volume is now this."""
        self._volumes[volume.metadata.name] = volume
        self._terms.pop(volume.metadata.name, None)
        self._note_changed("", volume.metadata.name)

    def drop_volume(self, volume: PersistentVolume) -> None:
        """The volume is gone."""
        self._volumes.pop(volume.metadata.name, None)
        self._terms.pop(volume.metadata.name, None)
        self._note_changed("", volume.metadata.name)

    def _note_changed(self, namespace: str, name: str) -> None:
        if (namespace, name) in self._asked:
            self._asked.clear()  # with the version all answers are asked for anew
            self.version += 1

    def list_ties(self, pod: Pod) -> tuple[VolumeTie, ...]:
        """What ties the pod to nodes; none for a pod without claims of volumes, or with volumes that every node reaches."""
        named = list(list_claims(pod))
        if named and not (self.claims_listed and self.volumes_listed):
            return (VolumeTie("its volumes are not known yet"),)
        ties = (self._find_tie(pod, name, owner) for name, owner in named)
        return tuple(tie for tie in ties if tie is not None)

    def _find_tie(self, pod: Pod, name: str, owner: str | None) -> VolumeTie | None:
        self._asked.add((pod.metadata.namespace, name))
        claim = self._claims.get((pod.metadata.namespace, name))
        if claim is None:
            return VolumeTie(f"volume claim {name} does not exist")
        fault = _find_fault(claim, owner)
        if fault is not None:
            return VolumeTie(f"volume claim {name} {fault}")
        if claim.spec.volume_name:
            return self._tie_to_volume(name, claim.spec.volume_name)
        selected = claim.metadata.annotations.get(_SELECTED_NODE)
        return None if selected is None else VolumeTie(f"volume claim {name} is for node {selected}", node=selected)

    def _tie_to_volume(self, claim: str, name: str) -> VolumeTie | None:
        self._asked.add(("", name))
        volume = self._volumes.get(name)
        if volume is None:
            return VolumeTie(f"volume {name} of claim {claim} does not exist")
        affinity = volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return None
        if name not in self._terms:
            self._terms[name] = NodeTerms(affinity.required)
        return VolumeTie(f"volume of claim {claim} cannot be reached", terms=self._terms[name])


def has_claims(pod: Pod) -> bool:
    """True for a pod that has to do with PersistentVolumeClaims."""
    return any(True for _ in list_claims(pod))


def list_claims(pod: Pod) -> Iterator[tuple[str, str | None]]:
    """Names of the pod's PersistentVolumeClaims, each with the uid of the pod that must own it, if any."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name, None
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}", pod.metadata.uid


def _find_fault(claim: VolumeClaim, owner: str | None) -> str | None:
    """Why the claim keeps a pod from running anywhere."""
    if claim.status.phase == _LOST:
        return "has lost its volume"
    if claim.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if owner is not None and all(each.uid != owner or not each.controller for each in claim.metadata.owner_references):
        return "was not made for this pod"
    if claim.spec.volume_name and _BIND_COMPLETED not in claim.metadata.annotations:
        return "is being bound"
    return None
