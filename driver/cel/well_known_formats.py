"""The formats that ``format.dns1123Label()`` and its siblings validate."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from driver.cel.urls import is_url

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_DNS_1035 = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_KEY_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[^\n][0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")
_LABEL_BYTES = 63
_SUBDOMAIN_BYTES = 253


@dataclass(frozen=True, slots=True, eq=False)
class NamedFormat:
    """A format; ``faults`` lists what is wrong with a text, ``regex_size`` is what Kubernetes counts for looking."""

    name: str
    faults: Callable[[str], list[str]]
    regex_size: int


def _too_long(text: str, most: int) -> list[str]:
    return [f"has more than {most} bytes"] if len(text.encode(errors="replace")) > most else []


def _matches(text: str, pattern: re.Pattern[str], what: str) -> list[str]:
    return [] if pattern.fullmatch(text) else [f"is no {what}"]


def _dns_label(text: str) -> list[str]:
    return _too_long(text, _LABEL_BYTES) + _matches(text, _DNS_LABEL, "lowercase DNS label (RFC 1123)")


def _dns_subdomain(text: str) -> list[str]:
    return _too_long(text, _SUBDOMAIN_BYTES) + _matches(text, _DNS_SUBDOMAIN, "lowercase DNS subdomain (RFC 1123)")


def _dns_1035(text: str) -> list[str]:
    return _too_long(text, _LABEL_BYTES) + _matches(text, _DNS_1035, "DNS label (RFC 1035)")


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    def faults(text: str) -> list[str]:
        # A prefix may end with a dash: something follows it.
        return check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)

    return faults


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > 2:
        return ["has more than one slash"]
    faults: list[str] = []
    if len(parts) == 2:
        faults = [f"prefix: {fault}" for fault in _dns_subdomain(parts[0])] if parts[0] else ["prefix: is empty"]
    name = parts[-1]
    faults += ["name: is empty"] if not name else [f"name: {fault}" for fault in _too_long(name, _LABEL_BYTES)]
    return faults + [f"name: {fault}" for fault in _matches(name, _KEY_NAME, "qualified name")]


def _label_value(text: str) -> list[str]:
    return _too_long(text, _LABEL_BYTES) + (_matches(text, _KEY_NAME, "label value") if text else [])


def _is_date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:])
    try:
        # Python has no year 0, Go does; 2000 has its calendar.
        date(year or 2000, month, day)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    found = _TIME.fullmatch(parts[1])
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _yes_or_no(is_right: Callable[[str], bool], what: str) -> Callable[[str], list[str]]:
    return lambda text: [] if is_right(text) else [f"is no {what}"]


FORMATS = {
    "dns1123Label": NamedFormat("DNS1123Label", _dns_label, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _dns_subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _dns_1035, 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix(_dns_label), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix(_dns_subdomain), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix(_dns_1035), 30),
    "labelValue": NamedFormat("LabelValue", _label_value, 40),
    "uri": NamedFormat("URI", _yes_or_no(is_url, "URI"), 1103),
    "uuid": NamedFormat("uuid", lambda text: _matches(text, _UUID, "UUID"), 70),
    "byte": NamedFormat("byte", lambda text: _matches(text, _BASE64, "base64"), 84),
    "date": NamedFormat("date", _yes_or_no(_is_date, "date"), 71),
    "datetime": NamedFormat("datetime", _yes_or_no(_is_datetime, "date and time"), 71),
}
"""By the name in ``format.<name>()``."""
