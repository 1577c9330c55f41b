"""The stand-in API server as a process, with a back door: what was asked of it, and what it holds.

It writes its kubeconfig to the path that it is given and says so in a line; then it answers each line of its input with one.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from tests.fakes.kube_api import FakeKubeApi, Fault


class TimedApi(FakeKubeApi):
    """Remembers when each request came."""

    def __init__(self) -> None:
        self.came: list[tuple[float, str, str]] = []
        super().__init__()

    def note_request(self, verb: str, resource: str) -> Fault | None:
        """Count it, with the time."""
        self.came.append((time.monotonic(), verb, resource))
        return super().note_request(verb, resource)


def answer(api: TimedApi, question: dict[str, Any]) -> object:
    """``requests``: (time, verb, resource) of all since the last ``forget``; ``objects``: all of a kind."""
    match question["do"]:
        case "requests":
            return api.came
        case "forget":
            api.came = []
            return None
        case "delete":
            return api.delete_all(question["plural"])
        case _:
            return api.objects(question["plural"])


def main(kubeconfig: Path) -> None:
    """Serve until the input ends."""
    api = TimedApi()
    with api:
        api.write_kubeconfig(kubeconfig)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for line in sys.stdin.buffer:
            sys.stdout.buffer.write(msgspec.json.encode(answer(api, msgspec.json.decode(line))) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
