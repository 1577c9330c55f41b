"""How one setting is declared: its names, its check, its default and its help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Value: TypeAlias = "str | Path | int | float | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting with all its names."""

    group: str
    parse: Callable[[str], Value]
    metavar: str
    help: str
    default: Value = None
    derive: Callable[[Mapping[str, Any]], Value] | None = None
    """Makes the default from the settings declared above this one."""
    default_shown: str = ""
    """The default in words, where its value does not say it."""
    variable: str | None = None
    """What the world calls it already; ``GPU_DRA_...`` beats it."""
    name: str = ""
    """The name of the annotated field."""

    @property
    def flag(self) -> str:
        """``--kubelet-root``."""
        return "--" + self.name.replace("_", "-")

    @property
    def variables(self) -> tuple[str, ...]:
        """``GPU_DRA_KUBELET_ROOT`` and what the world calls it."""
        own = f"GPU_DRA_{self.name.upper()}"
        return (own,) if self.variable is None else (own, self.variable)

    @property
    def key(self) -> str:
        """``kubeletRoot``, in the config file."""
        first, *rest = self.name.split("_")
        return first + "".join(word.capitalize() for word in rest)
