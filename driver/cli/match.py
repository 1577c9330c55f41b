"""``gpu-dra match``: which devices a selector takes, and which of its terms says no to the others."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from driver.cli.parser import Commands
from driver.config.load import add_flags
from driver.errors import SettingsInvalid

if TYPE_CHECKING:
    from driver.cel import Features, Selector
    from driver.cli.match_sources import Candidate

_SETTINGS = ("nvml", "nvml_library", "sys_root", "driver_root", "node_name", "driver_name", "allocation", "kubeconfig")
FORMAT = "gpu-dra.io/match/v1"
EXIT_FAILS_ON_A_DEVICE = 1

_DESCRIPTION = """\
Try a selector before a pod waits for it: which devices it takes, and for each of
the others which term of a top-level && says no or fails. The selector is compiled
and evaluated as kube-apiserver and kube-scheduler of Kubernetes 1.37 do it, with
the same refusals and the same cost limits. Nothing is changed anywhere."""

_EPILOG = """\
where the devices come from:
  --nvml mock:NAME   a mock machine (or --nvml real: this one), as the driver publishes it
  --slices FILE      ResourceSlices in YAML or JSON: `kubectl get resourceslices -o yaml`,
                     or `gpu-dra inspect -o yaml`
  otherwise          all ResourceSlices of the cluster of --kubeconfig, of any driver

A selector that fails on one device makes kube-scheduler give up the whole pod.
Safe forms where not every device has the attribute or capacity:
  device.attributes["resource.kubernetes.io"].?numaNode.orValue(-1) == 0
  has(device.capacity["gpu.nvidia.com"].memory) && ...

--cases takes a file of JSON lines {"id", "expr", "driver", "device", "list", "cons"} and
prints a line {"id", "result", "message"} for each; the result is true, false,
"compile_error" or "evaluation_error".

examples:
  gpu-dra match 'device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA H100")' \\
      --nvml mock:dgx-h100
  gpu-dra match 'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40Gi"))' \\
      --slices slices.yaml -o json
  gpu-dra match --cases selectors.jsonl -o json

exit codes: 0 answered; 1 the selector fails on a device, or the devices cannot be
read; 2 the selector does not compile or the API server would refuse it, or the
command line is wrong.
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
    if args.cases is not None:
        from driver.cli.match_cases import answer_cases  # noqa: PLC0415

        if args.selector is not None or args.slices is not None:
            raise SettingsInvalid("--cases brings its own selectors and devices; leave EXPR and --slices away")
        answer_cases(read_text(args.cases), sys.stdout)
        return 0
    if args.selector is None:
        raise SettingsInvalid("match needs a selector, or --cases FILE; `gpu-dra match --help` has examples")
    source = read_text("-") if args.selector == "-" else args.selector
    return _show(_compile(source, features), read_candidates(args), args.output)


def _compile(source: str, features: Features) -> Selector:
    from driver.cel import SelectorError, SelectorRefused, check_admission, compile_selector  # noqa: PLC0415

    try:
        selector = compile_selector(source, features=features)
        check_admission(selector)
    except SelectorError as err:
        raise SettingsInvalid(f"the selector does not compile; Kubernetes refuses it:\n{err}") from err
    except SelectorRefused as err:
        raise SettingsInvalid(f"the API server refuses this selector: {err}") from err
    return selector


def _show(selector: Selector, candidates: list[Candidate], form: str) -> int:
    from driver.cli.match_answers import build_answers, build_tables  # noqa: PLC0415

    answers = build_answers(selector, candidates)
    if form == "json":
        found: dict[str, Any] = {
            "format": FORMAT,
            "selector": selector.source,
            "maxCost": selector.max_cost,
            "devices": answers,
        }
        json.dump(found, sys.stdout, indent=2, ensure_ascii=False)
        print()
    else:
        from driver.cli.tables import open_console  # noqa: PLC0415

        open_console().print(build_tables(selector, answers))
    return EXIT_FAILS_ON_A_DEVICE if any(answer["result"] == "evaluation_error" for answer in answers) else 0
