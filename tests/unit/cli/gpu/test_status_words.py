"""What a name on the command line means to ``kubectl gpu status``, and what taints are called."""

from __future__ import annotations

import pytest

from driver.api.resource_v1 import Taint
from driver.cli.gpu.status_views import SubjectView
from driver.cli.gpu.troubles import SLICE, describe_taint
from driver.errors import NotFound
from tests.unit.cli.gpu.fleets import XID, status
from tests.unit.cli.gpu.stories import islands
from tests.unit.controller.world import DRIVER, NAMESPACE


@pytest.mark.parametrize(
    ("named", "found"),
    [
        pytest.param("node-a", ("node", "", "node-a"), id="a node first"),
        pytest.param("node/node-a", ("node", "", "node-a"), id="a node by kind"),
        pytest.param("node-a-one", ("pod", NAMESPACE, "node-a-one"), id="then a pod"),
        pytest.param("claim/node-a-one", ("claim", NAMESPACE, "node-a-one"), id="a claim by kind"),
        pytest.param("resourceclaims/node-a-one", ("claim", NAMESPACE, "node-a-one"), id="as kubectl calls it"),
    ],
)
def test_what_a_name_means(named: str, found: tuple[str, str, str]) -> None:
    kind, namespace, name = found
    assert status(islands("node-a"), named).subject == SubjectView(kind=kind, namespace=namespace, name=name)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        pytest.param(
            "node-c",
            "there is no node, pod or claim node-c in namespace team; did you mean node-a?",
            id="nearly a node",
        ),
        pytest.param("node/zzz", "there is no node with devices zzz; kubectl gpu status shows all nodes", id="no such node"),
        pytest.param(
            "node/bare",
            "there is no node with devices bare; the node is there, but has no devices of gpu.nvidia.com: does its kubelet "
            "plugin run?",
            id="a node without devices",
        ),
        pytest.param("pod/node-a-on", "there is no pod node-a-on in namespace team; did you mean node-a-one?", id="a pod"),
        pytest.param("claim/zzz", "there is no claim zzz in namespace team; kubectl gpu status shows all nodes", id="a claim"),
        pytest.param("deployment/x", "'deployment' is no kind that has devices: node/x, pod/x or claim/x", id="another kind"),
    ],
)
def test_a_name_that_is_none_is_answered_with_what_there_is(named: str, said: str) -> None:
    world = islands("node-a")
    world.node("bare")
    with pytest.raises(NotFound) as caught:
        status(world, named)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("mark", "source", "text"),
    [
        pytest.param(
            XID,
            SLICE,
            "XID 79: the GPU fell off the bus. Drain the node and reboot it; if the GPU is lost again, have the card and its "
            "slot tested.",
            id="an XID",
        ),
        pytest.param(
            Taint(key=f"{DRIVER}/gpu-lost", effect="NoSchedule"),
            SLICE,
            "the GPU does not answer any more, or has fallen off the bus; reboot the node",
            id="lost",
        ),
        pytest.param(
            Taint(key=f"{DRIVER}/nvlink", value="2-down", effect="NoSchedule"), SLICE, "NVLinks are down (2-down)", id="links"
        ),
        pytest.param(
            Taint(key=f"{DRIVER}/mig-leftover", effect="NoSchedule"),
            SLICE,
            "a MIG instance whose claim is gone could not be removed yet",
            id="a MIG instance that is left",
        ),
        pytest.param(
            Taint(key="example.com/x", value="y", effect="NoSchedule"),
            SLICE,
            "tainted with example.com/x=y by the node's driver",
            id="nobody's word",
        ),
        pytest.param(XID, "rule-1", "tainted with gpu.nvidia.com/xid=79 by DeviceTaintRule rule-1", id="a rule's, of our key"),
    ],
)
def test_taints_in_words(mark: Taint, source: str, text: str) -> None:
    assert describe_taint(mark, DRIVER, source) == text
