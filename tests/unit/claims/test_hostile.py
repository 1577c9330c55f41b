"""Whatever happens to a node, and in whatever order: clear errors, no device twice, and an end with nothing left."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from driver.errors import DriverError, RecordUnreadable
from tests.fakes.claims import Call, Killed, Node, claim, ref, result, uid

NUMBERS = st.integers(0, 5)
STEPS = st.sampled_from(
    [
        "prepare:metadata",
        "prepare:record-PrepareCompleted",
        "prepare:cdi-file",
        "prepare:done",
        "unprepare:record-UnprepareStarted",
        "unprepare:delete-cdi-file",
        "unprepare:delete-metadata",
        "unprepare:delete-record",
    ]
)


class HostileNode(RuleBasedStateMachine):
    """Six claims want three GPUs. Kills, reboots, lost and broken files, foreign files and a second instance in between."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.node = Node(self.folder, has_metadata=True)
        self.node.api.put(*(claim(ref(n), [result(n % 3)]) for n in range(6)))
        self.instances = [self.node.start(), self.node.start()]

    def teardown(self) -> None:
        try:
            self.end_all()
        finally:
            shutil.rmtree(self.folder)

    @rule(number=NUMBERS, instance=st.integers(0, 1))
    def prepare(self, number: int, instance: int) -> None:
        with contextlib.suppress(DriverError):
            given = self.instances[instance].work.prepare(ref(number), Call())
            assert {each for one in given for each in one.cdi_device_ids} <= self.node.granted()

    @rule(number=NUMBERS, instance=st.integers(0, 1))
    def unprepare(self, number: int, instance: int) -> None:
        with contextlib.suppress(RecordUnreadable):
            self.instances[instance].work.unprepare(ref(number), Call().deadline())
            assert not self.node.record_path(number).exists()
            assert not self.node.cdi_path(number).exists()

    @rule(number=NUMBERS, step=STEPS)
    def die(self, number: int, step: str) -> None:
        self.node.kill_at = step
        work = self.instances[0].work
        with contextlib.suppress(Killed, DriverError):
            if step.startswith("prepare"):
                work.prepare(ref(number), Call())
            else:
                work.unprepare(ref(number), Call().deadline())
        self.node.kill_at = None
        self.instances[0] = self.node.start()

    @rule(repairs=st.booleans())
    def restart(self, repairs: bool) -> None:
        self.instances[1] = self.node.start()
        if repairs:
            self.instances[1].repair()

    @rule()
    def reboot(self) -> None:
        self.node.reboot(f"boot-{len(self.node.steps)}")

    @rule(number=NUMBERS)
    def lose_the_grant(self, number: int) -> None:
        self.node.cdi_path(number).unlink(missing_ok=True)

    @rule(number=NUMBERS, data=st.binary(max_size=40) | st.sampled_from([b"", b"{", b'{"sha256":"","record":{}}', b"[" * 5000]))
    def break_the_record(self, number: int, data: bytes) -> None:
        if self.node.record_path(number).exists():
            self.node.record_path(number).write_bytes(data)

    @rule(name=st.sampled_from(["claims/x.json", "claims/.y.tmp", "claims/README", "locks/z"]), data=st.binary(max_size=20))
    def drop_a_foreign_file(self, name: str, data: bytes) -> None:
        (self.node.plugin / name).write_bytes(data)

    @rule(number=NUMBERS)
    def allocate_anew(self, number: int) -> None:
        self.node.api.put(claim(ref(number), [result((number + len(self.node.steps)) % 3)]))
        for instance in self.instances:
            instance.note_registered()

    @invariant()
    def no_device_is_in_two_records(self) -> None:
        devices = Counter(device["device"] for record in self.records() for device in record)
        assert not devices or max(devices.values()) == 1

    def records(self) -> list[list[dict[str, str]]]:
        """The devices of each record that can be read."""
        found = []
        for path in (self.node.plugin / "claims").glob(f"{uid(0)[:8]}*.json") if hasattr(self, "node") else ():
            read = self.instances[0].work.carrier.records.read(uid(int(path.stem[-12:], 16)))
            if read is not None and hasattr(read, "record"):
                found.append([{"device": device.device} for device in read.record.devices])
        return found

    def end_all(self) -> None:
        """What the kubelet and, where it is told to, the operator do in the end."""
        if not hasattr(self, "node"):
            return
        preparer = self.node.start()
        for number in range(6):
            try:
                preparer.work.unprepare(ref(number), Call().deadline())
            except RecordUnreadable:
                self.node.record_path(number).with_suffix(".corrupt").unlink()
                preparer.work.unprepare(ref(number), Call().deadline())
        left = [name for name in self.node.leftovers() if uid(0)[:8] in name or "claim-" in name]
        assert left == []


HostileNode.TestCase.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestHostileNode = HostileNode.TestCase
