"""The kinds of object that are asked for, each with its path and its type; and how a path is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from driver.api.meta_v1 import ObjectMeta
from driver.api.resource_v1 import GROUP_VERSION, ResourceClaim, ResourceSlice


class Identity(Protocol):
    """As much of an object's metadata as says which object it is, in which version."""

    @property
    def name(self) -> str:
        """The name, unique in its namespace."""

    @property
    def namespace(self) -> str:
        """The namespace; empty for kinds that have none."""

    @property
    def uid(self) -> str:
        """Another one for an object that was deleted and made again."""

    @property
    def resource_version(self) -> str:
        """Another one after every write."""


class KubeObject(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> Identity:
        """Who the object is."""


T = TypeVar("T", bound=KubeObject)


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What the kubelet says of a Node, as far as a plugin needs it."""

    allocatable: Mapping[str, str] = {}
    """Resources that pods may ask for by number; those of device plugins, too."""


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A Node, as far as a plugin needs it: who it is, its labels, and who else gives its GPUs out."""

    metadata: ObjectMeta
    status: NodeStatus = NodeStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[T]):
    """One kind of object: ``group_version`` is ``v1`` or ``<group>/<version>``."""

    group_version: str
    plural: str
    type_: type[T]

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path on the server; every part is quoted, so that no name can leave its place."""
        root = "/apis/" if "/" in self.group_version else "/api/"
        parts = [self.plural]
        if namespace:
            parts = ["namespaces", namespace, *parts]
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return root + self.group_version + "".join("/" + _quote(part) for part in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of a kind a list or a watch is about."""

    namespace: str = ""
    field_selector: str = ""
    label_selector: str = ""

    def query(self) -> dict[str, str]:
        """The selectors as query parameters."""
        pairs = {"fieldSelector": self.field_selector, "labelSelector": self.label_selector}
        return {key: value for key, value in pairs.items() if value}


EVERYTHING = Selection()

RESOURCE_SLICES = Resource(group_version=GROUP_VERSION, plural="resourceslices", type_=ResourceSlice)
RESOURCE_CLAIMS = Resource(group_version=GROUP_VERSION, plural="resourceclaims", type_=ResourceClaim)
NODES = Resource(group_version="v1", plural="nodes", type_=Node)


def _quote(part: str) -> str:
    """A path segment. ``.`` and ``..`` are legal in no name, and would be taken away on the way."""
    if part in {".", ".."}:
        raise ValueError(f"{part!r} is no name of an object")
    return quote(part, safe="")
