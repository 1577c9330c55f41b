"""Values that Kubernetes' evaluator cannot use as the key of a map: it panics."""

from __future__ import annotations

from typing import Final

from driver.cel.semver import Semver
from driver.cel.well_known_formats import NamedFormat

UNHASHABLE: Final = (bytes, Semver, NamedFormat)
