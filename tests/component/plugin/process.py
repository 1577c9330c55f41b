"""A plugin in a process of its own, to be killed: ``python -m tests.component.plugin.process ROOT INSTANCE GRACE_S``.

A prepare leaves ``ROOT/effects/<uid>`` behind when it took effect. For a claim named ``slow`` it works until ``ROOT/finish``
exists; when its call is over before, it takes its half-made effect back, as the real one does (R8).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from driver.claims.model import CallContext, ClaimRef, PrepareAnswers, UnprepareAnswers
from driver.errors import ClaimBusy
from driver.plugin.server import PluginCallbacks, PluginServer
from tests.component.plugin.node import PluginNode, make_board
from tests.fakes.claim_service import build_devices


class ClaimsOnDisk:
    """A ``ClaimService`` whose effect is a file a claim."""

    def __init__(self, root: Path) -> None:
        self._finish = root / "finish"
        self._effects = root / "effects"
        self._effects.mkdir(exist_ok=True)

    def prepare(self, claims: Sequence[ClaimRef], call: CallContext) -> PrepareAnswers:
        """Take effect, slowly where the name says so."""
        for claim in claims:
            (self._effects / claim.uid).write_text("started")
            while claim.name == "slow" and not self._finish.exists():
                if not call.is_active():
                    (self._effects / claim.uid).unlink()
                    return {each.uid: ClaimBusy("undone") for each in claims}
                threading.Event().wait(0.02)
            (self._effects / claim.uid).write_text("done")
        return {claim.uid: build_devices(claim.uid) for claim in claims}

    def unprepare(self, claims: Sequence[ClaimRef], call: CallContext) -> UnprepareAnswers:
        """Take the effect away."""
        for claim in claims:
            (self._effects / claim.uid).unlink(missing_ok=True)
        return {claim.uid: None for claim in claims}


def main(root: Path, instance: str, grace_s: float) -> int:
    """Serve until SIGTERM."""
    os.umask(0o077)
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    callbacks = PluginCallbacks(on_registered=lambda: None)
    server = PluginServer(PluginNode(root).settings(instance), ClaimsOnDisk(root), make_board(), callbacks)
    server.start()
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    is_over.wait()
    return 0 if server.stop(grace_s) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
