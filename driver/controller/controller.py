"""The controller as one object: stand by, lead once, stop. Nothing here decides anything about a claim.

What a leader knows is made when it begins to lead, from lists that are asked for then, and ends with the process: a leader that
lost its lease never leads again (``election.elector``).
"""

from __future__ import annotations

import enum
import functools
import random
import signal
import threading
import time
from dataclasses import dataclass
from typing import TypedDict

from driver import log
from driver.controller.election.elector import Elector, Standing
from driver.controller.election.lease import LEASES
from driver.controller.election.lease_api import ApiLeases
from driver.controller.election.thread import Election
from driver.controller.intake import Intake, Stop
from driver.controller.loop import Loop
from driver.controller.metrics import ControllerMetrics
from driver.controller.settings import OLDEST_KUBERNETES, ControllerSettings
from driver.controller.writing.attempt import Attempts
from driver.controller.writing.claim_api import KubeClaimApi, MeasuredClaimApi
from driver.controller.writing.fence import write_acknowledgement
from driver.controller.writing.threads import WriterThreads
from driver.controller.writing.writer import Job, Writer
from driver.errors import ApiError
from driver.inbox import Inbox
from driver.kube.backoff import Backoff
from driver.kube.client import KubeClient
from driver.kube.credentials import Credentials
from driver.kube.events import EventLimits, EventRecorder, ObjectReference, Source
from driver.metrics.pages import Health, PageServer, build_pages

_LOG = log.logger(__name__)
EVENTS = EventLimits(queue_max=4000, known_max=4000, burst=500, refill_s=0.05)
"""A cluster's, not a node's: twenty events a second go on for ever."""
VERSION_AGAIN_S = 60.0
"""How often a Kubernetes that is too old is asked whether it was upgraded."""
STUCK_S = 300.0
"""A decision thread that says nothing for so long is helped by a restart."""
_LAST_WORDS_S = 1.0
_JOIN_S = 5.0


class Ask(enum.Enum):
    """What the main thread is asked for."""

    END = "end"
    LEAD = "lead"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Broken:
    """A thread ended by an error that nobody foresaw."""

    error: Exception


class Controller:
    """``run`` returns when it was asked to end."""

    def __init__(self, settings: ControllerSettings, credentials: Credentials) -> None:
        self._settings = settings
        self._credentials = credentials
        self._asked: Inbox[Ask | Broken] = Inbox()
        self._client = KubeClient(credentials)
        self._events = EventRecorder(self._client, self._build_source(), limits=EVENTS)
        self._metrics = ControllerMetrics()
        election = settings.election
        self._lease_client = KubeClient(credentials, **_timeouts(election.request_timeout_s))
        elector = Elector(ApiLeases(self._lease_client, election), election)
        self._election = Election(elector, self._note_standing, self.note_broken)
        self._term: Term | None = None
        self._too_old = ""
        pages = build_pages(self.read_health, self.read_readiness, self._metrics.page)
        self._pages = PageServer(settings.health_address, pages) if settings.health_address else None

    @property
    def probe_port(self) -> int:
        """Where health and metrics are served, 0 for nowhere."""
        return self._pages.port if self._pages is not None else 0

    def end_on(self, number: signal.Signals) -> None:
        """From now on the signal has ``run`` return."""
        self._asked.heed(number, Ask.END)

    def ask_end(self) -> None:
        """Have ``run`` return."""
        self._asked.put(Ask.END)

    def run(self) -> None:
        """Serve until asked to end.

        Raises:
            LeadershipLost: the lease went; the process is to be started again.
            SocketUnusable: health cannot be served.
            DriverError: what broke a thread.
        """
        if self._pages is not None:
            self._pages.start()
        if not self._wait_supported():
            return
        self._election.start()
        while (asked := self._asked.get()) is not Ask.END:
            if isinstance(asked, Broken):
                raise asked.error
            if asked is Ask.LOST:
                self._election.check()
            elif self._term is None:
                self._metrics.set_leader(leads=True)
                self._term = Term(self._settings, self._credentials, self)
                self._term.start()

    def stop(self, grace_s: float) -> bool:
        """Leave in good order: finish what is being written, then give the lease back. False where a write hangs."""
        has_ended = self._term is None or self._term.stop(grace_s)
        if has_ended:  # else the lease must outlast the write
            self._election.stop(timeout_s=self._settings.election.request_timeout_s * 2)
        self._events.flush(_LAST_WORDS_S)
        self._events.stop()
        if self._pages is not None:
            self._pages.stop()
        return has_ended

    # -- for the term

    @property
    def events(self) -> EventRecorder:
        """Where people are told."""
        return self._events

    @property
    def metrics(self) -> ControllerMetrics:
        """What is counted."""
        return self._metrics

    def may_write(self) -> bool:
        """``Leadership.may_write``."""
        return self._election.may_write()

    def note_broken(self, error: Exception) -> None:
        """A thread broke: end, to be started again."""
        self._asked.put(Broken(error))

    # -- for probes

    def read_health(self) -> Health:
        """Whether a restart would help."""
        term = self._term
        if self._election.standing is Standing.LOST:
            return Health(is_ok=False, text="the lease is lost")
        if term is not None and term.silent_s() > STUCK_S:
            return Health(is_ok=False, text=f"the decision thread has not moved for {term.silent_s():.0f} s")
        return Health(is_ok=True, text="alive")

    def read_readiness(self) -> Health:
        """Whether it does its work, or would if it led."""
        if self._too_old:
            return Health(is_ok=False, text=self._too_old)
        term = self._term
        if term is None:
            return Health(is_ok=self._election.standing is not Standing.LOST, text=self._election.describe())
        return Health(is_ok=term.is_ready, text=f"{self._election.describe()}; {term.describe()}")

    def _build_source(self) -> Source:
        settings = self._settings
        return Source(controller=f"{settings.driver_name}/controller", instance=settings.election.identity)

    def _note_standing(self, standing: Standing) -> None:
        if standing is Standing.LEADING:
            self._asked.put(Ask.LEAD)
        elif standing is Standing.LOST:
            self._asked.put(Ask.LOST)

    def _wait_supported(self) -> bool:
        """Wait for a Kubernetes that can fence devices. False where the end was asked for meanwhile."""
        backoff = Backoff(random=random.Random())  # noqa: S311  spreads load, keeps no secret
        while True:
            try:
                version = self._client.server_version()
                if version.numbers >= OLDEST_KUBERNETES:
                    self._too_old = ""
                    return True
                self._say_too_old(version.git_version or ".".join(map(str, version.numbers)))
                wait_s = VERSION_AGAIN_S
            except ApiError as err:
                wait_s = backoff.next_wait_s(at_least_s=err.retry_after_s)
                log.event(
                    _LOG, log.WARNING, "the server's version could not be read", error=err, next_try_in_s=round(wait_s, 1)
                )
            if self._asked.wait(wait_s) is not None:
                return False

    def _say_too_old(self, version: str) -> None:
        oldest = ".".join(map(str, OLDEST_KUBERNETES))
        text = (
            f"Kubernetes {version} is older than {oldest}: devices cannot be fenced by taints there, so this controller leaves"
            f" all claims to kube-scheduler. Run kubelet-plugin with --allocation scheduler, or upgrade"
        )
        if text != self._too_old:
            self._too_old = text
            log.event(_LOG, log.WARNING, "Kubernetes is too old; claims are left alone", version=version, oldest=oldest)
            lease = self._settings.election
            about = ObjectReference(api_version=LEASES.group_version, kind="Lease", name=lease.name, namespace=lease.namespace)
            self._events.record(about, "KubernetesTooOld", text, action="Start", is_warning=True)


class Term:
    """The time of leading: the decision thread, what it watches, and who writes for it."""

    def __init__(self, settings: ControllerSettings, credentials: Credentials, controller: Controller) -> None:
        self._controller = controller
        timeouts = _timeouts(settings.election.request_timeout_s)
        self._writer_client = KubeClient(credentials, connections=settings.writers, **timeouts)
        api = MeasuredClaimApi(KubeClaimApi(self._writer_client), controller.metrics)
        self._attempts = Attempts(api, controller, settings.pace)
        writer = Writer(self._attempts, functools.partial(write_acknowledgement, self._writer_client))
        self._loop = Loop(settings, self._submit, controller.events, controller.metrics)
        self._writers = WriterThreads(writer, self._loop.put, controller.note_broken, count=settings.writers)
        self._intake = Intake(settings.driver_name, KubeClient(credentials), self._loop.put, controller.note_broken)
        self._thread = threading.Thread(target=self._run, name="decide", daemon=True)

    @property
    def is_ready(self) -> bool:
        """Whether it decides."""
        return self._loop.is_ready

    def describe(self) -> str:
        """What it does, in plain words."""
        return self._loop.describe()

    def silent_s(self) -> float:
        """How long the decision thread has been at one thing."""
        return time.monotonic() - self._loop.moved_s

    def start(self) -> None:
        """List everything, then decide."""
        self._writers.start()
        self._thread.start()
        self._intake.start()

    def stop(self, grace_s: float) -> bool:
        """Decide no more, and finish what is being written. False where a write hangs."""
        self._loop.put(Stop.STOP)
        self._thread.join(_JOIN_S)
        self._intake.stop()
        if not self._writers.stop(grace_s * 0.6):
            self._attempts.stopped.set()  # no more tries; a request that was sent still ends by itself
            return self._writers.stop(grace_s * 0.4)
        return True

    def _submit(self, job: Job) -> None:
        self._writers.submit(job)

    def _run(self) -> None:
        try:
            self._loop.run()
        except Exception as err:  # noqa: BLE001  the outermost loop of a thread: the process must not go on without it
            self._controller.note_broken(err)


class _Timeouts(TypedDict):
    connect_timeout_s: float
    timeout_s: float


def _timeouts(request_s: float) -> _Timeouts:
    """Of a client whose requests must be over after so long: connecting and waiting together."""
    return {"connect_timeout_s": request_s * 0.3, "timeout_s": request_s * 0.7}
