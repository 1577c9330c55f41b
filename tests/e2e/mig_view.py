"""The MIG of a mock machine, as its own file says it, and what claims should have come to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tests.e2e import objects
from tests.e2e.kube import Json
from tests.e2e.plugin import PluginFolders
from tests.e2e.stage import Stage, expect

_NAME = re.compile(r"(gpu-[0-9a-f-]+?)-mig-.*-p(\d+)-(\d+)")

MIG_CLASS = "mig.nvidia.com"


@dataclass(frozen=True, slots=True, order=True)
class Instance:
    """A GPU instance: the GPU's UUID, the profile's number, the first memory slice."""

    gpu: str
    profile: int
    start: int
    compute_instances: int = 1


def read_instances(folders: PluginFolders) -> list[Instance]:
    """What is on the mock machine now."""
    path = folders.mock_state / "mig.json"
    if not path.exists():
        return []
    gpus = json.loads(path.read_bytes())["gpus"]
    return sorted(
        Instance(uuid, each["profile_id"], each["start"], len(each["compute"]))
        for uuid, state in gpus.items()
        for each in state["instances"]
    )


def read_instance_id(folders: PluginFolders, device: Json) -> int:
    """The GPU instance's number, of a device that is made."""
    wanted = parse_instance(device)
    for uuid, state in json.loads((folders.mock_state / "mig.json").read_bytes())["gpus"].items():
        for each in state["instances"]:
            if wanted is not None and (uuid, each["profile_id"], each["start"]) == (wanted.gpu, wanted.profile, wanted.start):
                return int(each["id"])
    raise LookupError(f"{device['name']} is not made")


def parse_instance(device: Json) -> Instance | None:
    """The instance that a published device stands for; None for a whole GPU."""
    match = _NAME.fullmatch(device["name"])
    if match is None:
        return None
    return Instance(str(objects.attribute(device, "parentUUID")), int(match[2]), int(match[3]))


def parse_place(name: str) -> tuple[int, int] | None:
    """The profile's number and the first memory slice in a device's name; None for a whole GPU."""
    match = _NAME.fullmatch(name)
    return None if match is None else (int(match[2]), int(match[3]))


def request(profile: str, name: str = "gpus", *, count: int = 1) -> Json:
    """A request for MIG devices of a profile."""
    selector = f'device.attributes["gpu.nvidia.com"].profile == "{profile}"'
    return objects.exactly(name, count=count, selector=selector, deviceClassName=MIG_CLASS)


def expect_equal(stage: Stage, pods: Iterable[str], devices: dict[str, Json]) -> None:
    """The mock's instances are those of the claims that these running pods use, each whole, and nothing else."""
    names = [name for pod in pods for name in objects.allocated_devices(stage.read_claim_of(pod))]
    wanted = sorted(each for each in (parse_instance(devices[name]) for name in names) if each is not None)
    found = read_instances(stage.folders)
    expect(found == wanted, f"the claims of the running pods come to {wanted}, and the machine has {found}")
