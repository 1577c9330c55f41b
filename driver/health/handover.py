"""Two instances hear the same events, while one takes over from the other: each is to be taken in once. Pure.

NVML's events have no number and no time, so that one which two processes heard is known by what it says and when it came: the
same XID of the same GPU within ``ECHO_S`` is the same event. It matters for the counts alone, since a trouble is no other for
being told twice, and only until ``ECHO_S`` after an instance has read what another one wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from driver.health.observations import EccSeen, Observation, XidSeen
from driver.health.state import ECC_EVENT

ECHO_S = 3.0
"""How much later than another instance one may hear of an event."""
FORGOTTEN_S = 600.0
"""What was heard that much later than an event says nothing of it: a clock was set back."""

Heard = Mapping[str, Mapping[int, datetime]]
"""As ``HealthState.heard``."""


def list_events(seen: Sequence[Observation]) -> list[Observation]:
    """What only whoever listens at the time can know; looks are made again."""
    return [each for each in seen if isinstance(each, XidSeen | EccSeen)]


def list_unheard(seen: Sequence[Observation], heard: Heard) -> list[Observation]:
    """Without the events that another instance has taken in, which has ``heard`` this."""
    return [each for each in seen if not _is_echo(each, heard)]


def _is_echo(seen: Observation, heard: Heard) -> bool:
    match seen:
        case XidSeen():
            last = heard.get(seen.device, {}).get(seen.number)
        case EccSeen():
            last = heard.get(seen.device, {}).get(ECC_EVENT)
        case _:
            return False
    return last is not None and -FORGOTTEN_S <= (seen.at - last).total_seconds() <= ECHO_S
