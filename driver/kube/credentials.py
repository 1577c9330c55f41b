"""Where the API server is and how we prove who we are: from the pod's service account, or from a kubeconfig.

``Credentials`` is a value plus one live part: ``Authorization`` gives the header's value again for each request, since service
account tokens are replaced while we run. Nothing here speaks HTTP. What is wrong in a file is a ``SettingsInvalid`` that names
the file and the field; the text never holds a secret.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from driver.errors import SettingsInvalid

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_MAX_AGE_S = 60.0
"""The kubelet replaces a token well before it ends; a minute is what the official clients allow themselves."""

_TOKEN_MAX_BYTES = 64 * 1024
_PORTS = {"https": 443, "http": 80}
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """What a TLS connection to the server needs. Empty text is "not given"; an empty CA means the system's store."""

    ca_pem: str = ""
    client_cert_pem: str = ""
    client_key_pem: str = field(default="", repr=False)
    server_name: str = ""
    is_verified: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One API server: ``server`` is scheme, host, port and an optional path, without a slash at the end."""

    server: str
    tls: Tls = Tls()
    proxy_url: str = ""


class Authorization(Protocol):
    """Gives the ``Authorization`` header, and forgets what the server refused."""

    def read_header(self) -> str | None:
        """The header's value now; None to send none. Raises ``SettingsInvalid`` when there is nothing to send."""

    def forget(self) -> bool:
        """The server answered 401: True when the next ``read_header`` may give something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """An endpoint and who we are there; ``source`` says where both came from, for messages."""

    endpoint: Endpoint
    authorization: Authorization
    source: str


@dataclass(frozen=True, slots=True)
class FixedHeader:
    """The same header for ever: a literal token, a password, or none (client certificates)."""

    value: str | None = field(default=None, repr=False)

    def read_header(self) -> str | None:
        """The value."""
        return self.value

    def forget(self) -> bool:
        """A fixed header has no successor."""
        return False


class TokenFile:
    """A bearer token in a file, read again after a minute, or at once when the server refused it."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._read_at = float("-inf")

    def read_header(self) -> str | None:
        """``Bearer <token>``. A file that cannot be read is no error while an earlier token is known."""
        with self._lock:
            if self._clock() - self._read_at >= TOKEN_MAX_AGE_S:
                self._read()
            return f"Bearer {self._token}"

    def forget(self) -> bool:
        """Read the file again at the next request."""
        with self._lock:
            self._read_at = float("-inf")
        return True

    def _read(self) -> None:
        try:
            self._token = read_token(self._path)
        except SettingsInvalid:
            if not self._token:
                raise
            # the kubelet is replacing the file; the old token is good for minutes
        self._read_at = self._clock()


def read_credentials(kubeconfig: str = "", context: str = "", environ: Mapping[str, str] | None = None) -> Credentials:
    """What ``kubeconfig`` (paths joined by ``:``) says; without one, the pod's own service account.

    Outside of a pod and without a path, ``$KUBECONFIG`` and then ``~/.kube/config`` are used, as kubectl does.
    """
    env = os.environ if environ is None else environ
    if not kubeconfig and not context and env.get("KUBERNETES_SERVICE_HOST"):
        return read_in_cluster(env)
    from driver.kube.kubeconfig import read_kubeconfig  # noqa: PLC0415  a pod needs no YAML parser in memory

    return read_kubeconfig(_split_paths(kubeconfig, env), context=context, environ=env)


def read_namespace(kubeconfig: str = "", context: str = "", environ: Mapping[str, str] | None = None) -> str:
    """The namespace that ``read_credentials`` with the same arguments comes with: the context's, the pod's own, ``default``."""
    env = os.environ if environ is None else environ
    if not kubeconfig and not context and env.get("KUBERNETES_SERVICE_HOST"):
        return read_text(SERVICE_ACCOUNT_DIR / "namespace", what="the pod's namespace").strip()
    from driver.kube.kubeconfig import read_context_namespace  # noqa: PLC0415

    return read_context_namespace(_split_paths(kubeconfig, env), context=context) or "default"


def read_in_cluster(environ: Mapping[str, str], account_dir: Path = SERVICE_ACCOUNT_DIR) -> Credentials:
    """The service account that every pod is given. Raises ``SettingsInvalid`` where a part of it is missing."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port.isdigit():
        raise SettingsInvalid(
            f"in-cluster credentials: KUBERNETES_SERVICE_HOST is {host!r} and KUBERNETES_SERVICE_PORT is {port!r}; "
            "both are set in every pod: outside of one, give --kubeconfig"
        )
    shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
    tls = Tls(ca_pem=read_text(account_dir / "ca.crt", what="the cluster's CA"))
    server = f"https://{shown}:{port}"
    token = TokenFile(account_dir / "token")
    token.read_header()
    endpoint = Endpoint(server=server, tls=tls, proxy_url=choose_proxy(server, "", environ))
    return Credentials(endpoint=endpoint, authorization=token, source=f"service account in {account_dir}")


def choose_proxy(server: str, configured: str, environ: Mapping[str, str]) -> str:
    """The proxy for ``server``: the kubeconfig's own, else the usual variables, unless ``NO_PROXY`` names the host."""
    parts = urlsplit(server)
    if configured:
        return configured
    proxy = environ.get(f"{parts.scheme}_proxy") or environ.get(f"{parts.scheme.upper()}_PROXY") or ""
    no_proxy = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return "" if _is_bypassed(parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0), no_proxy) else proxy


def _is_bypassed(host: str, port: int, no_proxy: str) -> bool:
    """Whether the server needs no proxy, as Go's programs see it: it is on this machine, or ``NO_PROXY`` names it."""
    address = _read_address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_names(entry.strip().lower(), host, address, port) for entry in no_proxy.split(","))


def _names(entry: str, host: str, address: _Address | None, port: int) -> bool:
    """Whether an entry of ``NO_PROXY`` is the server's name, a parent domain, address or range; some have a port."""
    if entry == "*":
        return True
    plain, _, of_port = entry.rpartition(":") if entry.count(":") == 1 or "]:" in entry else (entry, "", "")
    if of_port not in ("", str(port)):
        return False
    plain = plain.removeprefix("[").removesuffix("]")
    if address is not None:
        try:
            return address in ipaddress.ip_network(plain, strict=False)
        except ValueError:
            return False
    name = plain.removeprefix("*").removeprefix(".")
    return bool(name) and (host == name or host.endswith("." + name))


def _read_address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def read_token(path: Path) -> str:
    """A bearer token from a file. Raises ``SettingsInvalid`` where no header could hold what is there."""
    text = read_text(path, what="the token", max_bytes=_TOKEN_MAX_BYTES).strip()
    if not is_header_text(text):
        raise SettingsInvalid(f"the token in {path} is empty or holds characters that no header may hold")
    return text


def read_text(path: Path, *, what: str, max_bytes: int = 1 << 20, where_absent: str = "") -> str:
    """A small text file. Raises ``SettingsInvalid`` that says what it should have held; ``where_absent`` if it is not there."""
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise SettingsInvalid(f"reading {what} from {path}: more than {max_bytes} bytes")
        return data.decode()
    except OSError as err:
        hint = f"; {where_absent}" if where_absent and isinstance(err, FileNotFoundError) else ""
        raise SettingsInvalid(f"reading {what} from {path}: {err.strerror or err}{hint}") from err
    except UnicodeDecodeError as err:
        raise SettingsInvalid(f"reading {what} from {path}: not UTF-8 text") from err


def is_header_text(text: str) -> bool:
    """Whether ``text`` can stand in a header: a newline in a token would start a header of its own."""
    return bool(text) and text.isascii() and text.isprintable()


def encode_basic(username: str, password: str) -> str:
    """The header's value for a user name and a password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def _split_paths(given: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    joined = given or environ.get("KUBECONFIG", "") or str(Path(environ.get("HOME", "/root")) / ".kube" / "config")
    return tuple(Path(each) for each in joined.split(os.pathsep) if each)
