"""What all commands of ``kubectl gpu`` take, and the cluster that the flags name."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from driver.cli.parser import Parser, checked
from driver.config import values

if TYPE_CHECKING:
    from rich.console import RenderableType

    from driver.cli.gpu.reading import Reading
    from driver.cli.view import View
    from driver.kube.client import KubeClient

DRIVER_NAME = "gpu.nvidia.com"
SCHEDULER = "default-scheduler"


def add_namespace_flag(parser: Parser, what: str) -> None:
    """``--namespace``; ``what`` says whose it is."""
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        type=checked(values.parse_namespace),
        help=f"{what} (default: that of the kubeconfig's context)",
    )


def add_common_flags(parser: Parser) -> None:
    """Where the cluster is, whose devices are looked at, and the form of the output."""
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="form of the output (default: table)"
    )
    parser.add_argument(
        "--all-nodes", action="store_true", help="a row for every node, also where many say the same (JSON always has all)"
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        default="",
        help="the kubeconfig (default: $KUBECONFIG, then ~/.kube/config; in a pod its service account)",
    )
    parser.add_argument("--context", metavar="NAME", default="", help="the kubeconfig's context (default: the current one)")
    parser.add_argument(
        "--driver-name",
        metavar="NAME",
        type=checked(values.parse_driver_name),
        default=DRIVER_NAME,
        help=f"whose devices are looked at (default: {DRIVER_NAME})",
    )
    parser.add_argument(
        "--schedulers",
        metavar="NAME,...",
        type=checked(values.parse_names),
        default=SCHEDULER,
        help=f"schedulerNames of the pods that the controller serves (default: {SCHEDULER})",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A client, and what was read."""

    client: KubeClient
    reading: Reading
    now_s: float


@contextmanager
def open_client(args: argparse.Namespace) -> Iterator[KubeClient]:
    """The API of the cluster that the flags name.

    Raises:
        SettingsInvalid: the kubeconfig is wrong.
    """
    from driver.kube.client import KubeClient  # noqa: PLC0415
    from driver.kube.credentials import read_credentials  # noqa: PLC0415

    client = KubeClient(read_credentials(args.kubeconfig, args.context))
    try:
        yield client
    finally:
        client.close()


def split_schedulers(args: argparse.Namespace) -> frozenset[str]:
    """The names that ``--schedulers`` has."""
    return frozenset(args.schedulers.split(","))


@contextmanager
def read_session(args: argparse.Namespace) -> Iterator[Session]:
    """Read the cluster that the flags name.

    Raises:
        SettingsInvalid: the kubeconfig is wrong.
        ApiError: the cluster does not answer.
    """
    from driver.cli.gpu.reading import read_cluster  # noqa: PLC0415

    with open_client(args) as client:
        reading = read_cluster(client, args.driver_name, split_schedulers(args))
        yield Session(client=client, reading=reading, now_s=time.time())


def show(view: View, args: argparse.Namespace, build: Callable[[int], RenderableType]) -> None:
    """Print the view in the form that is asked for; ``build`` makes the tables for a width."""
    if args.output == "json":
        from driver.cli.view import encode_json  # noqa: PLC0415

        print(encode_json(view))
        return
    from driver.cli.tables import open_console  # noqa: PLC0415

    console = open_console()
    console.print(build(console.width))
