"""Which socket paths an instance uses. Pure.

Names are per instance, always: a second server on a path takes over a live socket without an error, and the loser's stop
then removes the winner's file (R15). A path has at most 107 bytes, since the kernel's 108 include the closing NUL (B55, B56);
a name that does not fit is replaced by a shorter one that follows from the same instance, so that it is found again.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from driver.errors import SettingsInvalid, SocketPathTooLong
from driver.names import is_dns_subdomain

MAX_PATH_BYTES = 107

_INSTANCE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketPaths:
    """Where an instance is found."""

    instance: str
    service: Path
    """The DRA service: what ``GetInfo`` names as the endpoint."""
    registration: Path
    """What the kubelet finds in its registration folder."""
    lock: Path
    """Held by ``flock`` as long as the instance lives; its content names the two sockets."""


def choose_socket_paths(*, driver_name: str, instance: str, plugin_dir: Path, registry_dir: Path) -> SocketPaths:
    """The paths of the instance ``instance`` (a pod's uid, or any other word that no other instance has).

    Raises:
        SettingsInvalid: a name with characters that do not belong into a file name, or a folder that is not absolute.
        SocketPathTooLong: no name of this instance fits below a folder.
    """
    _validate_names(driver_name, instance, plugin_dir, registry_dir)
    short = encode_digest(instance, 8)
    both = f"{driver_name}\0{instance}"
    return SocketPaths(
        instance=instance,
        service=_choose_fitting(plugin_dir, (f"dra-{instance}.sock", f"dra-{short}.sock", f"{short}.sock")),
        registration=_choose_fitting(
            registry_dir,
            (
                f"{driver_name}-{instance}-reg.sock",
                f"{driver_name}-{short}-reg.sock",
                f"dra-{encode_digest(both, 16)}-reg.sock",
                f"dra-{encode_digest(both, 8)}.sock",
            ),
        ),
        lock=plugin_dir / f"dra-{instance}.lock",
    )


def build_hidden_path(socket_path: Path, generation: int) -> Path:
    """Where the socket of ``socket_path`` is bound before it is renamed: a name that the kubelet's watcher skips.

    Never longer than the name it stands for, and another for each generation: gRPC removes the file that it bound when its
    server ends, which can be after the next one was bound.
    """
    return socket_path.with_name(f"{build_hidden_prefix(socket_path)}{generation % 1000}")


def build_hidden_prefix(socket_path: Path) -> str:
    """What all hidden names of ``socket_path`` begin with."""
    return f".{encode_digest(socket_path.name, 6)}"


def encode_digest(text: str, size_bytes: int) -> str:
    """The first bytes of the SHA-256 of ``text``, in base64 for file names, without padding."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()[:size_bytes]
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def _choose_fitting(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if len(os.fsencode(folder / name)) <= MAX_PATH_BYTES:
            return folder / name
    shortest = folder / min(names, key=len)
    raise SocketPathTooLong(
        f"choosing a socket path below {folder}: the shortest is {len(os.fsencode(shortest))} bytes ({shortest}), "
        f"the limit is {MAX_PATH_BYTES}; use a shorter folder, such as one under /run"
    )


def _validate_names(driver_name: str, instance: str, plugin_dir: Path, registry_dir: Path) -> None:
    if len(driver_name) > 63 or not is_dns_subdomain(driver_name):
        raise SettingsInvalid(f"driver name {driver_name!r:.100}: not a DNS name of at most 63 characters")
    if _INSTANCE.fullmatch(instance) is None:
        raise SettingsInvalid(f"instance {instance!r:.100} (the pod's uid): letters, digits and dashes only, at most 63")
    for what, folder in (("plugin folder", plugin_dir), ("registration folder", registry_dir)):
        if not folder.is_absolute():
            raise SettingsInvalid(f"{what} {folder}: the kubelet needs an absolute path")
