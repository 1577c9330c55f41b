"""What is to be taken back or settled, looked for again and again: what one leader leaves half done, the next one finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from driver import log
from driver.controller.acting.ledger import Ledger, is_unbound
from driver.controller.books.demands import Demand
from driver.controller.deciding.doubles import Double, choose_loser
from driver.controller.deciding.takeback import IdleCase, IdleRule
from driver.controller.objects.model import Claim, Pod
from driver.controller.objects.ownership import build_consumer
from driver.controller.writing.writer import SettleJob, TakeBackJob, UnmarkJob

_LOG = log.logger(__name__)
DOUBLE = "a device of it is in another claim"
HALF = "another claim of its pod could not be placed"


class Retaker:
    """For the decision thread."""

    def __init__(self, ledger: Ledger, rule: IdleRule, *, max_take_backs: int) -> None:
        self._ledger = ledger
        self._rule = rule
        self._max_take_backs = max_take_backs
        self._told: set[Double] = set()

    def sweep(self, now_s: float, *, is_decided: bool) -> None:
        """Look at everything that may be due. ``is_decided``: whatever can be placed now is under way."""
        self._sweep_doubles(now_s)
        if is_decided:
            self._sweep_guards(now_s)
            self._sweep_marked(now_s)
        self._sweep_idle(now_s)

    def look_at_all(self, now_s: float) -> None:
        """Judge every allocation of ours anew: no change of a pod may be missed for ever."""
        for uid in self._ledger.ours:
            self._ledger.idle.look(self._ledger.cluster.claims[uid], self._ledger.cluster.pods, now_s)

    def _sweep_doubles(self, now_s: float) -> None:
        ledger, found = self._ledger, self._ledger.doubles.doubles()
        self._told &= set(found)
        for double in found:
            claims = [ledger.cluster.claims[uid] for uid in double.uids]
            loser = choose_loser(claims, ledger.cluster.pods)
            if double not in self._told:
                self._told.add(double)
                self._tell(double, claims, loser)
            if loser is None or any(ledger.in_flight.is_busy(uid) for uid in double.uids):
                continue
            if self._is_free(loser.metadata.uid, now_s):
                ledger.in_flight.begin(TakeBackJob(claim=loser, why=DOUBLE))

    def _tell(self, double: Double, claims: Sequence[Claim], loser: Claim | None) -> None:
        what = "delete a pod of one of them: all are in use"
        if loser is not None:
            what = f"claim {loser.metadata.full_name} gives it back"
        device, pool, names = double.device.device, double.device.pool, ", ".join(each.metadata.full_name for each in claims)
        text = f"device {device} of {pool} is in {len(claims)} claims; {what}"
        log.event(_LOG, log.ERROR, "a device is in two claims", device=device, pool=pool, claims=names, next=what)
        self._ledger.metrics.note_double()
        self._ledger.speech.say_double(claims, text)

    def _sweep_guards(self, now_s: float) -> None:
        """A guard without a job: a leader died, or the API was in trouble. Finish what it was for, or undo it."""
        ledger = self._ledger
        for uid in tuple(ledger.guarded):
            claim = ledger.cluster.claims[uid]
            if not self._is_free(uid, now_s):
                continue
            users = ledger.cluster.users(claim)
            if self._list_demands(claim):
                self._begin(claim, HALF)
            elif not self._is_any_busy(users):
                waiting = tuple(build_consumer(each) for each in users if is_unbound(each))
                ledger.in_flight.begin(SettleJob(claim=claim, users=waiting))

    def _sweep_marked(self, now_s: float) -> None:
        """A mark without an allocation, and nobody waits: a leader died between two writes, or somebody is about to tidy up."""
        ledger = self._ledger
        for uid, since_s in tuple(ledger.marked.items()):
            claim = ledger.cluster.claims[uid]
            is_due = now_s - since_s >= self._rule.gone_s
            if is_due and self._is_free(uid, now_s) and not self._list_demands(claim):
                ledger.in_flight.begin(UnmarkJob(claim=claim))

    def _is_free(self, uid: str, now_s: float) -> bool:
        """Whether nothing is under way for the claim, nor was a moment ago."""
        return not (self._ledger.in_flight.is_busy(uid) or self._ledger.put_off.is_put_off(uid, now_s))

    def _list_demands(self, claim: Claim) -> list[Demand]:
        """The demands of those who use the claim."""
        found = (self._ledger.cluster.demand_of(each.metadata.uid) for each in self._ledger.cluster.users(claim))
        return [each for each in found if each is not None]

    def _is_any_busy(self, pods: Iterable[Pod]) -> bool:
        """Whether another claim of these pods is being written, or in doubt."""
        in_flight = self._ledger.in_flight
        return any(in_flight.is_busy(each.metadata.uid) for pod in pods for each in self._ledger.list_claims(pod))

    def _sweep_idle(self, now_s: float) -> None:
        """Whoever is bound in time is never looked at here: there may be thousands on their way."""
        ledger, until_s = self._ledger, now_s - self._rule.least_s
        for case in ledger.idle.cases(until_s):
            if now_s - case.since_s >= self._rule.limit_s(case.why, 0):
                ledger.idle.look(ledger.cluster.claims[case.uid], ledger.cluster.pods, now_s)
        for case in ledger.idle.cases(until_s):
            if self._is_due(case, now_s) and self._is_free(case.uid, now_s):
                self._begin(ledger.cluster.claims[case.uid], case.why.value)

    def _is_due(self, case: IdleCase, now_s: float) -> bool:
        if now_s - case.since_s < self._rule.limit_s(case.why, 0):
            return False
        claim = self._ledger.cluster.claims[case.uid]
        attempts = self._ledger.lessons.attempts(each.uid for each in claim.status.reserved_for)
        return now_s - case.since_s >= self._rule.limit_s(case.why, attempts)

    def _begin(self, claim: Claim, why: str) -> None:
        in_flight = self._ledger.in_flight
        if in_flight.take_backs < self._max_take_backs:
            in_flight.begin(TakeBackJob(claim=claim, why=why))
