"""Locks by name, in this process and across processes, with a deadline and an error that says who has them.

Order, everywhere: the claim first, then its GPUs by name. Threads of this process take turns at an ordinary lock; the one
whose turn it is takes the file lock below it, which another instance of the plugin may hold. No polling, and nothing here
keeps the process from ending (R13, B18).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from driver.cdi import names as cdi_names
from driver.claims.flock import FileLock
from driver.claims.model import ClaimRef, Deadline
from driver.claims.private_folder import make_private_folder
from driver.claims.turns import Turns
from driver.errors import ClaimBusy, StateUnwritable
from driver.names import ClaimUID, is_dns_label

_IDLE_NAMES_MAX = 256


@dataclass(slots=True)
class _Named:
    """One lock. ``users`` (holder and waiters) keeps it in the table."""

    file: FileLock
    turn: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    holder: str = ""


class Hold:
    """Locks that a claim's work holds; ``say`` tells others what it is at."""

    def __init__(self, ref: ClaimRef, named: _Named) -> None:
        self._ref = ref
        self._named = named
        self.is_last = False
        """Set when the claim is gone from this node: its lock file goes with it."""

    def say(self, step: str) -> None:
        """What the holder does now, for the error of whoever waits."""
        self._named.holder = describe_holder(self._ref, step)
        self._named.file.write_holder(self._named.holder)


class LockTable:
    """All locks below one folder."""

    def __init__(self, folder: Path, turns: Turns | None = None) -> None:
        """``turns`` are given up while a lock is waited for."""
        self._turns = turns if turns is not None else Turns()
        self._folder = os.fspath(folder)
        self._guard = threading.Lock()
        self._table: dict[str, _Named] = {}

    def start(self) -> None:
        """Make the folder.

        Raises:
            StateUnwritable
        """
        make_private_folder(Path(self._folder), "the lock folder")

    @contextlib.contextmanager
    def hold_claim(self, ref: ClaimRef, deadline: Deadline, step: str) -> Iterator[Hold]:
        """The claim's lock.

        Raises:
            ClaimBusy: it was not had in time; names the holder.
        """
        name = f"claim-{cdi_names.validate_uid(ref.uid)}"
        with self._use(name) as named:
            self._acquire(named, name, ref, deadline, step)
            hold = Hold(ref, named)
            try:
                yield hold
            finally:
                self._release(named, delete_file=hold.is_last)

    @contextlib.contextmanager
    def hold_gpus(self, gpus: tuple[str, ...], ref: ClaimRef, deadline: Deadline, step: str) -> Iterator[None]:
        """The locks of GPUs, taken in order of name, while the claim's lock is held.

        Raises:
            ClaimBusy: one was not had in time; names the holder.
        """
        with contextlib.ExitStack() as stack:
            for gpu in sorted(set(gpus)):
                name = f"device-{gpu}"
                if not is_dns_label(gpu):
                    raise ValueError(f"{gpu[:80]!r} is no device name")
                named = stack.enter_context(self._use(name))
                self._acquire(named, name, ref, deadline, step)
                stack.callback(self._release, named, delete_file=False)
            yield

    def holder_of(self, uid: ClaimUID) -> str:
        """Who holds a claim's lock in this process, for "still working" answers; empty when nobody does."""
        with self._guard:
            named = self._table.get(f"claim-{uid}")
            return named.holder if named is not None else ""

    @contextlib.contextmanager
    def _use(self, name: str) -> Iterator[_Named]:
        with self._guard:
            named = self._table.get(name)
            if named is None:
                self._forget_idle()
                named = self._table[name] = _Named(FileLock(f"{self._folder}/{name}.lock"))
            named.users += 1
        try:
            yield named
        finally:
            with self._guard:
                named.users -= 1
                if named.users == 0 and not named.file.has_waiter():
                    del self._table[name]

    def _forget_idle(self) -> None:
        """Drops names that nobody uses any more, whose waiting thread ended without a caller."""
        if len(self._table) > _IDLE_NAMES_MAX:
            self._table = {name: each for name, each in self._table.items() if each.users or each.file.has_waiter()}

    def _acquire(self, named: _Named, name: str, ref: ClaimRef, deadline: Deadline, step: str) -> None:
        if not named.turn.acquire(blocking=False):
            with self._turns.given_up():
                is_mine = named.turn.acquire(timeout=deadline.remaining_s())
            if not is_mine:
                raise ClaimBusy(_busy(ref, name, named.holder))
        holder = describe_holder(ref, step)
        try:
            is_held = named.file.acquire_at_once(holder)
            if not is_held:
                with self._turns.given_up():
                    is_held = named.file.acquire(deadline.remaining_s(), holder)
        except OSError as err:
            named.turn.release()
            raise StateUnwritable(f"{ref}: taking the lock {name} in {self._folder}: {err}") from err
        if not is_held:
            named.turn.release()
            raise ClaimBusy(_busy(ref, name, named.file.read_holder()))
        named.holder = holder

    @staticmethod
    def _release(named: _Named, *, delete_file: bool) -> None:
        named.holder = ""
        try:
            named.file.release(delete_file=delete_file)
        finally:
            named.turn.release()


def describe_holder(ref: ClaimRef, step: str) -> str:
    """``process 12, claim default/a (uid …), at prepare:cdi-file``."""
    return f"process {os.getpid()}, {ref}, at {step}"


def _busy(ref: ClaimRef, name: str, holder: str) -> str:
    return f"{ref}: the lock {name} is still held by {holder or 'a process that does not say who it is'}; ask again"
