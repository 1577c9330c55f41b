"""``kubectl gpu fragmentation``: how the free GPUs lie, what fits now, and what stands in the way of more."""

from __future__ import annotations

import argparse

from driver.cli.gpu.flags import add_common_flags, read_session, show
from driver.cli.parser import Commands

_DESCRIPTION = """\
How the free GPUs of the cluster lie: sets by size, for each node and for the whole
fleet; the largest request that fits now, by what its GPUs must have in common; and
the pods that stand in the way of the next larger one. Nothing is changed."""

_EPILOG = """\
A set counts as free where its GPUs are linked as well as any set of that size of the
machine can be. 2/5 is: two sets are free, and five there could be if the free GPUs
stood together.

scopes, as in a TopologyPolicy that is required:
  nvlink   every hop of the set's best ring is NVLink
  numa     one NUMA node
  pcie     one PCIe root
  node     one node

In the way are, on the nodes where that is least, the fewest claims that have to end.
Devices of the controller's and of kube-scheduler's are counted apart: a claim gets
them of one of the two.

examples:
  kubectl gpu fragmentation
  kubectl gpu fragmentation --context prod --all-nodes
  kubectl gpu fragmentation -o json | jq '.largest[] | {allocator, scope, size}'

exit codes: 0 answered; 1 the cluster cannot be read; 2 the command line or the
kubeconfig is wrong.
Next: kubectl gpu explain, docs/explain.md, gpu-dra simulate."""


def add_parser(commands: Commands) -> None:
    """The command's flags and help."""
    parser = commands.add_parser(
        "fragmentation",
        help="how the free GPUs lie, what fits now, and what is in the way",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add_common_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Read the cluster and print what is free.

    Raises:
        SettingsInvalid, ApiError: the cluster cannot be read.
    """
    from driver.cli.gpu.fragment_tables import build_fragmentation_tables  # noqa: PLC0415  (not needed for --help)
    from driver.cli.gpu.fragments import build_fragmentation  # noqa: PLC0415

    with read_session(args) as session:
        view = build_fragmentation(session.reading.cluster, session.reading.notes)
    show(view, args, lambda width: build_fragmentation_tables(view, width, session.now_s, is_full=args.all_nodes))
    return 0
