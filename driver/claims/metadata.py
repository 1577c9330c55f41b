"""Device metadata files (KEP-5304): a container finds out, from a file, which devices its claim was given.

One file a request on the host, mounted through a CDI file of its own, whose device is named to the kubelet with the first
device of the request. Contracts, section 10. Nothing here is synced to disk: after a loss of power the boot id differs, and
every claim is prepared, and its metadata written, afresh.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from driver import files
from driver.api.meta_v1 import ObjectMeta
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
    """Writes and deletes the metadata files of claims."""

    def __init__(self, place: MetadataPlace) -> None:
        self._place = place

    def write(self, description: Description) -> Mapping[str, CDIDeviceID]:
        """Write the files of each request; the CDI device of each.

        Raises:
            StateUnwritable
        """
        ids = {}
        with _named_errors("writing the metadata of", description.ref):
            for request in description.requests():
                path = self._path(self._place.folder, description.ref, request)
                _make_folders(self._place.folder, path.parent)
                _write(path, encode_metadata(description, request, self._place.driver))
                spec = self._build_spec(description, request)
                self._place.cdi_folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
                _write(self._cdi_path(description.ref, request), cdi_spec.encode_spec(spec))
                ids[request] = names.build_device_id(spec.kind, spec.devices[0].name)
        return ids

    def exists(self, ref: ClaimRef, requests: Iterable[str]) -> bool:
        """True when every file of these base requests is there, and is a file of ours."""
        with _named_errors("reading the metadata of", ref):
            return all(
                self._path(self._place.folder, ref, request).is_file() and self._is_own(self._cdi_path(ref, request))
                for request in requests
            )

    def delete(self, ref: ClaimRef) -> None:
        """Take the claim's files away; that there are none is success.

        Raises:
            StateUnwritable
        """
        with _named_errors("deleting the metadata of", ref):
            for path in self._list_cdi_files(ref):
                path.unlink(missing_ok=True)
            claim = self._place.folder / _claim_folder(ref)
            for request in _list_folder(claim):
                _delete_request(claim / request, ref)
            with contextlib.suppress(FileNotFoundError):
                if not _list_folder(claim):
                    claim.rmdir()

    def _build_spec(self, description: Description, request: str) -> CdiSpec:
        mount = Mount(
            host_path=str(self._path(self._place.folder_on_host, description.ref, request)),
            container_path=build_container_path(description, request, self._place.driver),
            options=("ro", "bind"),
        )
        device = CdiDevice(name=f"{description.ref.uid}_{request}", container_edits=ContainerEdits(mounts=(mount,)))
        return CdiSpec(
            kind=f"{self._place.driver}/metadata", annotations={OWNER_ANNOTATION: self._place.owner}, devices=(device,)
        )

    def _list_cdi_files(self, ref: ClaimRef) -> list[Path]:
        prefix = f"{self._place.driver}_metadata_{names.validate_uid(ref.uid)}_"
        everything = _list_folder(self._place.cdi_folder)
        whole = [self._place.cdi_folder / name for name in everything if name.startswith(prefix) and name.endswith(".json")]
        halves = [
            self._place.cdi_folder / name for name in everything if name.startswith(f".{prefix}") and files.is_temporary(name)
        ]
        return [*(path for path in whole if self._is_own(path)), *halves]

    def _is_own(self, path: Path) -> bool:
        try:
            annotations = cdi_spec.decode_annotations(files.read_bounded(path, SPEC_MAX_BYTES))
        except (FileNotFoundError, files.NotPlainFile, cdi_spec.SpecInvalid):
            return False
        return annotations.get(OWNER_ANNOTATION) == self._place.owner

    def _cdi_path(self, ref: ClaimRef, request: str) -> Path:
        return self._place.cdi_folder / f"{self._place.driver}_metadata_{names.validate_uid(ref.uid)}_{_checked(request)}.json"

    @staticmethod
    def _path(folder: Path, ref: ClaimRef, request: str) -> Path:
        return folder / _claim_folder(ref) / _checked(request) / "metadata.json"


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


class _Described(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


def build_container_path(description: Description, request: str, driver: str) -> str:
    """Where the container finds the file of one base request. Pure."""
    if description.pod_claim_name is not None:
        claim = f"resourceclaimtemplates/{_checked(description.pod_claim_name)}"
    else:
        claim = f"resourceclaims/{_checked(description.ref.name)}"
    return f"{CONTAINER_FOLDER}/{claim}/{_checked(request)}/{driver}-metadata.json"


def _claim_folder(ref: ClaimRef) -> str:
    return f"{_checked(ref.namespace)}_{_checked(ref.name)}"


def _checked(name: str) -> str:
    """A name that may stand in a path. What the API server let through always may; nothing else gets further."""
    if not is_dns_subdomain(name):
        raise StateUnwritable(f"{name[:80]!r} is no name that may become part of a path")
    return name


def _write(path: Path, data: bytes) -> None:
    files.write_atomically(path, data, mode=_FILE_MODE, sync_file=False, sync_folder=False)


def _delete_request(folder: Path, ref: ClaimRef) -> None:
    """Delete a request's file, and what a killed process left half written of it.

    The folder is named after the claim, not after its uid (KEP-5304): a claim that was made again under the same name may
    have been prepared before this one is released, and then the file is its.
    """
    path = folder / "metadata.json"
    if _read_uid(path) not in ("", ref.uid):
        return
    path.unlink(missing_ok=True)
    for name in _list_folder(folder):
        if files.is_temporary(name):
            (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()


def _read_uid(path: Path) -> str:
    """The uid of the claim that a metadata file is of; nothing where it does not say."""
    try:
        newest, _, _ = files.read_bounded(path, SPEC_MAX_BYTES).partition(b"\n")
        return msgspec.json.decode(newest, type=_Described).metadata.uid
    except (
        FileNotFoundError,
        NotADirectoryError,
        files.NotPlainFile,
        msgspec.MsgspecError,
        UnicodeDecodeError,
        RecursionError,
    ):
        return ""


def _make_folders(base: Path, folder: Path) -> None:
    for each in (base, folder.parent, folder):
        each.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)


def _list_folder(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def _named_errors(doing: str, ref: ClaimRef) -> Iterator[None]:
    try:
        yield
    except (OSError, cdi_spec.SpecInvalid) as err:
        raise StateUnwritable(f"{doing} {ref}: {err}") from err
