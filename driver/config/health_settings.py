"""The settings by which the node half judges the health of its GPUs, and their checks."""

from __future__ import annotations

from driver.config import values
from driver.config.setting import Setting

EVICTING = ("gpu-lost", "xid", "ecc", "recovery", "remapped-rows")
"""Kinds that take a GPU out; the others only warn."""
_MOST_XID = 9999


def parse_xids(text: str) -> str:
    """XIDs with commas between them, each once, in order; or none."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    for word in words:
        if not (word.isascii() and word.isdigit()) or not 0 < int(word) <= _MOST_XID:
            raise ValueError(f"{values.shown(word)} in {values.shown(text)} is no XID; say numbers with commas, as 48,63")
    return ",".join(map(str, sorted({int(word) for word in words})))


def parse_kinds(text: str) -> str:
    """Kinds of trouble with commas between them; or none."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    for word in words:
        if word not in EVICTING:
            known = ", ".join(EVICTING)
            raise ValueError(f"{values.shown(word)} is nothing that pods are evicted for; say one or more of {known}")
    return ",".join(kind for kind in EVICTING if kind in words)


IGNORED_XIDS = Setting(
    group="health",
    parse=parse_xids,
    metavar="XID,...",
    help="XIDs that are counted and never held against a GPU, beside those that are the program's own (docs/health.md)",
    default="",
    default_shown="none",
)
EVICT_FOR = Setting(
    group="health",
    parse=parse_kinds,
    metavar="KIND,...",
    help=f"what pods are evicted for (taint effect NoExecute), not only kept away by: any of {', '.join(EVICTING)}",
    default="",
    default_shown="nothing",
)
HEALTH_EVENTS = Setting(
    group="health",
    parse=values.choice("on", "off"),
    metavar="on|off",
    help="listen to NVML's events, which holds the NVIDIA driver in use; off: GPUs are looked at every 30 s, XIDs are not seen,"
    " and a driver can be unloaded while this program runs",
    default="on",
)
