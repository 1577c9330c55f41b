"""A kubeconfig as kubectl reads it: several files merged, a context, a cluster, a user; embedded data or files beside it.

Every complaint names the file and the field (``users[admin].user.client-key-data``), never the value of a secret one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from driver.errors import SettingsInvalid
from driver.kube.credentials import (
    Authorization,
    Credentials,
    Endpoint,
    FixedHeader,
    Tls,
    TokenFile,
    choose_proxy,
    encode_basic,
    is_header_text,
    read_text,
)

if TYPE_CHECKING:
    from driver.kube.exec_credentials import PluginCredentials

_MAX_BYTES = 4 << 20
_WHERE_ABSENT = "name one with --kubeconfig or $KUBECONFIG"
_WHAT_IS_RIGHT = "`kubectl config view --raw` prints a whole one"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One named cluster, user or context, and the file that it came from (relative paths start there)."""

    file: Path
    where: str
    fields: Mapping[str, Any]

    def text(self, key: str) -> str:
        """A field that must be text where it is given."""
        value = self.fields.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.fault(key, f"must be text, is {type(value).__name__}")
        return value

    def flag(self, key: str) -> bool:
        """A field that must be true or false where it is given."""
        value = self.fields.get(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.fault(key, f"must be true or false, is {type(value).__name__}")
        return value

    def pem(self, key: str) -> str:
        """What ``<key>-data`` holds (base64), else the file that ``<key>`` names. The data wins, as in kubectl."""
        data = "".join(self.text(f"{key}-data").split())  # Rancher folds it, and kubectl reads it
        if data:
            try:
                return base64.b64decode(data, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError) as err:
                raise self.fault(f"{key}-data", "is not base64 of PEM text") from err
        name = self.text(key)
        return read_text(self.file.parent / name, what=f"{self.where}.{key}") if name else ""

    def fault(self, key: str, what: str) -> SettingsInvalid:
        """The error for one field."""
        return SettingsInvalid(f"kubeconfig {self.file}: {self.where}.{key} {what}")


def read_kubeconfig(paths: Sequence[Path], *, context: str, environ: Mapping[str, str]) -> Credentials:
    """Credentials of ``context``, or of the current one. A name that two files define is taken from the first."""
    documents = _read_documents(paths)
    name = _choose_context(documents, context)
    files = ", ".join(str(path) for path, _ in documents)
    chosen = _find(documents, ("contexts", "context"), name, named_by="the chosen context")
    cluster = _find(documents, ("clusters", "cluster"), chosen.text("cluster"), named_by=f"{chosen.where}.cluster")
    user_name = chosen.text("user")
    user = _find(documents, ("users", "user"), user_name, named_by=f"{chosen.where}.user") if user_name else None
    return _build_credentials(cluster, user, environ, source=f"context {name!r} of kubeconfig {files}")


def read_context_namespace(paths: Sequence[Path], *, context: str) -> str:
    """The namespace of ``context``, or of the current one; empty where it names none."""
    documents = _read_documents(paths)
    name = _choose_context(documents, context)
    return _find(documents, ("contexts", "context"), name, named_by="the chosen context").text("namespace")


def _read_documents(paths: Sequence[Path]) -> list[tuple[Path, Mapping[str, Any]]]:
    documents = [(path, _read_document(path)) for path in paths if path.exists() or len(paths) == 1]
    if not documents:
        raise SettingsInvalid(f"kubeconfig: none of {', '.join(map(str, paths))} exists; give --kubeconfig, or run in a pod")
    return documents


def _choose_context(documents: Sequence[tuple[Path, Mapping[str, Any]]], context: str) -> str:
    name = context or next((str(each["current-context"]) for _, each in documents if each.get("current-context")), "")
    if not name:
        files = ", ".join(str(path) for path, _ in documents)
        raise SettingsInvalid(f"kubeconfig {files}: current-context is not set; `kubectl config use-context` sets it")
    return name


def _build_credentials(cluster: _Entry, user: _Entry | None, environ: Mapping[str, str], *, source: str) -> Credentials:
    server = cluster.text("server").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise cluster.fault("server", f"must be an http:// or https:// URL, is {server!r}")
    authorization, cert_pem, key_pem = _read_user(user)
    if bool(cert_pem) != bool(key_pem) and user is not None:
        missing = "client-key" if cert_pem else "client-certificate"
        raise user.fault(missing, "is missing; a client certificate and its key come together")
    tls = Tls(
        ca_pem=cluster.pem("certificate-authority"),
        client_cert_pem=cert_pem,
        client_key_pem=key_pem,
        server_name=cluster.text("tls-server-name"),
        is_verified=not cluster.flag("insecure-skip-tls-verify"),
    )
    if tls.ca_pem and not tls.is_verified:
        raise cluster.fault("insecure-skip-tls-verify", "contradicts the certificate-authority beside it; keep one")
    proxy = choose_proxy(server, cluster.text("proxy-url"), environ)
    return Credentials(endpoint=Endpoint(server=server, tls=tls, proxy_url=proxy), authorization=authorization, source=source)


def _read_user(user: _Entry | None) -> tuple[Authorization, str, str]:
    """Who we are: a header's source, and a client certificate with its key. The order is kubectl's."""
    if user is None:
        return FixedHeader(), "", ""
    _refuse_impersonation(user)
    if user.fields.get("auth-provider"):
        raise user.fault("auth-provider", "is no longer known to Kubernetes (since 1.26); use an exec plugin")
    cert_pem, key_pem = user.pem("client-certificate"), user.pem("client-key")
    if user.fields.get("exec"):
        found = _run_plugin(user)
        return found.authorization, found.client_cert_pem or cert_pem, found.client_key_pem or key_pem
    return _choose_header(user), cert_pem, key_pem


def _refuse_impersonation(user: _Entry) -> None:
    """Whoever is to act as somebody else must not act with rights of its own, which are often more."""
    for key in ("as", "as-uid", "as-groups", "as-user-extra"):
        if user.fields.get(key):
            raise user.fault(key, "is set, and acting as somebody else is not supported; name a user of its own")


def _run_plugin(user: _Entry) -> PluginCredentials:
    try:
        from driver.kube.exec_credentials import run_exec_plugin  # noqa: PLC0415  costs 13 MB, and a pod never needs it
    except ModuleNotFoundError as err:
        raise user.fault(
            "exec", f"needs a package that is not installed ({err.name}): pip install 'gpu-dra[kubeconfig-plugins]'"
        ) from err
    return run_exec_plugin(user.fields["exec"], directory=user.file.parent, where=f"kubeconfig {user.file}: {user.where}")


def _choose_header(user: _Entry) -> Authorization:
    token_file, token = user.text("tokenFile"), user.text("token")
    if token_file:
        return TokenFile(user.file.parent / token_file)
    if token:
        if not is_header_text(token):
            raise user.fault("token", "holds characters that no header may hold")
        return FixedHeader(f"Bearer {token}")
    username = user.text("username")
    return FixedHeader(encode_basic(username, user.text("password"))) if username else FixedHeader()


def _read_document(path: Path) -> Mapping[str, Any]:
    text = read_text(path, what="a kubeconfig", max_bytes=_MAX_BYTES, where_absent=_WHERE_ABSENT)
    try:
        document = yaml.load(text, Loader=_LOADER)  # noqa: S506  one of the two safe loaders
    except (yaml.YAMLError, RecursionError, ValueError) as err:
        mark = getattr(err, "problem_mark", None)
        at = f" at line {mark.line + 1}" if mark else ""
        raise SettingsInvalid(f"kubeconfig {path}: not YAML{at}; {_WHAT_IS_RIGHT}") from err
    if not isinstance(document, dict):
        raise SettingsInvalid(f"kubeconfig {path}: must be a mapping with clusters, users and contexts; {_WHAT_IS_RIGHT}")
    return document


def _find(documents: Sequence[tuple[Path, Mapping[str, Any]]], kind: tuple[str, str], name: str, *, named_by: str) -> _Entry:
    plural, singular = kind
    for path, document in documents:
        for entry in _named_entries(path, document, plural):
            if entry.get("name") == name:
                fields = entry.get(singular) or {}
                if not isinstance(fields, dict):
                    raise SettingsInvalid(f"kubeconfig {path}: {plural}[{name}].{singular} must be a mapping")
                return _Entry(file=path, where=f"{plural}[{name}].{singular}", fields=fields)
    files = ", ".join(str(path) for path, _ in documents)
    known = sorted(str(each.get("name")) for path, doc in documents for each in _named_entries(path, doc, plural))
    hint = f"has only: {', '.join(known)}; name one of them" if known else f"has nothing; {_WHAT_IS_RIGHT}"
    raise SettingsInvalid(f"kubeconfig {files}: {named_by} is {name!r}, and {plural} {hint}")


def _named_entries(path: Path, document: Mapping[str, Any], plural: str) -> Iterator[Mapping[str, Any]]:
    entries = document.get(plural) or []
    if not isinstance(entries, list):
        raise SettingsInvalid(f"kubeconfig {path}: {plural} must be a list")
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise SettingsInvalid(f"kubeconfig {path}: {plural}[{index}] must be a mapping with a name")
        yield entry
