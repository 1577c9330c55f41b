"""The demo step by step: what is done, what came of it, and what a person should see in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from driver.api.resource_v1 import ResourceSlice
from driver.claims.model import ClaimRef
from driver.cli.backend import initialized
from driver.cli.demo.container import build_container_view
from driver.cli.demo.kubelet import Answer, DemoFailed
from driver.cli.demo.scheduler import Ask, build_claim, choose_ask, choose_devices
from driver.cli.demo.world import World
from driver.topology.build import build_topology

_LONG = 50

Kind = Literal["text", "code", "good", "bad", "aside"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One step: lines for people, facts for programs."""

    name: str
    title: str
    lines: tuple[tuple[Kind, str], ...]
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Told):
    """A step that has been done, and how long that took."""

    number: int
    took_ms: float


@dataclass(kw_only=True)
class _Plot:
    """What later steps know of earlier ones."""

    slices: tuple[ResourceSlice, ...] = ()
    ask: Ask = field(default_factory=lambda: Ask(name="training", count=1, product=""))
    devices: tuple[str, ...] = ()
    training: ClaimRef | None = None
    answer: Answer | None = None
    held: list[ClaimRef] = field(default_factory=list)


def tell(world: World, machine: str) -> Iterator[Step]:
    """The steps, each done when it is asked for.

    Raises:
        DemoFailed: a step did not come out as it must.
    """
    plot = _Plot()
    acts: tuple[Callable[[World, _Plot], Told], ...] = (
        lambda world, _: _read_machine(world, machine),
        _start,
        _publish,
        _claim,
        _allocate,
        _prepare,
        _run_container,
        _refuse,
        _restart,
        _unprepare,
    )
    for number, act in enumerate(acts, start=1):
        begun = time.monotonic()
        told = act(world, plot)
        took_ms = round((time.monotonic() - begun) * 1000, 1)
        yield Step(number=number, took_ms=took_ms, name=told.name, title=told.title, lines=told.lines, facts=told.facts)


def _read_machine(world: World, machine: str) -> Told:
    with initialized(world.backend) as backend:
        topology = build_topology(backend.read())
    products = [gpu.reading.product_name for gpu in topology.gpus]
    counted = ", ".join(f"{products.count(each)} x {each}" for each in dict.fromkeys(products)) or "no GPU that answers"
    islands = len({gpu.island for gpu in topology.gpus})
    is_linked = islands < len(topology.gpus)
    linked = f"{islands} NVLink island{'' if islands == 1 else 's'}" if is_linked else "no NVLink between GPUs"
    lines: list[tuple[Kind, str]] = [
        ("text", f"{counted}; driver {topology.driver_version}; {linked}"),
        ("aside", f"the links in full: gpu-dra inspect --nvml mock:{machine}"),
    ]
    facts = {"machine": machine, "gpus": products, "driverVersion": topology.driver_version, "islands": islands}
    return Told(name="machine", title=f"A node with GPUs: the mock machine {machine}", lines=tuple(lines), facts=facts)


def _start(world: World, _: _Plot) -> Told:
    registered = world.start_plugin()
    lines: list[tuple[Kind, str]] = [
        ("text", f"{registered.name} at {registered.endpoint}"),
        ("text", f"speaks {', '.join(registered.versions)}"),
    ]
    facts = {"driver": registered.name, "endpoint": registered.endpoint, "versions": list(registered.versions)}
    return Told(name="register", title="The plugin starts and registers with the kubelet", lines=tuple(lines), facts=facts)


def _publish(world: World, plot: _Plot) -> Told:
    plot.slices = world.wait_slices()
    plot.ask = choose_ask(plot.slices)
    devices = [device for each in plot.slices for device in each.spec.devices]
    lines: list[tuple[Kind, str]] = [
        ("text", f"ResourceSlice {each.metadata.name}: {len(each.spec.devices)} device{'s' * (len(each.spec.devices) != 1)}")
        for each in plot.slices
    ]
    shown = ("productName", "nvlinkIsland", "nvlinkQuad", "nvlinkPair")
    about = [(name, devices[0].attributes[name].string) for name in shown if name in devices[0].attributes]
    lines.append(("code", "\n".join([devices[0].name, *(f"  {name:<13} {value}" for name, value in about)])))
    facts = {"slices": [each.metadata.name for each in plot.slices], "devices": [device.name for device in devices]}
    return Told(name="publish", title="It publishes what the node has", lines=tuple(lines), facts=facts)


def _claim(world: World, plot: _Plot) -> Told:
    plot.training = world.create_claim(plot.ask)
    claim = build_claim(plot.ask)
    what = f"{plot.ask.count} GPU{'' if plot.ask.count == 1 else 's'}"
    where = f" with one {plot.ask.match_attribute}" if plot.ask.match_attribute else ""
    text = _yaml(claim["spec"]["devices"])
    facts = {"claim": claim, "uid": plot.training.uid}
    return Told(name="claim", title=f"Somebody asks for {what}{where}", lines=(("code", text),), facts=facts)


def _allocate(world: World, plot: _Plot) -> Told:
    plot.devices = _choose(plot, plot.ask)
    world.allocate(_training(plot), plot.devices)
    lines: tuple[tuple[Kind, str], ...] = (
        ("text", ", ".join(plot.devices)),
        ("aside", "a stand-in with kube-scheduler's first fit did this; on a cluster kube-scheduler does it itself"),
    )
    facts = {"devices": list(plot.devices)}
    return Told(name="allocate", title="The scheduler allocates: status.allocation names the devices", lines=lines, facts=facts)


def _prepare(world: World, plot: _Plot) -> Told:
    training = _training(plot)
    plot.answer = world.kubelet.prepare([training])[training.uid]
    if plot.answer.error:
        raise DemoFailed(f"preparing {training}: {plot.answer.error}")
    plot.held.append(training)
    ids = _ids(plot.answer)
    lines: tuple[tuple[Kind, str], ...] = tuple(("code", _short(each, training.uid)) for each in ids)
    title = "The kubelet asks to prepare the claim, and is told CDI devices"
    return Told(name="prepare", title=title, lines=lines, facts={"cdiDevices": ids})


def _run_container(world: World, plot: _Plot) -> Told:
    view = build_container_view(world.read_cdi(), _ids(plot.answer))
    if not view.files:
        raise DemoFailed(f"preparing {_training(plot)} left no CDI file in {world.cdi_root}")
    lines: list[tuple[Kind, str]] = [("code", f"env     {each}") for each in view.env]
    lines += [("code", f"device  {each}") for each in view.device_nodes]
    library = next((each for each in view.mounts if each.endswith("/libcuda.so.1")), "")
    lines.append(("code", f"mounts  {len(view.mounts)} files" + (f", such as {library}" if library else "")))
    facts = {
        "cdiFiles": list(view.files),
        "env": list(view.env),
        "deviceNodes": list(view.device_nodes),
        "mounts": list(view.mounts),
    }
    return Told(
        name="container", title="The container runtime reads the CDI files: the container gets", lines=tuple(lines), facts=facts
    )


def _refuse(world: World, plot: _Plot) -> Told:
    """A claim for a held device and a good one in one call: each has its own answer."""
    thief = world.create_claim(Ask(name="second-holder", count=1, product=plot.ask.product))
    world.allocate(thief, plot.devices[:1])
    refs = [thief]
    free = choose_devices(plot.slices, Ask(name="inference", count=1, product=plot.ask.product), frozenset(plot.devices))
    if free is not None:
        good = world.create_claim(Ask(name="inference", count=1, product=plot.ask.product))
        world.allocate(good, free)
        refs.append(good)
        plot.held.append(good)
    answers = world.kubelet.prepare(refs)
    if not answers[thief.uid].error or any(answers[ref.uid].error for ref in refs[1:]):
        raise DemoFailed(f"one claim must be refused and the other not, but the answers are {answers}")
    lines: list[tuple[Kind, str]] = [("bad", answers[thief.uid].error)]
    lines += [("good", f"{ref.name}: prepared, {', '.join(free or ())}") for ref in refs[1:]]
    facts = {ref.name: {"error": answers[ref.uid].error} for ref in refs}
    title = "Another claim was given a GPU that is held: it alone is refused"
    return Told(name="refuse", title=title, lines=tuple(lines), facts=facts)


def _restart(world: World, plot: _Plot) -> Told:
    world.stop_plugin()
    world.start_plugin()
    training = _training(plot)
    again = world.prepare_until_ready(training)
    if again != plot.answer:
        raise DemoFailed(f"after a restart the answer must be the same, but it is {again} instead of {plot.answer}")
    lines: tuple[tuple[Kind, str], ...] = (
        ("good", f"{training.name}: asked again, the same answer; {len(world.records())} claims are on record"),
    )
    title = "The plugin restarts: nothing is lost, nothing is given twice"
    return Told(name="restart", title=title, lines=lines, facts={"sameAnswer": True, "records": len(world.records())})


def _unprepare(world: World, plot: _Plot) -> Told:
    errors = world.kubelet.unprepare(plot.held)
    left = [*(file.name for file in world.read_cdi()), *(path.name for path in world.records())]
    if any(errors.values()) or left:
        raise DemoFailed(f"unprepare must leave nothing, but it says {errors} and leaves {left}")
    lines: tuple[tuple[Kind, str], ...] = (
        ("good", f"{', '.join(ref.name for ref in plot.held)}: unprepared; no CDI file and no record is left"),
    )
    return Told(name="unprepare", title="The pods end, and the kubelet gives the claims back", lines=lines, facts={"left": 0})


def _yaml(value: object) -> str:
    """YAML whose long texts stand on a line of their own, so that the page holds them."""

    class Dumper(yaml.SafeDumper):
        """With a style for long texts."""

    def fold(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=">" if len(text) > _LONG else None)

    Dumper.add_representer(str, fold)
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, width=200).rstrip()


def _choose(plot: _Plot, ask: Ask) -> tuple[str, ...]:
    devices = choose_devices(plot.slices, ask, frozenset())
    if devices is None:
        raise DemoFailed(f"this machine has no {ask.count} devices for the demo; another one: gpu-dra demo --machine dgx-h100")
    return devices


def _training(plot: _Plot) -> ClaimRef:
    if plot.training is None:
        raise DemoFailed("there is no claim yet")
    return plot.training


def _ids(answer: Answer | None) -> list[str]:
    return [] if answer is None else [each for ids in answer.cdi_ids.values() for each in ids]


def _short(cdi_id: str, uid: str) -> str:
    """A CDI id that fits the page."""
    return cdi_id.replace(uid, f"{uid[:8]}...")
