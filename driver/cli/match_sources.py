"""Where ``gpu-dra match`` takes devices from: a machine, a file of slices, or the cluster."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from driver.cel import DeviceView, build_view, build_view_of_values
from driver.config.load import load
from driver.config.settings import Settings
from driver.errors import SettingsInvalid

if TYPE_CHECKING:
    from driver.kube.resources import KubeObject, Resource

T = TypeVar("T")
K = TypeVar("K", bound="KubeObject")

_STDIN = "-"
_QUOTES = "the API server would not take it: text that looks like a number, a date or yes needs quotes, all else none"
_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that a selector is tried on."""

    driver: str
    pool: str
    name: str
    view: DeviceView


class _AttributeValue(msgspec.Struct, frozen=True):
    """What the API server takes for an attribute. People write ``version: 580`` and ``string: yes`` without quotes."""

    int_: _Int64 | None = msgspec.field(name="int", default=None)
    bool_: bool | None = msgspec.field(name="bool", default=None)
    string: str | None = None
    version: str | None = None
    ints: tuple[_Int64, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class _CapacityValue(msgspec.Struct, frozen=True):
    """A quantity, which may be written as a number."""

    value: str | int | float


def read_text(name: str) -> str:
    """A file, or stdin for ``-``.

    Raises:
        SettingsInvalid: it cannot be read, or is no UTF-8.
    """
    try:
        return sys.stdin.read() if name == _STDIN else Path(name).read_text(encoding="utf-8")
    except OSError as err:
        raise SettingsInvalid(f"cannot read {name}: {err.strerror}") from err
    except UnicodeDecodeError as err:
        raise SettingsInvalid(f"{name} is no UTF-8: {err.reason} at byte {err.start}") from err


def read_candidates(args: argparse.Namespace) -> list[Candidate]:
    """The devices that the command line names.

    Raises:
        SettingsInvalid, MachineInvalid: what was asked for is wrong.
        NvmlError, ApiError: the machine or the cluster does not answer.
    """
    settings = load(args, os.environ)
    if args.slices is not None:
        if settings.origins["nvml"] == "--nvml":
            raise SettingsInvalid("--nvml and --slices both say where the devices come from; leave one of them away")
        return list(parse_slices(read_text(args.slices), args.slices))
    if settings.origins["nvml"] != "default":
        return _read_machine(settings)
    return _read_cluster(settings)


def _read_machine(settings: Settings) -> list[Candidate]:
    from driver.cli.backend import open_for_now  # noqa: PLC0415  (with it come NVML and the mock)
    from driver.resourceslice.attributes import Allocator  # noqa: PLC0415
    from driver.resourceslice.build import build_devices  # noqa: PLC0415
    from driver.topology.build import build_topology  # noqa: PLC0415
    from driver.topology.mig_offer import MigSetting, OfferInputs, build_offers  # noqa: PLC0415

    with open_for_now(settings) as backend:
        topology = build_topology(backend.read())
    node = settings.node_name or socket.gethostname().lower()
    setting = MigSetting.OFF if settings.origins["mig"] == "default" else MigSetting(settings.mig)
    offers = build_offers(topology, OfferInputs(setting=setting, has_counters=True))
    built = build_devices(topology, node_uid=node, allocator=Allocator(settings.allocation), offers=offers)
    driver = settings.driver_name
    return [Candidate(driver, node, each.name, build_view(driver, each)) for each in built.devices]


def is_of_cluster(args: argparse.Namespace, settings: Settings) -> bool:
    """Whether the devices are those of the cluster."""
    return args.slices is None and settings.origins["nvml"] == "default"


def list_of_cluster(settings: Settings, resource: Resource[K]) -> Sequence[K]:
    """All objects of a kind.

    Raises:
        SettingsInvalid, ApiError: the cluster is not known, or does not answer.
    """
    from driver.kube.client import KubeClient  # noqa: PLC0415
    from driver.kube.credentials import read_credentials  # noqa: PLC0415

    try:
        credentials = read_credentials(str(settings.kubeconfig or ""))
    except SettingsInvalid as err:
        raise SettingsInvalid(f"{err}; without a cluster: --nvml mock:dgx-h100, or --slices FILE") from err
    client = KubeClient(credentials)
    try:
        return client.list_all(resource).items
    finally:
        client.close()


def _read_cluster(settings: Settings) -> list[Candidate]:
    from driver.kube.resources import RESOURCE_SLICES  # noqa: PLC0415

    slices = list_of_cluster(settings, RESOURCE_SLICES)
    newest = _keep_newest([((each.spec.driver, each.spec.pool.name), each.spec.pool.generation, each.spec) for each in slices])
    return [
        Candidate(spec.driver, spec.pool.name, device.name, build_view(spec.driver, device))
        for spec in newest
        for device in spec.devices
    ]


def _keep_newest(slices: Sequence[tuple[tuple[object, object], int, T]]) -> list[T]:
    """Of (pool, generation, slice), those of each pool's highest generation: an older one is what an update leaves behind."""
    highest: dict[tuple[object, object], int] = {}
    for pool, generation, _ in slices:
        highest[pool] = max(generation, highest.get(pool, generation))
    return [each for pool, generation, each in slices if generation == highest[pool]]


def parse_slices(text: str, name: str) -> Iterator[Candidate]:
    """The devices of ResourceSlices in YAML or JSON: objects, lists of them, several documents.

    Raises:
        SettingsInvalid: the text is something else.
    """
    slices = [each for document in _documents(text, name) for each in _slices_of(document, name)]
    if not slices:
        raise SettingsInvalid(f"{name} has no ResourceSlice; `gpu-dra inspect -o yaml` prints some")
    for index, each in _keep_newest([(*_pool_of(each), (index, each)) for index, each in enumerate(slices)]):
        yield from _devices_of(each, f"{name}: slice {index + 1}")


def read_objects(text: str, name: str) -> list[Mapping[str, Any]]:
    """All objects of a file in YAML or JSON, of any kind.

    Raises:
        SettingsInvalid: the text is something else.
    """
    items: list[Any] = []
    for document in _documents(text, name):
        is_list = isinstance(document, Mapping) and isinstance(document.get("items"), list)
        items += document["items"] if is_list else [document]
    if not all(isinstance(item, Mapping) for item in items):
        raise SettingsInvalid(f"{name} has something that is no Kubernetes object")
    return items


def _documents(text: str, name: str) -> list[Any]:
    import yaml  # noqa: PLC0415

    try:
        return [document for document in yaml.load_all(text, Loader=_loader(yaml)) if document is not None]
    except (yaml.YAMLError, RecursionError) as err:
        raise SettingsInvalid(f"{name} is neither YAML nor JSON: {err}") from err


def _pool_of(item: Mapping[str, Any]) -> tuple[tuple[object, object], int]:
    """The pool of a slice and its generation, as far as it says them; whether it is a slice at all is looked at later."""
    pool = item["spec"].get("pool")
    known = pool if isinstance(pool, Mapping) else {}
    generation = known.get("generation")
    return (str(item["spec"].get("driver")), str(known.get("name"))), generation if isinstance(generation, int) else 0


def _loader(yaml: Any) -> Any:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _slices_of(document: Any, name: str) -> Iterator[Mapping[str, Any]]:
    if isinstance(document, list):
        items = document
    elif isinstance(document, Mapping) and isinstance(document.get("items"), list):
        items = document["items"]
    else:
        items = [document]
    for item in items:
        if not isinstance(item, Mapping) or not isinstance(item.get("spec"), Mapping):
            raise SettingsInvalid(f"{name} has something that is no ResourceSlice: {str(item)[:60]!r}")
        if item.get("kind", "ResourceSlice") == "ResourceSlice":
            yield item


def _devices_of(item: Mapping[str, Any], where: str) -> Iterator[Candidate]:
    spec = item["spec"]
    driver, pool = spec.get("driver"), spec.get("pool")
    if not isinstance(driver, str) or not isinstance(pool, Mapping):
        raise SettingsInvalid(f"{where} has no spec.driver or no spec.pool; `gpu-dra inspect -o yaml` prints whole ones")
    devices = spec.get("devices") or ()
    if not isinstance(devices, Sequence) or isinstance(devices, str):
        raise SettingsInvalid(f"{where}: spec.devices is no list")
    for device in devices:
        if not isinstance(device, Mapping) or not isinstance(device.get("name"), str):
            raise SettingsInvalid(f"{where} has a device without a name")
        yield Candidate(driver, str(pool.get("name", "")), device["name"], view_of_device(driver, device, where))


def view_of_device(driver: str, device: Mapping[str, Any], where: str) -> DeviceView:
    """A device in the API's own words as selectors see it.

    Raises:
        SettingsInvalid: it is no device.
    """
    name = device.get("name")
    basic = device.get("basic")  # v1beta1 has all else of a device there
    said = basic if isinstance(basic, Mapping) else device
    attributes, capacity = said.get("attributes") or {}, said.get("capacity") or {}
    for part, kind in ((attributes, _AttributeValue), (capacity, _CapacityValue)):
        if not isinstance(part, Mapping) or not all(
            isinstance(key, str) and isinstance(each, Mapping) for key, each in part.items()
        ):
            raise SettingsInvalid(f"{where}: device {name!r} has attributes or capacity that are no map of values")
        _check_types(part, kind, f"{where}: device {name!r}")
    amounts = {key: str(each["value"]) for key, each in capacity.items()}
    return build_view_of_values(driver, attributes, amounts, allows_multiple=bool(said.get("allowMultipleAllocations")))


def _check_types(part: Mapping[str, Any], kind: type[msgspec.Struct], where: str) -> None:
    for key, value in part.items():
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as err:
            raise SettingsInvalid(f"{where}: {key}: {err}; {_QUOTES}") from err
