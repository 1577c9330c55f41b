"""What take-backs teach, and for how long."""

from __future__ import annotations

from driver.controller.books.demands import Demand
from driver.controller.deciding.lessons import LessonRule, Lessons
from driver.controller.objects.model import Pod, PodMeta
from tests.unit.controller.objects.test_ownership import claim

RULE = LessonRule(settle_s=5.0, avoid_s=100.0, avoid_max_s=300.0, refused_s=10.0, refused_max_s=35.0)


def demand(*pods: str) -> Demand:
    made = tuple(Pod(metadata=PodMeta(uid=uid)) for uid in pods)
    return Demand(key=pods[0], pods=made, claims=(claim(),), node=None, priority=0, since_s=0.0)


def test_a_node_is_left_out_for_a_pod_and_twice_as_long_the_next_time() -> None:
    lessons = Lessons(RULE)
    lessons.learn(["a"], "node-a", "not bound", 0.0)
    assert lessons.avoided(demand("a"), 99.0) == {"node-a": "not bound"}
    assert lessons.avoided(demand("a"), 100.0) == {}
    lessons.learn(["a"], "node-b", "not bound", 100.0)
    assert lessons.avoided(demand("a"), 299.0) == {"node-b": "not bound"}
    assert lessons.avoided(demand("a"), 300.0) == {}
    lessons.learn(["a"], "node-a", "again", 1000.0)
    assert lessons.avoided(demand("a"), 1299.0) == {"node-a": "again"}, "no longer than the most"
    assert lessons.avoided(demand("a"), 1300.0) == {}
    assert lessons.attempts(["a", "b"]) == 3


def test_other_pods_may_go_there() -> None:
    lessons = Lessons(RULE)
    lessons.learn(["a"], "node-a", "not bound", 0.0)
    assert lessons.avoided(demand("b"), 1.0) == {}
    assert lessons.avoided(demand("b", "a"), 1.0) == {"node-a": "not bound"}, "those that are placed together go together"


def test_a_pod_that_is_gone_or_bound_is_forgotten() -> None:
    lessons = Lessons(RULE)
    lessons.learn(["a"], "node-a", "not bound", 0.0)
    lessons.forget_pod("a")
    assert lessons.avoided(demand("a"), 1.0) == {}
    assert lessons.attempts(["a"]) == 0


def test_a_claim_rests_after_it_lost_its_allocation() -> None:
    lessons = Lessons(RULE)
    lessons.rest("uid", 10.0)
    assert lessons.is_resting(demand("a"), 14.9)
    assert not lessons.is_resting(demand("a"), 15.0)


def test_a_refused_claim_rests_longer_each_time_until_it_is_written() -> None:
    lessons = Lessons(RULE)
    waits = []
    for now_s in (0.0, 1000.0, 2000.0, 3000.0):
        lessons.note_refused("uid", now_s)
        waits.append(lessons.next_change_s(now_s))
    assert waits == [10.0, 20.0, 35.0, 35.0]
    lessons.note_written("uid")
    lessons.note_refused("uid", 4000.0)
    assert lessons.next_change_s(4000.0) == 10.0


def test_a_claim_that_is_gone_is_forgotten() -> None:
    lessons = Lessons(RULE)
    lessons.rest("uid", 0.0)
    lessons.forget_claim("uid")
    assert not lessons.is_resting(demand("a"), 1.0)


def test_the_next_change_is_the_first_that_ends() -> None:
    lessons = Lessons(RULE)
    assert lessons.next_change_s(0.0) is None
    lessons.learn(["a"], "node-a", "not bound", 0.0)
    lessons.rest("uid", 0.0)
    assert lessons.next_change_s(1.0) == 4.0
    lessons.prune(5.0)
    assert lessons.next_change_s(5.0) == 95.0
    assert lessons.next_change_s(100.0) is None
