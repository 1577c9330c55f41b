"""``kubectl gpu status``: the fleet, a node, or a pod's or claim's devices, with health and who has what."""

from __future__ import annotations

import argparse

from driver.cli.gpu.flags import add_common_flags, add_namespace_flag, open_client, show, split_schedulers
from driver.cli.parser import Commands

_DESCRIPTION = """\
The GPUs of the cluster in one view: products, nodes, what is free, held and sick,
islands, MIG devices and shares, what is wrong and since when, what waits. Of a node:
each GPU with its island, pair, health, and who has it. Of a pod or a claim: its
devices and how they are. The cluster is read once; nothing is changed. It needs no
controller."""

_EPILOG = """\
NAME is a node's; where there is no node of that name a pod's, then a claim's.

  fit    without a taint that keeps claims away, whoever has it
  held   a claim has it, wholly or in part
  sick   tainted by the node's driver or by a DeviceTaintRule, held or not
  islands free   8: 1/2 is: of two NVLink islands of eight GPUs one is wholly free

rights: list resourceslices is needed; with list on resourceclaims, pods, nodes,
deviceclasses and devicetaintrules all is shown. What may not be listed is named, with
what is not known because of it; of claims and pods, those of --namespace are used.

examples:
  kubectl gpu status                        the fleet
  kubectl gpu status node-a                 each GPU of a node
  kubectl gpu status pod/train-0 -n team    a pod's GPUs and their health
  kubectl gpu status -o json | jq -r '.troubles[] | [.node, .gpu, .text] | @tsv'
  watch -n 5 kubectl gpu status

exit codes: 0 answered, whatever is sick; 1 there is no such node, pod or claim, or the
cluster cannot be read; 2 the command line or the kubeconfig is wrong.
Next: kubectl gpu topology, kubectl gpu explain, docs/status.md."""


def add_parser(commands: Commands) -> None:
    """The command's flags and help."""
    parser = commands.add_parser(
        "status",
        help="what there is, who has it, what is sick, what waits",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="a node, a pod or a claim: NAME, node/NAME, pod/NAME or claim/NAME"
    )
    add_namespace_flag(parser, "the pod's or claim's")
    add_common_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Read the cluster and print how it is.

    Raises:
        NotFound: there is no such node, pod or claim.
        SettingsInvalid, ApiError: the cluster cannot be read.
    """
    import time  # noqa: PLC0415  (not needed for --help)

    from driver.cli.gpu.claim_status import find_subject  # noqa: PLC0415
    from driver.cli.gpu.fleet_reading import read_fleet  # noqa: PLC0415
    from driver.cli.gpu.fleet_status import build_status  # noqa: PLC0415
    from driver.cli.gpu.status_tables import build_status_tables  # noqa: PLC0415
    from driver.kube.credentials import read_namespace  # noqa: PLC0415

    namespace = args.namespace or read_namespace(args.kubeconfig, args.context)
    with open_client(args) as client:
        reading = read_fleet(client, args.driver_name, split_schedulers(args), namespace)
    now_s = time.time()
    subject = None if args.name is None else find_subject(reading, namespace, args.name)
    view = build_status(reading, subject)
    show(view, args, lambda width: build_status_tables(view, width, now_s, is_full=args.all_nodes))
    return 0
