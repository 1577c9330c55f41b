"""Plugin instances in processes of their own, and what they answered."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[3]
_TIMEOUT_S = 60.0


class Instance:
    """One process; use as a context manager."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self._ids = itertools.count()
        self._answers: dict[int, dict[str, Any]] = {}
        self._news = threading.Condition()
        self._events: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.component.claims.worker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **environment},
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Instance:
        self.wait_for("ready")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(_TIMEOUT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def ask(self, act: str, claim: int, **more: Any) -> int:
        """Send one request; its id, for ``answer``."""
        number = next(self._ids)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"id": number, "act": act, "claim": claim, **more}) + "\n")
        self.process.stdin.flush()
        return number

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to a request, without its id."""
        with self._news:
            assert self._news.wait_for(lambda: number in self._answers, _TIMEOUT_S), "no answer"
            return self._answers.pop(number)

    def do(self, act: str, claim: int, **more: Any) -> dict[str, Any]:
        """Ask, and wait for the answer."""
        return self.answer(self.ask(act, claim, **more))

    def wait_for(self, event: str) -> None:
        """Return once the process has said ``event``."""
        with self._news:
            assert self._news.wait_for(lambda: any(event in each for each in self._events), _TIMEOUT_S), f"never {event}"

    def wait_for_death(self) -> int:
        """The process's exit status, once it has ended by itself."""
        return self.process.wait(_TIMEOUT_S)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            with self._news:
                if "id" in said:
                    self._answers[said.pop("id")] = said
                else:
                    self._events.append(said)
                self._news.notify_all()
