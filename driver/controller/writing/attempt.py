"""Write to one claim, step by step, until it is done or cannot be: conflicts are read again, failures waited out.

What a request did whose answer did not come is not guessed: the claim is read again, and the next step chosen from that. A
write that is still on its way somewhere has the resourceVersion that it was planned on. So whoever ends in doubt must
``resolve`` it: read the claim, and change it in another way, so that the write on its way can only fail.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from driver.controller.objects.model import Claim
from driver.controller.writing.claim_api import ClaimApi
from driver.controller.writing.claim_steps import End, Step, build_unmark
from driver.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from driver.kube.backoff import Backoff

Choose: TypeAlias = "Callable[[Claim], Step | End]"
Act: TypeAlias = "Callable[[Step, Claim], Claim]"

_GATE_POLL_S = 0.05


class Leadership(Protocol):
    """Whether this process may write."""

    def may_write(self) -> bool:
        """Whether a write that is sent now is over before anybody else can lead (R28)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePace:
    """How long one claim's writes go on, and the waits between them."""

    give_up_s: float = 30.0
    backoff_base_s: float = 0.1
    backoff_cap_s: float = 3.0
    withdraw_s: float = 1.0
    """Between a withdraw and the clear: kube-scheduler's view of the claim follows by then."""


class Attempts:
    """Makes attempts; all of them end once ``stopped`` is set."""

    def __init__(
        self,
        api: ClaimApi,
        leadership: Leadership,
        pace: WritePace,
        *,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self.api = api
        self.pace = pace
        self.stopped = threading.Event()
        self.pause = pause or self.stopped.wait
        self.clock = clock
        self._leadership = leadership
        self._rng = rng or random.Random()  # noqa: S311  spreads load, keeps no secret

    def begin(self, claim: Claim) -> Attempt:
        """For one claim, as it was last seen."""
        return Attempt(self, claim, Backoff(base_s=self.pace.backoff_base_s, cap_s=self.pace.backoff_cap_s, random=self._rng))

    def wait_may_write(self, until_s: float) -> bool:
        """Wait for the lease to have enough time left. False where it does not come, or all is to stop."""
        while not self.stopped.is_set():
            if self._leadership.may_write():
                return True
            if self.clock() >= until_s:
                return False
            self.pause(_GATE_POLL_S)
        return False


class Attempt:
    """``claim`` is always what the server said last, ``text`` why it ended as it did."""

    def __init__(self, attempts: Attempts, claim: Claim, backoff: Backoff) -> None:
        self.claim = claim
        self.text = ""
        self._attempts = attempts
        self._backoff = backoff
        self._is_stale = False
        self._in_doubt = ""
        """The resourceVersion that a write was sent with of which nobody knows what became."""
        self._until_s = attempts.clock() + attempts.pace.give_up_s

    def run(self, choose: Choose, act: Act) -> End:
        """Take steps until ``choose`` says that it is the end, or nothing more can be done."""
        while True:
            if not self._attempts.wait_may_write(self._until_s):
                return self._end_without_right()
            try:
                wait_s = self._take_step(choose, act)
            except NotFound:
                return End.GONE
            except (Invalid, Forbidden) as err:
                self.text = str(err)
                return End.REFUSED
            if isinstance(wait_s, End):
                return wait_s
            if self._attempts.clock() >= self._until_s:
                return End.UNKNOWN if self._in_doubt else End.GIVEN_UP
            if wait_s:
                self._attempts.pause(wait_s)

    def resolve(self, choose: Choose) -> End:
        """Find out what became of a placement that was given up in doubt, and make sure that nothing becomes of it later."""
        self._is_stale, self._in_doubt = True, self.claim.metadata.resource_version
        self._until_s = self._attempts.clock()
        return self.run(lambda claim: step if isinstance(step := choose(claim), End) else Step.UNMARK, self._unmark)

    def _take_step(self, choose: Choose, act: Act) -> float | End:
        """One step: how long to wait before the next one, or the end."""
        try:
            if self._is_stale:
                self._note(self._attempts.api.read_claim(self.claim))
            step = choose(self.claim)
            if isinstance(step, End):
                return step
            self._send(step, act)
        except Conflict as err:
            self.text, self._is_stale = str(err), True
            return self._backoff.next_wait_s()
        except (Invalid, Forbidden, NotFound):
            raise
        except ApiError as err:
            self.text, self._is_stale = str(err), True
            return self._backoff.next_wait_s(at_least_s=err.retry_after_s)
        return 0.0

    def _send(self, step: Step, act: Act) -> None:
        before = self._in_doubt
        self._in_doubt = self.claim.metadata.resource_version
        try:
            answer = act(step, self.claim)
        except ApiError as err:
            if 0 < err.status < 500:
                self._in_doubt = before
            raise
        self._note(answer)

    def _note(self, claim: Claim) -> None:
        self.claim, self._is_stale = claim, False
        if claim.metadata.resource_version != self._in_doubt:
            self._in_doubt = ""

    def _end_without_right(self) -> End:
        if self._attempts.stopped.is_set():
            return End.STOPPED
        self.text = "the lease has too little time left to write"
        return End.UNKNOWN if self._in_doubt else End.GIVEN_UP

    def _unmark(self, _step: Step, claim: Claim) -> Claim:
        return self._attempts.api.patch(claim, build_unmark(claim))
