"""Which nodes or demands changed since when, so that what waits is only tried where something is new."""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 50_000


class ChangeLog:
    """Names in order of their changes; the oldest are forgotten."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._forgotten = 0

    @property
    def version(self) -> int:
        """How many changes there were."""
        return self._forgotten + len(self._names)

    def add(self, names: Iterable[str]) -> None:
        """These have changed now."""
        self._names += names
        if len(self._names) > _MOST:
            self._forgotten += _MOST // 2
            del self._names[: _MOST // 2]

    def since(self, version: int) -> frozenset[str] | None:
        """Those that have changed since ``version``; None where that is no longer known: it may be all of them."""
        if version < self._forgotten:
            return None
        return frozenset(self._names[version - self._forgotten :])
