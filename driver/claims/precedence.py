"""Which of a claim's configs applies to which of its results.

The rules (contracts 5.2, B61): configs of other drivers are not ours to read; an empty ``requests`` means all; a config for
``a`` also applies to ``a/b``, one for ``a/b`` only to that sub-request; a config of the claim beats one of the class, and of
two from the same place the later one wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

ConfigT = TypeVar("ConfigT")

_RANK = {"FromClass": 0, "FromClaim": 1}
SOURCES = tuple(_RANK)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedConfig(Generic[ConfigT]):
    """A decoded config with where it came from and whom it is for."""

    position: int
    """Index in ``status.allocation.devices.config``."""
    source: str
    """``FromClass`` or ``FromClaim``."""
    requests: tuple[str, ...]
    config: ConfigT

    def applies_to(self, request: str) -> bool:
        """True for the request or sub-request of a result."""
        return not self.requests or self.names(request)

    def names(self, request: str) -> bool:
        """True when the config says this request, or its parent, by name."""
        return request in self.requests or base_request(request) in self.requests


def base_request(request: str) -> str:
    """``a`` of ``a/b``: the name that a pod, and so the kubelet, knows."""
    return request.split("/", 1)[0]


def choose_config(configs: Iterable[SourcedConfig[ConfigT]], request: str) -> SourcedConfig[ConfigT] | None:
    """The config that wins for a result of ``request``, if any applies."""
    fitting = [config for config in configs if config.applies_to(request)]
    return max(fitting, key=lambda config: (_RANK[config.source], config.position), default=None)
