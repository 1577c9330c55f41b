"""A plugin instance as a process of its own: ``python -m tests.component.claims.worker FOLDER``.

Reads one JSON object a line (``{"id": 1, "act": "prepare", "claim": 3}``), works on each in a thread of its own, and writes one
line for each answer. ``KILL_AT`` in the environment is the step before which the process kills itself with SIGKILL;
``BLOCK_AT`` one before which it hangs for ever. Claim n was allocated GPU n modulo 8.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from driver.claims.prepare import ClaimPreparer
from driver.errors import DriverError
from tests.fakes.claims import Call, Node, claim, prepare_one, ref, result, unprepare_one

_WRITE = threading.Lock()


class _Instance(Node):
    def _step(self, name: str) -> None:
        if name == os.environ.get("KILL_AT"):
            os.kill(os.getpid(), signal.SIGKILL)
        if name == os.environ.get("BLOCK_AT"):
            say({"blocked": name})
            threading.Event().wait()


def say(what: dict[str, Any]) -> None:
    with _WRITE:
        print(json.dumps(what), flush=True)  # noqa: T201  the answers of a test's process


def work(preparer: ClaimPreparer, asked: dict[str, Any]) -> None:
    """Do what is asked, and say what came of it."""
    number, call = asked["claim"], Call(asked.get("seconds", 45.0))
    given = prepare_one(preparer, number, call) if asked["act"] == "prepare" else unprepare_one(preparer, number, call)
    if isinstance(given, DriverError):
        say({"id": asked["id"], "error": type(given).__name__, "text": str(given)})
    else:
        say({"id": asked["id"], "ids": [list(each.cdi_device_ids) for each in given or ()]})


def main() -> None:
    node = _Instance(Path(sys.argv[1]))
    node.api.put(*(claim(ref(n), [result(n % 8)]) for n in range(64)))
    preparer = node.start()
    preparer.repair()
    say({"ready": True})
    for line in sys.stdin:
        threading.Thread(target=work, args=(preparer, json.loads(line)), daemon=True).start()


if __name__ == "__main__":
    main()
