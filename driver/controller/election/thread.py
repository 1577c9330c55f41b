"""The election in a thread of its own, for as long as the process lives."""

from __future__ import annotations

import threading
from collections.abc import Callable

from driver.controller.election.elector import Elector, Standing
from driver.errors import LeadershipLost


class Election:
    """An ``Elector`` in a thread of its own, where ``on_change`` is called with each new standing.

    ``on_failure`` is called once if the thread breaks. The lease is not released then, since somebody may be writing: it ends.
    """

    def __init__(
        self, elector: Elector, on_change: Callable[[Standing], None], on_failure: Callable[[Exception], None]
    ) -> None:
        self._elector = elector
        self._on_change = on_change
        self._on_failure = on_failure
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)

    @property
    def standing(self) -> Standing:
        """What this process is in the election."""
        return self._elector.standing

    def may_write(self) -> bool:
        """Whether a write that is sent now is over before anybody else can lead. For any thread."""
        return self._elector.may_write()

    def start(self) -> None:
        """Contend."""
        self._thread.start()

    def stop(self, *, timeout_s: float) -> None:
        """Stop, and release a lease that is held. Call it when no write is under way any more."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def check(self) -> None:
        """Raises ``LeadershipLost`` where the lease was held and is not any more."""
        if self._elector.standing is Standing.LOST:
            raise LeadershipLost(
                f"{self._elector.trouble or 'the lease ran out'}; this process ends, and is to be started again as a stand-by"
            )

    def describe(self) -> str:
        """The election in plain words, for probes."""
        standing, trouble = self._elector.standing, self._elector.trouble
        text = standing.value
        if standing is Standing.STANDBY:
            text += f", {self._elector.holder} leads" if self._elector.holder else ", nobody leads"
        return f"{text}; {trouble}" if trouble else text

    def _run(self) -> None:
        try:
            self._contend()
        except Exception as err:  # noqa: BLE001  the outermost loop of a thread: a stand-by that never contends is no stand-by
            self._on_failure(err)

    def _contend(self) -> None:
        told = Standing.STANDBY
        while told is not Standing.LOST and not self._stopped.is_set():
            self._elector.step()
            if self._elector.standing is not told:
                told = self._elector.standing
                self._on_change(told)
            self._stopped.wait(self._elector.next_wait_s())
        self._elector.release()
