"""Device metadata files (KEP-5304): a container finds out, from a file, which devices its claim was given.

One file a request on the host, mounted through a CDI file of its own, whose device is named to the kubelet with the first
device of the request. Contracts, section 10. Nothing here is synced to disk: after a loss of power the boot id differs, and
every claim is prepared, and its metadata written, afresh.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from driver import files
from driver.api.resource_v1 import Attribute
from driver.cdi import names
from driver.cdi import spec as cdi_spec
from driver.cdi.spec import CdiDevice, CdiSpec, ContainerEdits, Mount
from driver.cdi.store import OWNER_ANNOTATION, SPEC_MAX_BYTES
from driver.claims import precedence
from driver.claims.model import ClaimRef
from driver.errors import StateUnwritable
from driver.names import CDIDeviceID, DeviceName, is_dns_subdomain

VERSIONS = ("metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1")
CONTAINER_FOLDER = "/var/run/kubernetes.io/dra-device-attributes"
_ATTRIBUTES_MAX = 32
_FILE_MODE = 0o644
_SUFFIX = ".json"
_FOLDER_MODE = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedDevice:
    """A device as the file tells it."""

    request: str
    """With the sub-request."""
    pool: str
    name: DeviceName
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A claim as the files tell it."""

    ref: ClaimRef
    pod_claim_name: str | None
    devices: Sequence[DescribedDevice]

    def requests(self) -> tuple[str, ...]:
        """Base requests, each once, in the order of the allocation."""
        return tuple(dict.fromkeys(precedence.base_request(device.request) for device in self.devices))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPlace:
    """Where the files go. ``folder_on_host`` is ``folder`` as the container runtime sees it; ``owner`` as in ``CdiStore``."""

    folder: Path
    folder_on_host: Path
    cdi_folder: Path
    driver: str
    owner: str


class MetadataFolder:
    """Writes and deletes the metadata files of claims. Callers hold the claim's lock."""

    def __init__(self, place: MetadataPlace) -> None:
        self._place = place
        self._folder = os.fspath(place.folder)
        self._cdi_folder = os.fspath(place.cdi_folder)

    def write(self, description: Description) -> Mapping[str, CDIDeviceID]:
        """Write the files of each request; the CDI device of each.

        Raises:
            StateUnwritable
        """
        ids = {}
        with _named_errors("writing the metadata of", description.ref):
            for request in description.requests():
                data = encode_metadata(description, request, self._place.driver)
                _write(self._folder, self._path(description.ref, request), data)
                spec = self._build_spec(description, request)
                _write(self._cdi_folder, self._cdi_path(description.ref, request), cdi_spec.encode_spec(spec))
                ids[request] = names.build_device_id(spec.kind, spec.devices[0].name)
        return ids

    def exists(self, ref: ClaimRef, requests: Iterable[str]) -> bool:
        """True when every file of these base requests is there, and is a file of ours."""
        with _named_errors("reading the metadata of", ref):
            return all(
                os.path.isfile(self._path(ref, request)) and self._is_own(self._cdi_path(ref, request)) for request in requests
            )

    def delete(self, ref: ClaimRef, requests: Iterable[str]) -> None:
        """Take the files of a claim's base requests away; that there are none is success.

        Raises:
            StateUnwritable
        """
        with _named_errors("deleting the metadata of", ref):
            for request in requests:
                cdi_path, path = self._cdi_path(ref, request), self._path(ref, request)
                if self._is_own(cdi_path):
                    files.delete(cdi_path)
                files.delete(path)
                for each in (cdi_path, path):
                    files.delete(files.name_temporary(each))

    def delete_unknown(self, ref: ClaimRef) -> None:
        """``delete`` for a claim of which nobody knows what it asked for: a prepare died before it was recorded.

        Raises:
            StateUnwritable
        """
        uid = names.validate_uid(ref.uid)
        prefix, cdi_prefix = f"{uid}_", f"{self._place.driver}_metadata_{uid}_"
        with _named_errors("looking for the metadata of", ref):
            found = {each for name in _list_folder(self._folder) if (each := _request_of(name, prefix)) is not None}
            found |= {each for name in _list_folder(self._cdi_folder) if (each := _request_of(name, cdi_prefix)) is not None}
        self.delete(ref, sorted(found))

    def _build_spec(self, description: Description, request: str) -> CdiSpec:
        mount = Mount(
            host_path=os.path.join(self._place.folder_on_host, _file_name(description.ref, request)),
            container_path=build_container_path(description, request, self._place.driver),
            options=("ro", "bind"),
        )
        device = CdiDevice(name=f"{description.ref.uid}_{request}", container_edits=ContainerEdits(mounts=(mount,)))
        return CdiSpec(
            kind=f"{self._place.driver}/metadata", annotations={OWNER_ANNOTATION: self._place.owner}, devices=(device,)
        )

    def _is_own(self, path: str) -> bool:
        try:
            annotations = cdi_spec.decode_annotations(files.read_bounded(path, SPEC_MAX_BYTES))
        except (FileNotFoundError, files.NotPlainFile, cdi_spec.SpecInvalid):
            return False
        return annotations.get(OWNER_ANNOTATION) == self._place.owner

    def _path(self, ref: ClaimRef, request: str) -> str:
        return f"{self._folder}/{_file_name(ref, request)}"

    def _cdi_path(self, ref: ClaimRef, request: str) -> str:
        return f"{self._cdi_folder}/{self._place.driver}_metadata_{_file_name(ref, request)}"


def encode_metadata(description: Description, request: str, driver: str) -> bytes:
    """The file of one base request: the same object once for each API version, newest first. Pure."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for device in description.devices:
        if precedence.base_request(device.request) == request:
            attributes = dict(sorted(device.attributes.items())[:_ATTRIBUTES_MAX])
            entry = {"driver": driver, "pool": device.pool, "name": device.name, "attributes": attributes}
            groups.setdefault(device.request, []).append(entry)
    ref = description.ref
    content: dict[str, Any] = {
        "metadata": {"name": ref.name, "namespace": ref.namespace, "uid": ref.uid, "generation": 1},
        "requests": [{"name": name, "devices": devices} for name, devices in groups.items()],
    }
    if description.pod_claim_name is not None:
        content["podClaimName"] = description.pod_claim_name
    objects = ({"kind": "DeviceMetadata", "apiVersion": version, **content} for version in VERSIONS)
    return b"\n".join(msgspec.json.encode(each) for each in objects) + b"\n"


def build_container_path(description: Description, request: str, driver: str) -> str:
    """Where the container finds the file of one base request. Pure."""
    if description.pod_claim_name is not None:
        claim = f"resourceclaimtemplates/{_checked(description.pod_claim_name)}"
    else:
        claim = f"resourceclaims/{_checked(description.ref.name)}"
    return f"{CONTAINER_FOLDER}/{claim}/{_checked(request)}/{driver}-metadata.json"


def _file_name(ref: ClaimRef, request: str) -> str:
    """Named by the uid: a claim that was made again under its name may be prepared before the first one is released."""
    return f"{names.validate_uid(ref.uid)}_{_checked(request)}{_SUFFIX}"


def _request_of(name: str, prefix: str) -> str | None:
    """The base request in the name of a file, or of half a one; None where it is no file of the claim."""
    whole = name[1:].removesuffix(".tmp") if files.is_temporary(name) else name
    if not whole.startswith(prefix) or not whole.endswith(_SUFFIX):
        return None
    request = whole.removeprefix(prefix).removesuffix(_SUFFIX)
    return request if is_dns_subdomain(request) else None


def _checked(name: str) -> str:
    """A name that may stand in a path. What the API server let through always may; nothing else gets further."""
    if not is_dns_subdomain(name):
        raise StateUnwritable(f"{name[:80]!r} is no name that may become part of a path")
    return name


def _write(folder: str, path: str, data: bytes) -> None:
    """Write the file; a folder that is not there is made."""
    for is_second in (False, True):
        try:
            files.write_atomically(path, data, mode=_FILE_MODE, sync_file=False, sync_folder=False, has_one_writer=True)
        except FileNotFoundError:
            if is_second:
                raise
            files.make_folder(folder, mode=_FOLDER_MODE)
        else:
            return


def _list_folder(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def _named_errors(doing: str, ref: ClaimRef) -> Iterator[None]:
    try:
        yield
    except (OSError, cdi_spec.SpecInvalid) as err:
        raise StateUnwritable(f"{doing} {ref}: {err}") from err
