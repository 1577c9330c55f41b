"""The processes of the benchmark, each by itself: what they say can be believed."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hack.bench.calls import Claim, Order, Outcome, Step
from hack.bench.client import Caller, carry_out
from hack.bench.cluster import Author, StandIn
from hack.bench.floor import Floor, serve, write_synced
from hack.bench.measures.machine import describe_run
from hack.bench.processes import BenchFailed, Child, count_threads, python, read_cpu_s, read_memory_mb, wait_until


@pytest.fixture
def folder() -> Iterator[Path]:
    """Socket paths are limited, so not below ``tmp_path``."""
    with tempfile.TemporaryDirectory(prefix="gb", dir="/tmp") as made:
        yield Path(made)


@pytest.fixture
def stand_in(folder: Path) -> Iterator[StandIn]:
    made = StandIn(folder)
    yield made
    made.end()


def some_claim() -> Claim:
    return ("bench", "claim", str(uuid.uuid4()))


def test_floor_writes_two_files_a_claim_and_takes_them_away_again(folder: Path) -> None:
    server = serve(folder / "s", Floor(folder, None))
    claims = (some_claim(), some_claim())
    try:
        socket = str(folder / "s")
        order = Order(callers=((Step(socket, "prepare", claims),),))
        (took,) = carry_out(Caller(), order).callers[0]
        written = {path.name for path in folder.iterdir()} - {"s"}
        assert (took.error, took.ms > 0) == ("", True)
        assert written == {f"{kind}-{uid}" for _, _, uid in claims for kind in ("record", "cdi")}
        carry_out(Caller(), Order(callers=((Step(socket, "unprepare", claims),),)))
        assert {path.name for path in folder.iterdir()} == {"s"}
    finally:
        server.stop(None)


def test_synced_write_leaves_the_whole_file_and_nothing_else(tmp_path: Path) -> None:
    write_synced(tmp_path / "a", b"old")
    write_synced(tmp_path / "a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"new")]


def test_callers_are_answered_in_the_order_of_the_order(folder: Path) -> None:
    """Each caller has an outcome a step, and none begins before the time."""
    server = serve(folder / "s", Floor(folder, None))
    try:
        at = time.monotonic() + 0.2
        steps = [tuple(Step(str(folder / "s"), "prepare", (some_claim(),)) for _ in range(count)) for count in (1, 3, 2)]
        outcome = carry_out(Caller(), Order(callers=tuple(steps), at=at))
    finally:
        server.stop(None)
    assert [len(calls) for calls in outcome.callers] == [1, 3, 2]
    begun = [took.ended_at - took.ms / 1000 for calls in outcome.callers for took in calls]
    assert min(begun) >= at - 0.001


def test_a_refused_claim_is_an_error_and_no_figure(folder: Path, stand_in: StandIn) -> None:
    """The floor that reads claims does not find this one; the client says so instead of counting a quick call."""
    child = Child(python("hack.bench.floor", str(folder), "--kubeconfig", str(stand_in.kubeconfig)), folder / "log")
    try:
        socket = folder / "floor-get.sock"
        wait_until(socket.exists, "the floor to serve")
        outcome = carry_out(Caller(), Order(callers=((Step(str(socket), "prepare", (some_claim(),)),),)))
    finally:
        child.end()
    assert "NotFound" in outcome.callers[0][0].error


def test_client_process_answers_orders_line_by_line(folder: Path) -> None:
    server = serve(folder / "s", Floor(folder, None))
    client = Child(python("hack.bench.client"), folder / "log")
    try:
        order = Order(callers=((Step(str(folder / "s"), "prepare", (some_claim(),)),),))
        answers = [client.ask(msgspec.to_builtins(order)) for _ in range(2)]
    finally:
        client.end()
        server.stop(None)
    outcomes = [msgspec.convert(answer, Outcome) for answer in answers]
    assert [outcome.callers[0][0].error for outcome in outcomes] == ["", ""]


def test_stand_in_counts_requests_with_their_times(stand_in: StandIn) -> None:
    author = Author(stand_in)
    before = time.monotonic()
    author.make_node("n")
    claim = author.make_claim("n", ["gpu-0", "gpu-1"])
    seen = stand_in.requests()
    assert [each[1:] for each in seen or []] == [
        ("create", "nodes"),
        ("create", "resourceclaims"),
        ("patch", "resourceclaims"),
    ]
    assert all(before <= at <= time.monotonic() for at, _, _ in seen or [])
    stand_in.forget()
    author.delete_claims([claim, claim])
    author.close()
    assert [each[1:] for each in stand_in.requests() or []] == [("delete", "resourceclaims")] * 2
    assert stand_in.slices("n") == []


def test_a_child_that_ends_is_shown_with_what_it_said(folder: Path) -> None:
    child = Child(["sh", "-c", "echo no such thing >&2"], folder / "log")
    with pytest.raises(BenchFailed, match="no such thing"):
        child.read_line()
    child.end()


def test_a_condition_that_never_holds_is_a_failure_with_its_name() -> None:
    with pytest.raises(BenchFailed, match="a miracle"):
        wait_until(lambda: False, "a miracle", timeout_s=0.05)


def test_what_is_read_of_a_process_is_its_own() -> None:
    """Of this process, whose own clock and count are at hand."""
    before = time.process_time()
    cpu_s = read_cpu_s(os.getpid())
    memory = read_memory_mb(os.getpid())
    assert before <= cpu_s <= time.process_time()
    assert 1 < memory["anonymous"] < memory["rss"] <= memory["peak"]
    assert count_threads(os.getpid()) >= 1


def test_a_run_says_what_it_ran_on() -> None:
    fields = describe_run(1.5).build_fields()
    assert (fields["name"], fields["n"], fields["cpus"]) == ("load_average", 2, os.cpu_count())
    assert {"date", "cpu_model", "kernel", "python", "grpc"} <= set(fields)
