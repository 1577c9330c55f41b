"""``gpu-dra match``: which devices a selector takes, and which of its terms says no to the others."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from driver.cli.parser import Commands
from driver.config.load import add_flags, load
from driver.errors import SettingsInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.api.claim_spec_v1 import DeviceClassSpec
    from driver.cel import Features, Selector
    from driver.cli.match_sources import Candidate
    from driver.config.settings import Settings

_SETTINGS = ("nvml", "nvml_library", "sys_root", "driver_root", "mig", "node_name", "driver_name", "allocation", "kubeconfig")
FORMAT = "gpu-dra.io/match/v1"
CLAIM_FORMAT = "gpu-dra.io/match-claim/v1"
EXIT_FAILS_ON_A_DEVICE = 1

_DESCRIPTION = """\
Try a selector before a pod waits for it: which devices it takes, and for each of
the others which term of a top-level && says no or fails. The selector is compiled
and evaluated as kube-apiserver and kube-scheduler of Kubernetes 1.37 do it, with
the same refusals and the same cost limits. Nothing is changed anywhere."""

_EPILOG = """\
where the devices come from:
  --nvml mock:NAME   a mock machine (or --nvml real: this one), as the driver publishes it;
                     of its MIG devices those that --mig says, none where it is not given
  --slices FILE      ResourceSlices in YAML or JSON: `kubectl get resourceslices -o yaml`,
                     or `gpu-dra inspect -o yaml`
  otherwise          all ResourceSlices of the cluster of --kubeconfig, of any driver

A selector that fails on one device makes kube-scheduler give up the whole pod.
Safe forms where not every device has the attribute or capacity:
  device.attributes["resource.kubernetes.io"].?numaNode.orValue(-1) == 0
  has(device.capacity["gpu.nvidia.com"].memory) && ...

--claim tries the requests of claims: of each, how many devices match, and which term
of which selector says no, the class's first. A device that said no once is asked no
further. Constraints, taints, capacities and what is free are not looked at: that is
kubectl gpu explain.

--cases takes a file of JSON lines {"id", "expr", "driver", "device", "list", "cons"} and
prints a line {"id", "result", "message"} for each; the result is true, false,
"compile_error" or "evaluation_error".

examples:
  gpu-dra match 'device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA H100")' \\
      --nvml mock:dgx-h100
  gpu-dra match 'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40Gi"))' \\
      --slices slices.yaml -o json
  gpu-dra match --cases selectors.jsonl -o json
  gpu-dra match --claim claim.yaml --nvml mock:dgx-h100

gpu-dra controller asks a selector no more once it was too slow on the driver's own
devices (docs/selectors.md); where it would be, that is said, with the cost.

exit codes: 0 answered; 1 the selector fails on a device, or is too slow for the
controller, or the cluster or the GPUs cannot be read; 2 the selector does not compile
or the API server would refuse it, or the command line is wrong: also a file that
cannot be read.
Next: docs/selectors.md has the language, docs/attributes.md what our devices have."""


def add_parser(commands: Commands) -> None:
    """The command's flags and help."""
    parser = commands.add_parser(
        "match", help="try a selector: which devices it takes, and why not the others", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument(
        "selector", metavar="EXPR", nargs="?", help="a CEL selector as in a DeviceClass or a claim; - reads it from stdin"
    )
    parser.add_argument("--slices", metavar="FILE", help="take the devices of these ResourceSlices (YAML or JSON; - is stdin)")
    parser.add_argument("--claim", metavar="FILE", help="try each request of the claims and templates of a file (- is stdin)")
    parser.add_argument(
        "--classes",
        metavar="FILE",
        help="the DeviceClasses of --claim (default: the cluster's; without one gpu.nvidia.com and mig.nvidia.com)",
    )
    parser.add_argument("--cases", metavar="FILE", help="answer each case of a file instead (JSON lines; - is stdin)")
    parser.add_argument(
        "--list-attributes", action="store_true", help="the cluster has DRAListTypeAttributes on (default: as Kubernetes, off)"
    )
    parser.add_argument(
        "--no-consumable-capacity",
        action="store_true",
        help="the cluster has DRAConsumableCapacity off (default: as Kubernetes, on)",
    )
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="form of the output (default: table)"
    )
    add_flags(parser, _SETTINGS)


def run(args: argparse.Namespace) -> int:
    """Compile the selector, evaluate it on the devices, and print the answers.

    Raises:
        SettingsInvalid: the command line or a file is wrong, or the selector does not compile.
        NvmlError, ApiError: the devices cannot be read.
    """
    from driver.cel import Features  # noqa: PLC0415  (the engine is not needed for --help)
    from driver.cli.match_sources import read_candidates, read_text  # noqa: PLC0415

    features = Features(list_attributes=args.list_attributes, consumable_capacity=not args.no_consumable_capacity)
    if args.classes is not None and args.claim is None:
        raise SettingsInvalid("--classes are those of --claim FILE; give it too")
    if args.claim is not None:
        if args.selector is not None or args.cases is not None:
            raise SettingsInvalid("--claim brings its own selectors; leave EXPR and --cases away")
        return _run_claim(args, features)
    if args.cases is not None:
        from driver.cli.match_cases import answer_cases  # noqa: PLC0415

        if args.selector is not None or args.slices is not None:
            raise SettingsInvalid("--cases brings its own selectors and devices; leave EXPR and --slices away")
        answer_cases(read_text(args.cases), sys.stdout)
        return 0
    if args.selector is None:
        raise SettingsInvalid("match needs a selector, --claim FILE or --cases FILE; `gpu-dra match --help` has examples")
    source = read_text("-") if args.selector == "-" else args.selector
    selector = _compile(source, features)
    return _show(selector, read_candidates(args), args.output, load(args, os.environ).driver_name)


def _run_claim(args: argparse.Namespace, features: Features) -> int:
    from driver.cli.match_claims import build_found, build_lines, is_sound, list_asked, parse_claims  # noqa: PLC0415
    from driver.cli.match_sources import read_candidates, read_text  # noqa: PLC0415

    settings = load(args, os.environ)
    asks = parse_claims(read_text(args.claim), args.claim)
    asked = list_asked(asks, _read_classes(args, settings), settings.driver_name)
    compiled = [[_compile(source, features) for source in each.way.selectors] for each in asked]
    candidates = read_candidates(args)
    found = [
        build_found(each, selectors, candidates, settings.driver_name) for each, selectors in zip(asked, compiled, strict=True)
    ]
    if args.output == "json":
        _print_json({"format": CLAIM_FORMAT, "requests": found})
    else:
        from rich.text import Text  # noqa: PLC0415

        from driver.cli.tables import open_console  # noqa: PLC0415

        for line in (line for each in found for line in build_lines(each)):
            open_console().print(Text(line))
    return 0 if all(is_sound(each) for each in found) else EXIT_FAILS_ON_A_DEVICE


def _read_classes(args: argparse.Namespace, settings: Settings) -> Mapping[str, DeviceClassSpec]:
    from driver.cli.match_claims import decode_class, known_classes, parse_classes  # noqa: PLC0415
    from driver.cli.match_sources import is_of_cluster, list_of_cluster, read_text  # noqa: PLC0415

    if args.classes is not None:
        return parse_classes(read_text(args.classes), args.classes)
    if not is_of_cluster(args, settings):
        return known_classes()
    from driver.controller.objects.model import CLASSES  # noqa: PLC0415

    return {
        each.metadata.name: decode_class(bytes(each.spec), each.metadata.name) for each in list_of_cluster(settings, CLASSES)
    }


def _compile(source: str, features: Features) -> Selector:
    from driver.cel import SelectorError, SelectorRefused, check_admission, compile_selector, find_error_hint  # noqa: PLC0415

    try:
        selector = compile_selector(source, features=features)
        check_admission(selector)
    except SelectorError as err:
        hint = find_error_hint(err)
        raise SettingsInvalid(
            f"the selector does not compile; Kubernetes refuses it:\n{err}" + (f"\n{hint}" if hint else "")
        ) from err
    except SelectorRefused as err:
        raise SettingsInvalid(f"the API server refuses this selector: {err}") from err
    return selector


def _show(selector: Selector, candidates: list[Candidate], form: str, driver: str) -> int:
    from driver.cli.match_answers import build_answers, build_tables  # noqa: PLC0415
    from driver.cli.match_cost import count_cost  # noqa: PLC0415

    answers = build_answers(selector, candidates)
    cost = count_cost(selector, [candidate for candidate in candidates if candidate.driver == driver])
    if form == "json":
        _print_json(
            {
                "format": FORMAT,
                "selector": selector.source,
                "maxCost": selector.max_cost,
                "controllerCost": None if cost is None else {"units": cost.units, "evaluations": cost.evaluations},
                "controllerRefusal": "" if cost is None else cost.refusal,
                "devices": answers,
            }
        )
    else:
        from driver.cli.tables import open_console  # noqa: PLC0415

        open_console().print(build_tables(selector, answers, cost))
    is_refused = cost is not None and bool(cost.refusal)
    return EXIT_FAILS_ON_A_DEVICE if is_refused or any(answer["result"] == "evaluation_error" for answer in answers) else 0


def _print_json(found: object) -> None:
    from driver.cli.printable import escape_json  # noqa: PLC0415

    print(escape_json(json.dumps(found, indent=2, ensure_ascii=False)))
