"""What became of writes, and what follows: into the mirror, into what was learned, to people."""

from __future__ import annotations

from driver import log
from driver.controller.acting.ledger import Ledger, find_node
from driver.controller.deciding.takeback import Idle
from driver.controller.writing.claim_steps import End, Placing
from driver.controller.writing.writer import AcknowledgeJob, PlaceJob, Report, ResolveJob, TakeBackJob, Written, list_claims

_LOG = log.logger(__name__)


class Outcomes:
    """For the decision thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def note(self, report: Report, now_s: float, wall_s: float) -> None:
        """A job ended."""
        job = report.job
        if isinstance(job, AcknowledgeJob):
            self._ledger.in_flight.end_acknowledge(job)
            self._ledger.put_off.note_tried(job.acknowledgement.node_uid, now_s, is_done=not report.is_refused)
            return
        if isinstance(job, PlaceJob):
            self._note_placed(job, report.written, now_s, wall_s)
        elif isinstance(job, ResolveJob):
            self._note_written(job.placing, report.written[0], now_s)
        elif isinstance(job, TakeBackJob):
            self._note_taken_back(job, report.written[0], now_s)
        else:
            self._note_answer(report.written[0], now_s)
        if not isinstance(job, PlaceJob | ResolveJob):
            (claim,) = list_claims(job)
            is_done = report.written[0].end is End.DONE
            self._ledger.put_off.note_tried(claim.metadata.uid, now_s, is_done=is_done)
        self._ledger.in_flight.end(job, now_s)

    def _note_placed(self, job: PlaceJob, written: tuple[Written, ...], now_s: float, wall_s: float) -> None:
        for placing, each in zip(job.placings, written, strict=False):
            self._note_written(placing, each, now_s)
        for placing in job.placings[len(written) :]:
            self._ledger.cluster.cancel(placing.claim.metadata.uid)
        if len(written) == len(job.placings) and all(each.end is End.DONE for each in written):
            devices = [[each.device for each in placing.allocation.devices.results] for placing in job.placings]
            self._ledger.metrics.note_placed(waited_s=max(0.0, wall_s - job.demand.since_s))
            self._ledger.speech.say_placed(job.demand, job.node, devices)
            claims = ", ".join(placing.claim.metadata.full_name for placing in job.placings)
            names = ", ".join(name for each in devices for name in each)
            log.event(_LOG, log.INFO, "placed", claims=claims, node=job.node, devices=names)

    def _note_written(self, placing: Placing, written: Written, now_s: float) -> None:
        ledger, uid = self._ledger, placing.claim.metadata.uid
        if written.end is End.STOPPED:
            return
        if written.end is End.UNKNOWN:
            log.event(
                _LOG,
                log.WARNING,
                "nobody knows whether a claim was written",
                claim=placing.claim.metadata.full_name,
                why=written.text,
            )
            ledger.in_flight.doubt(ResolveJob(placing=placing), now_s)
            return
        self._note_answer(written, now_s)
        if written.end is End.DONE:
            ledger.lessons.note_written(uid)
            return
        ledger.cluster.cancel(uid)
        log.event(
            _LOG,
            log.WARNING,
            "a claim was not written",
            claim=placing.claim.metadata.full_name,
            end=written.end.value,
            why=written.text,
        )
        if written.end is End.REFUSED:
            ledger.lessons.note_refused(uid, now_s)
            ledger.speech.say_refused(placing.claim, written.text)
        elif written.end in {End.GIVEN_UP, End.GONE}:  # the watch may be long in telling that it is gone
            ledger.lessons.rest(uid, now_s)

    def _note_taken_back(self, job: TakeBackJob, written: Written, now_s: float) -> None:
        ledger, claim = self._ledger, job.claim
        uid = claim.metadata.uid
        if written.end is not End.DONE:
            self._note_answer(written, now_s)
            ledger.restart_idle(uid, now_s)
            if written.end not in {End.IN_USE, End.TAKEN, End.STOPPED}:
                log.event(
                    _LOG, log.WARNING, "not taken back", claim=claim.metadata.full_name, end=written.end.value, why=written.text
                )
            return
        node, pods = find_node(claim), ledger.waiting_pods(claim)
        ledger.lessons.rest(uid, now_s)
        if job.why == Idle.UNBOUND.value:
            ledger.lessons.learn((each.metadata.uid for each in pods), node, job.why, now_s)
        ledger.metrics.note_take_back(job.why)
        ledger.speech.say_taken_back(claim, pods, f"taken back from node {node}: {job.why}")
        log.event(_LOG, log.INFO, "taken back", claim=claim.metadata.full_name, node=node, why=job.why)
        self._note_answer(written, now_s)

    def _note_answer(self, written: Written, now_s: float) -> None:
        """What the server said last is newer than what the watch told, unless the claim is gone."""
        if written.end is not End.GONE:
            self._ledger.note_written(written.claim, now_s)
