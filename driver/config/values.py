"""The check of each kind of setting: text in, value out. A ``ValueError`` says what is wrong and what would be right."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from driver.names import is_dns_label, is_dns_subdomain

_POD_UID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_MACHINE = re.compile(r"[^\s@\x00-\x1f][^\x00-\x1f]*")
_SHARES = re.compile(r"disabled|memory(:[A-Za-z0-9:.-]{1,64}(,[A-Za-z0-9:.-]{1,64})*)?")
_PORT = re.compile(r"[0-9]{1,5}")
_HOST = re.compile(r"[A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]")
_DECIMAL = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_TIME = re.compile(r"([0-9]{1,6})([smh]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_SHOWN = 60


def shown(text: str) -> str:
    """The text in quotes, escaped, and cut where it is long: what a person typed never runs wild in an error."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}... ({len(text)} characters)"


def choice(*options: str) -> Callable[[str], str]:
    """A check that lets exactly these words pass."""

    def parse(text: str) -> str:
        if text not in options:
            raise ValueError(f"{shown(text)} is not a choice; say {' or '.join(options)}")
        return text

    return parse


def parse_path(text: str) -> Path:
    """An absolute path, with ``.`` and doubled slashes taken out."""
    if "\x00" in text or "\n" in text:
        raise ValueError(f"{shown(text)} holds a NUL or a line break; give a plain path")
    if not text.startswith("/"):
        raise ValueError(f"{shown(text)} is not absolute; give a path that starts with /")
    return Path("/" + text.lstrip("/"))  # pathlib keeps a doubled slash at the front


def parse_node_name(text: str) -> str:
    """A node's name: a DNS subdomain of at most 253 bytes."""
    if not is_dns_subdomain(text):
        raise ValueError(
            f"{shown(text)} is no node name; give the name that `kubectl get nodes` shows (lower case, digits, - and .)"
        )
    return text


def parse_driver_name(text: str) -> str:
    """A DRA driver's name: a lower-case DNS subdomain of at most 63 bytes."""
    if len(text) > 63 or not is_dns_subdomain(text):
        raise ValueError(
            f"{shown(text)} is no driver name; give a lower-case DNS name of at most 63 bytes such as gpu.nvidia.com"
        )
    return text


def parse_nvml(text: str) -> str:
    """``real``, or ``mock:`` with a machine's name or file and, after ``@``, a seed; whether there is one, the mock says."""
    kind, colon, machine = text.partition(":")
    if text == "real" or (kind == "mock" and colon and _MACHINE.fullmatch(machine)):
        return text
    raise ValueError(f"{shown(text)} is no NVML; say real, mock:dgx-h100, mock:dgx-h100@node-b or mock:/path/of/machine.yaml")


def parse_shares(text: str) -> str:
    """``disabled``, ``memory``, or ``memory:`` and a list of GPUs; whether they are there, the node says."""
    if not _SHARES.fullmatch(text):
        raise ValueError(
            f"{shown(text)} is no way to divide GPUs; say disabled, memory, or memory:GPU,GPU "
            "(device names, PCI addresses or UUIDs)"
        )
    return text


def parse_pod_uid(text: str) -> str:
    """The uid of the pod that this process runs in; it becomes a part of socket names."""
    if not _POD_UID.fullmatch(text):
        raise ValueError(f"{shown(text)} is no pod uid; take it from the downward API (fieldRef metadata.uid)")
    return text


def parse_seconds(text: str) -> int:
    """A time in whole seconds, minutes or hours, at least a second: ``900``, ``900s``, ``15m``, ``1h``."""
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError(f"{shown(text)} is no time; say 900, 900s, 15m or 1h")
    seconds = int(match[1]) * _SECONDS[match[2]]
    if not seconds:
        raise ValueError(f"{shown(text)} is too short; say at least 1s, such as 900s, 15m or 1h")
    return seconds


def parse_decimal_seconds(text: str) -> float:
    """A time in seconds, with or without a fraction: ``60``, ``1.5``."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{shown(text)} is no time; say seconds, such as 60 or 1.5")
    if not float(text):
        raise ValueError(f"{shown(text)} s is too short; say more than 0 seconds, such as 60 or 1.5")
    return float(text)


def parse_namespace(text: str) -> str:
    """A namespace's name."""
    if not is_dns_label(text):
        raise ValueError(f"{shown(text)} is no namespace; give the name that `kubectl get namespaces` shows")
    return text


def parse_object_in_namespace(text: str) -> str:
    """An object's name."""
    if not is_dns_subdomain(text):
        raise ValueError(f"{shown(text)} is no object's name; say one such as gpu-dra-controller (lower case, digits, - and .)")
    return text


def parse_names(text: str) -> str:
    """Names with commas between them, at least one."""
    names = [each.strip() for each in text.split(",")]
    if not all(is_dns_subdomain(each) for each in names):
        raise ValueError(f"{shown(text)} is no list of names; say one or more, such as default-scheduler,batch")
    return ",".join(dict.fromkeys(names))


def parse_object_name(text: str) -> str:
    """The namespace and the name of an object: ``gpu-dra/gpu-dra-controller``."""
    namespace, slash, name = text.partition("/")
    if not slash or not is_dns_label(namespace) or not is_dns_subdomain(name):
        raise ValueError(f"{shown(text)} is not NAMESPACE/NAME; say it as in gpu-dra/gpu-dra-controller")
    return text


def parse_address(text: str) -> str:
    """``host:port``; ``:port``, which becomes ``[::]:port``, all interfaces; or ``unix:/path`` of at most 107 bytes."""
    if text.startswith("unix:"):
        if re.match(r"unix://[^/]", text):
            raise ValueError(f"{shown(text)} has a host; say unix:/path/of/socket")
        path = parse_path(text.removeprefix("unix:"))
        if len(str(path).encode()) > 107:
            raise ValueError(f"{shown(text)} is longer than the 107 bytes that a socket path may have; give a shorter path")
        return f"unix:{path}"
    host, colon, port = text.rpartition(":")
    if not colon or not _HOST.fullmatch(host) or not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
        raise ValueError(f"{shown(text)} is no address; say HOST:PORT, :PORT or unix:/path/of/socket")
    return f"{host or '[::]'}:{port}"
