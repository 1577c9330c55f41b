"""Which pod or claim a name means, and what is said where there is none."""

from __future__ import annotations

import pytest

from driver.cli.gpu.explanation import find_subject
from driver.errors import NotFound
from tests.unit.cli.gpu.stories import islands, read
from tests.unit.controller.world import NAMESPACE, World


def subject(world: World, named: str, namespace: str = NAMESPACE) -> str:
    found = find_subject(read(world), namespace, named)
    return f"{type(found).__name__} {found.metadata.name}"


def test_a_name_is_a_pods_first() -> None:
    world = islands("node-a")
    world.job("job")
    world.claim("data")
    assert [subject(world, name) for name in ("job", "pod/job", "po/job", "claim/job", "resourceclaims/job", "data")] == [
        "Pod job",
        "Pod job",
        "Pod job",
        "Claim job",
        "Claim job",
        "Claim data",
    ]


ABSENT = [
    (
        "nothing like it",
        "nothing",
        "team",
        "no pod and no claim nothing in namespace team; kubectl get pods,resourceclaims shows",
    ),
    ("misspelt", "jbo", "team", "no pod and no claim jbo in namespace team; did you mean job?"),
    ("elsewhere", "job", "other", "no pod and no claim job in namespace other; there is one in namespace team: -n team"),
    ("a claim by the kind of a pod", "pod/data", "team", "no pod data in namespace team"),
    ("a pod by the kind of a claim", "claim/plain", "team", "no claim plain in namespace team"),
    ("another kind", "deployment/job", "team", "deployment is no kind that has devices: pod/job or claim/job"),
]


@pytest.mark.parametrize(("name", "namespace", "text"), [case[1:] for case in ABSENT], ids=[case[0] for case in ABSENT])
def test_what_is_not_there_is_said_with_what_is_near(name: str, namespace: str, text: str) -> None:
    world = islands("node-a")
    world.job("job")
    world.claim("data")
    world.pod("plain")
    with pytest.raises(NotFound) as caught:
        subject(world, name, namespace)
    assert text in str(caught.value)
