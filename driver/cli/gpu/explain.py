"""``kubectl gpu explain``: why a pod or a claim waits, node by node, or what it has."""

from __future__ import annotations

import argparse

from driver.cli.gpu.flags import add_common_flags, add_namespace_flag, read_session, show
from driver.cli.parser import Commands

_DESCRIPTION = """\
Why a pod or a claim waits for GPUs, node by node, or what it has. The cluster is
read once, and judged as the controller judges it: devices, links, taints, the
pod's own constraints. Nothing is changed."""

_EPILOG = """\
NAME is a pod's or, where there is no pod of that name, a claim's.

of each node it says:
  fits               devices are free and the pod fits
  held               the same, but a larger claim starves, and has the node next
  pod does not fit   devices are free, but the pod's selectors, tolerations, volumes,
                     ports or requests keep it away
  too few devices    how many are free, and the largest set that has in common what
                     it must; then who has the others, where the fewest are in the way
  no such devices    no fenced device of the node is what the claim asks for
  not fenced         its devices are kube-scheduler's, not the controller's
  draining           its devices go from one of the two to the other
  incomplete         its ResourceSlices are being written, or wrong

What the controller has learned from kube-scheduler, and which node it holds for a
claim that starves, is in its events, which are shown last: where it has held for a
while, that may be another node than the table says.

examples:
  kubectl gpu explain train-0 -n team          a pod that waits
  kubectl gpu explain claim/train-0-gpus       a claim
  kubectl gpu explain train-0 -o json | jq -r '.nodes[] | [.node, .verdict] | @tsv'

exit codes: 0 answered; 1 there is no such pod or claim, or the cluster cannot be
read; 2 the command line or the kubeconfig is wrong.
Next: kubectl gpu fragmentation, docs/explain.md, docs/fence.md."""


def add_parser(commands: Commands) -> None:
    """The command's flags and help."""
    parser = commands.add_parser(
        "explain", help="why a pod or a claim waits, node by node, or what it has", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument("name", metavar="NAME", help="a pod or a claim: NAME, pod/NAME or claim/NAME")
    add_namespace_flag(parser, "its namespace")
    parser.add_argument(
        "--hold",
        choices=("on", "off"),
        default="on",
        help="whether the controller holds a node for a large claim that starves, as its own --hold (default: on)",
    )
    add_common_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Read the cluster and print the explanation.

    Raises:
        NotFound: there is no such pod or claim.
        SettingsInvalid, ApiError: the cluster cannot be read.
    """
    from driver.cli.gpu.explain_tables import build_explain_tables  # noqa: PLC0415  (not needed for --help)
    from driver.cli.gpu.explanation import build_explanation, find_subject, list_uids  # noqa: PLC0415
    from driver.cli.gpu.reading import hold_nodes, read_events  # noqa: PLC0415
    from driver.kube.credentials import read_namespace  # noqa: PLC0415

    namespace = args.namespace or read_namespace(args.kubeconfig, args.context)
    with read_session(args) as session:
        subject = find_subject(session.reading, namespace, args.name)
        events = read_events(session.client, namespace, list_uids(session.reading, subject))
    reading = hold_nodes(session.reading, session.now_s) if args.hold == "on" else session.reading
    view = build_explanation(reading, subject, events, session.now_s)
    show(view, args, lambda width: build_explain_tables(view, width, session.now_s, is_full=args.all_nodes))
    return 0
