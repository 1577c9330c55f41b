"""What observations make of the state: troubles that come, stay and go."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.health.file import find_fault
from driver.health.model import Instance, Kind, Scope
from driver.health.observations import Observation
from driver.health.state import MAX_NUMBERS, MAX_TOLD, HealthState, Rules, build_health, reduce
from driver.health.xids import XIDS, find_xid
from driver.nvml.enums import ClocksReason, FabricState, RecoveryAction
from driver.nvml.library import Code, FabricInfo
from tests.unit.health.observed import (
    GPU,
    OTHER,
    RULES,
    after,
    at,
    devices,
    driver,
    ecc,
    kinds,
    look,
    lost,
    rows,
    xid,
)

HOT, BRAKED = ClocksReason.HW_THERMAL_SLOWDOWN, ClocksReason.HW_POWER_BRAKE_SLOWDOWN
COUNTED = [each.number for each in XIDS if not each.is_held]
HELD = [each.number for each in XIDS if each.is_held]


@pytest.mark.parametrize("number", COUNTED)
def test_what_a_reset_would_not_mend_is_counted_alone(number: int) -> None:
    state = after(xid(number), xid(number, 1))
    assert state.troubles == ()
    assert build_health(state).counts == {(GPU, number): 2}


@pytest.mark.parametrize("number", [*HELD, 999, 1])
def test_what_is_the_gpus_or_unknown_is_held_against_it(number: int) -> None:
    """B75: an unknown number with caution."""
    (trouble,) = after(xid(number)).troubles
    assert (trouble.device, trouble.kind, trouble.value, trouble.is_warning) == (GPU, Kind.XID, str(number), False)
    assert trouble.message == f"XID {number}: {find_xid(number).meaning}"
    assert trouble.since == datetime(2026, 12, 2, 5, tzinfo=UTC)


def test_an_ignored_xid_is_counted_alone() -> None:
    """B75: 48 ignored."""
    state = after(xid(48), rules=Rules(ignored_xids=frozenset({48})))
    assert (state.troubles, state.counts) == ((), {GPU: {48: 1}})


def test_a_repeated_xid_keeps_the_first_moment_and_counts() -> None:
    state = after(xid(79), xid(79, 100), xid(79, 200))
    assert [each.since for each in state.troubles] == [at(0).replace(microsecond=0)]
    assert state.counts == {GPU: {79: 3}}


def test_one_gpus_trouble_is_no_other_ones() -> None:
    assert devices(after(xid(79), look(0, device=OTHER), xid(13, device=OTHER))) == {GPU}


def test_what_concerns_an_instance_stays_that_instances() -> None:
    first, second = Instance(gpu_instance_id=1, start=0, size=2), Instance(gpu_instance_id=2, start=2, size=2)
    state = after(xid(48, instance=first), xid(48, instance=second), xid(48, instance=first))
    assert [each.instance for each in state.troubles] == [first, second]


def test_the_drivers_word_that_nothing_is_to_be_done_clears_when_it_has_settled() -> None:
    """It may still say so right after the event that it is to say otherwise about."""
    told = after(xid(48), look(1, action=RecoveryAction.NONE))
    assert kinds(told) == [(Kind.XID, "48")]
    assert kinds(after(look(19, action=RecoveryAction.NONE), state=told)) == [(Kind.XID, "48")]
    assert kinds(after(look(21, action=RecoveryAction.NONE), state=told)) == []


def test_a_clock_that_was_set_back_does_not_keep_a_gpu_out() -> None:
    """The event came at a moment that the clock reaches again in an hour; a second's correction clears nothing too soon."""
    told = after(xid(48, 3600))
    assert kinds(after(look(3599, action=RecoveryAction.NONE), state=told)) == [(Kind.XID, "48")]
    assert kinds(after(look(0, action=RecoveryAction.NONE), state=told)) == []


def test_what_is_told_after_the_clock_was_set_back_has_to_settle_too() -> None:
    told = after(xid(48, 3600), xid(95, 0))
    assert kinds(after(look(1, action=RecoveryAction.NONE), state=told)) == [(Kind.XID, "95"), (Kind.XID, "48")]
    assert kinds(after(look(21, action=RecoveryAction.NONE), state=told)) == []


def test_a_later_event_puts_the_clearing_off() -> None:
    state = after(xid(48), xid(48, 15), look(21, action=RecoveryAction.NONE))
    assert kinds(state) == [(Kind.XID, "48")]


def test_a_recovery_action_is_a_trouble_until_it_is_done() -> None:
    state = after(xid(48), look(0.5, action=RecoveryAction.GPU_RESET), look(31, action=RecoveryAction.GPU_RESET))
    assert kinds(state) == [(Kind.XID, "48"), (Kind.RECOVERY, "gpu-reset")]
    assert kinds(after(look(61, action=RecoveryAction.NONE), state=state)) == []


def test_a_recovery_action_needs_no_xid() -> None:
    """The driver's word comes before the table: a program's XID after which a reset is asked for takes the GPU out."""
    assert kinds(after(xid(13), look(1, action=RecoveryAction.GPU_RESET))) == [(Kind.RECOVERY, "gpu-reset")]


@pytest.mark.parametrize(
    ("action", "value", "scope"),
    [
        (RecoveryAction.NODE_REBOOT, "node-reboot", Scope.NODE),
        (RecoveryAction.DRAIN_P2P, "drain-p2p", Scope.GPU),
        (RecoveryAction.DRAIN_AND_RESET, "drain-and-reset", Scope.GPU),
        (RecoveryAction.RECOVER_IMEX_DOMAIN, "recover-imex-domain", Scope.NODE),
        (RecoveryAction.BUS_RESET, "bus-reset", Scope.NODE),
        (RecoveryAction.SYSTEM_REBOOT, "system-reboot", Scope.NODE),
        (41, "action-41", Scope.GPU),
    ],
    ids=str,
)
def test_each_action_has_its_word(action: int, value: str, scope: Scope) -> None:
    """One that is newer than this program has a number for a word."""
    (trouble,) = after(look(0, action=action)).troubles
    assert (trouble.value, trouble.scope, trouble.is_warning) == (value, scope, False)


def test_a_driver_without_recovery_actions_clears_nothing_by_silence() -> None:
    assert kinds(after(xid(79), look(1000), look(5000, action=None))) == [(Kind.XID, "79")]


def test_errors_that_count_from_nought_again_tell_of_a_reset() -> None:
    """It is the only sign that an older driver gives."""
    sick = after(look(0, errors=0), xid(48, 1), ecc(1), look(2, errors=3), look(40, errors=3))
    assert kinds(sick) == [(Kind.XID, "48"), (Kind.ECC, "uncorrected")]
    assert kinds(after(look(100, errors=0), state=sick)) == []


def test_errors_that_cannot_be_read_for_a_while_are_no_reset() -> None:
    sick = after(look(0, errors=3), xid(48, 1), look(2), look(3, errors=3))
    assert kinds(sick) == [(Kind.XID, "48")]


def test_another_boot_starts_with_nothing_wrong_and_the_same_one_keeps_it() -> None:
    sick = after(driver("boot-1"), xid(79), lost(1))
    assert after(driver("boot-1"), state=sick) == sick
    assert after(driver(""), state=sick) == sick  # it could not be read
    assert after(driver("boot-2"), state=sick) == HealthState(epoch="boot-2")


def test_a_trouble_of_before_the_first_known_boot_is_over() -> None:
    """What was told while the boot could not be known may be of another one; looks show what lasts."""
    assert after(xid(79), driver("boot-1")) == HealthState(epoch="boot-1")


def test_another_card_in_the_slot_has_nothing_of_the_old_ones() -> None:
    sick = after(look(0, links=((0, True),)), xid(79, 1), look(2, uuid="GPU-new", links=((0, False),)))
    assert (sick.troubles, sick.counts) == ((), {})
    assert sick.gpus[GPU].uuid == "GPU-new"


def test_a_lost_gpu_keeps_what_was_told_and_finds_back_when_it_answers() -> None:
    state = after(look(0, links=((0, True),)), xid(79, 1), lost(2), lost(3))
    assert kinds(state) == [(Kind.GPU_LOST, ""), (Kind.XID, "79")]
    assert state.troubles[0].since == at(2).replace(microsecond=0)
    assert kinds(after(look(4, links=((0, True),)), state=state)) == [(Kind.XID, "79")]


def test_rows_that_wait_warn_and_rows_without_a_spare_take_the_gpu_out() -> None:
    pending = after(look(0, rows=rows(is_pending=True)))
    assert [(each.value, each.is_warning) for each in pending.troubles] == [("pending", True)]
    failed = after(look(1, rows=rows(has_failed=True, is_pending=True)), state=pending)
    assert [(each.value, each.is_warning) for each in failed.troubles] == [("failed", False)]
    assert after(look(2, rows=rows()), state=pending).troubles == ()


def test_a_link_that_was_up_and_is_down_warns_until_it_is_up() -> None:
    """One that was never up in this boot is a port without a cable."""
    state = after(look(0, links=((0, True), (1, True), (2, False))), look(30, links=((0, True), (1, False), (2, False))))
    (trouble,) = state.troubles
    assert (trouble.kind, trouble.value, trouble.is_warning) == (Kind.NVLINK, "down", True)
    assert "are down: 1;" in trouble.message
    both = after(look(60, links=((0, False), (1, False), (2, False))), state=state)
    assert both.troubles[0].since == trouble.since
    assert "are down: 0, 1;" in both.troubles[0].message
    assert after(look(90, links=((0, True), (1, True), (2, False))), state=both).troubles == ()


@pytest.mark.parametrize(("bit", "kind"), [(HOT, Kind.THERMAL), (BRAKED, Kind.POWER_BRAKE)], ids=["hot", "braked"])
def test_a_brake_is_a_trouble_when_it_lasts_and_over_when_that_lasts(bit: ClocksReason, kind: Kind) -> None:
    """One look more or less is no news: the API server would be written to with each gust of warm air."""
    looks = [0, bit, 0, bit, bit, 0, bit, 0, 0]
    seen = [look(30 * place, reasons=int(reason)) for place, reason in enumerate(looks)]
    states = list(itertools.accumulate(seen, lambda state, each: reduce(state, each, RULES), initial=HealthState()))[1:]
    assert [bool(state.troubles) for state in states] == [False, False, False, False, True, True, True, True, False]
    assert {each.kind for state in states for each in state.troubles} == {kind}
    assert len({each.since for state in states for each in state.troubles}) == 1


def test_what_a_busy_gpu_does_to_its_clocks_is_no_trouble() -> None:
    """Power cap, idle, software thermal: all day long."""
    assert after(*(look(30 * place, reasons=0x1 | 0x4 | 0x20) for place in range(5))).troubles == ()


def fabric(state: int, status: int = 0) -> FabricInfo:
    return FabricInfo(cluster_uuid=bytes(16), clique_id=0, state=state, status=status)


FABRICS = {
    "not told": (None, None),
    "none": (fabric(FabricState.NOT_SUPPORTED), None),
    "up": (fabric(FabricState.COMPLETED), None),
    "not started": (fabric(FabricState.NOT_STARTED), "not-started"),
    "still training": (fabric(FabricState.IN_PROGRESS), "in-progress"),
    "failed": (fabric(FabricState.COMPLETED, Code.UNKNOWN), "failed"),
    "a later driver's word": (fabric(17), "unknown"),
}


@pytest.mark.parametrize(("info", "value"), FABRICS.values(), ids=FABRICS.keys())
def test_a_fabric_that_is_not_up_is_warned_of_until_it_is(info: FabricInfo | None, value: str | None) -> None:
    """https://github.com/NVIDIA/gpu-operator/issues/1043, https://github.com/NVIDIA/gpu-operator/issues/375."""
    state = after(look(0, fabric=info))
    assert [(each.kind, each.value, each.is_warning) for each in state.troubles] == [(Kind.FABRIC, value, True)][: bool(value)]
    assert after(look(30, fabric=fabric(FabricState.COMPLETED)), state=state).troubles == ()


def test_a_gpu_without_events_says_so_and_is_given_out() -> None:
    (trouble,) = after(look(0, has_events=False)).troubles
    assert (trouble.kind, trouble.is_warning) == (Kind.UNMONITORED, True)


def test_numbers_and_troubles_of_a_broken_gpu_are_bounded() -> None:
    state = after(*(xid(1000 + number) for number in range(500)))
    assert len(state.counts[GPU]) == MAX_NUMBERS
    assert len(state.troubles) == MAX_TOLD


def test_many_sick_instances_do_not_hide_that_the_whole_gpu_fails() -> None:
    """NVML may make up instances as well; XID 79 concerns every MIG device."""
    told = after(*(xid(48, place, instance=Instance(gpu_instance_id=place)) for place in range(40)))
    state = after(xid(79, 50), xid(79, 51), state=told)
    assert len(state.troubles) == MAX_TOLD
    assert [each.value for each in state.troubles if each.instance is None] == ["79"]


def test_the_heaviest_comes_first_and_the_oldest_of_its_kind() -> None:
    state = after(look(0, links=((0, True),)), xid(95, 5), xid(48, 9), look(10, action=1, links=((0, False),)))
    assert kinds(state) == [(Kind.XID, "95"), (Kind.XID, "48"), (Kind.RECOVERY, "gpu-reset"), (Kind.NVLINK, "down")]


SEEN = st.one_of(
    st.builds(
        xid,
        st.sampled_from([13, 31, 48, 79, 94, 95, 999]),
        st.integers(0, 100),
        st.sampled_from([GPU, OTHER]),
        st.sampled_from([None, Instance(gpu_instance_id=1, start=0, size=2)]),
    ),
    st.builds(ecc, st.integers(0, 100)),
    st.builds(lost, st.integers(0, 100)),
    st.builds(driver, st.sampled_from(["", "a", "b"])),
    st.builds(
        look,
        st.integers(0, 200),
        action=st.sampled_from([None, 0, 1, 2, 9]),
        errors=st.sampled_from([None, 0, 1]),
        rows=st.sampled_from([None, rows(), rows(is_pending=True), rows(has_failed=True)]),
        reasons=st.sampled_from([None, 0, 0x40, 0x80, 0xFF]),
        links=st.sampled_from([(), ((0, True), (1, True)), ((0, False), (1, True))]),
        has_events=st.booleans(),
        device=st.sampled_from([GPU, OTHER]),
    ),
)


@given(st.lists(SEEN, max_size=25))
@settings(max_examples=60, deadline=None)
def test_every_state_is_one_that_can_be_kept_and_said_again(seen: list[Observation]) -> None:
    """Legal on disk, no trouble twice, in order; a repetition of the last observation adds no trouble and no event's end."""
    state = after(*seen)
    assert find_fault(state) is None
    names = [(each.device, each.instance, each.kind, each.value) for each in state.troubles]
    assert len(set(names)) == len(names)
    assert not any(each.value in {"13", "31", "94"} for each in state.troubles)
    told = [each for each in seen[-1:] if not hasattr(each, "condition")]
    again = after(*told, state=state)
    assert again.troubles == state.troubles


@given(st.lists(SEEN, max_size=12), st.randoms())
@settings(max_examples=60, deadline=None)
def test_the_order_of_events_changes_no_trouble(seen: list[Observation], random: object) -> None:
    """Of those between two looks: NVML promises no order of events of several GPUs."""
    events = [each for each in seen if hasattr(each, "number")]
    mixed = list(events)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    one, other = after(*events), after(*mixed)
    assert sorted(map(repr, kinds(one))) == sorted(map(repr, kinds(other)))
    assert build_health(one).counts == build_health(other).counts


@given(st.lists(SEEN, max_size=20), st.lists(SEEN, max_size=5))
@settings(max_examples=40, deadline=None)
def test_a_trouble_that_stays_keeps_its_moment(seen: list[Observation], more: list[Observation]) -> None:
    state = after(*seen)
    for each in more:
        now = reduce(state, each, RULES)
        before = {(t.device, t.instance, t.kind, t.value): t.since for t in state.troubles}
        for trouble in now.troubles:
            name = (trouble.device, trouble.instance, trouble.kind, trouble.value)
            assert before.get(name, trouble.since) == trouble.since
        state = now
