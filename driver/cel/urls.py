"""URLs as Go reads them: what is one, and its parts."""

from __future__ import annotations

import re
import string

from driver.cel.errors import EvaluationError
from driver.cel.network import parse_ip

_UNRESERVED = frozenset((string.ascii_letters + string.digits + "-_.~").encode())
_KEPT = {
    "path": _UNRESERVED | frozenset(b"$&+,/:;=@"),
    "user": _UNRESERVED | frozenset(b"$&+,;="),
    "host": _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\""),
    "zone": _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\""),
    "query": _UNRESERVED,
    "fragment": _UNRESERVED | frozenset(b"$&+,/:;=?@!()*"),
}
_PATH_AS_WRITTEN = _KEPT["path"] | frozenset(b"!$&'()*+,;=:@[]%")
_FRAGMENT_AS_WRITTEN = _KEPT["fragment"] | frozenset(b"!$&'()*+,;=:@[]%")
_PORT = re.compile(rb"(?::[0-9]*)?")
_USERINFO = re.compile(rb"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_MOST_PARAMETERS = 10_000


class Url:
    """A parsed URL; all parts are bytes as Go holds them."""

    __slots__ = (
        "force_query",
        "fragment",
        "host",
        "omit_host",
        "opaque",
        "path",
        "query",
        "raw_fragment",
        "raw_path",
        "scheme",
        "user",
    )

    def __init__(self) -> None:
        self.scheme = self.opaque = self.host = self.path = self.raw_path = self.query = self.fragment = self.raw_fragment = b""
        self.user: tuple[bytes, bytes | None] | None = None
        self.force_query = self.omit_host = False

    def escaped_path(self) -> bytes:
        """The path as it was written, if that is one way to write it."""
        return _escaped(self.path, self.raw_path, "path", _PATH_AS_WRITTEN)

    def host_and_port(self) -> tuple[bytes, bytes]:
        """Host without brackets, and port."""
        host, port = self.host, b""
        colon = host.rfind(b":")
        if colon != -1 and _PORT.fullmatch(host[colon:]):
            host, port = host[:colon], host[colon + 1 :]
        if host.startswith(b"[") and host.endswith(b"]"):
            host = host[1:-1]
        return host, port

    def query_values(self) -> dict[str, list[str]]:
        """The parameters of the query; wrong ones are left out."""
        values: dict[str, list[str]] = {}
        if self.query.count(b"&") + 1 > _MOST_PARAMETERS:
            return values
        for pair in self.query.split(b"&"):
            if not pair or b";" in pair:
                continue
            key, _, value = pair.partition(b"=")
            try:
                name, content = _unescape(key, "query"), _unescape(value, "query")
            except ValueError:
                continue
            values.setdefault(text_of(name), []).append(text_of(content))
        return values

    def __str__(self) -> str:
        return text_of(b"".join(self._parts()))

    def _parts(self) -> list[bytes]:
        parts = [self.scheme + b":"] if self.scheme else []
        if self.opaque:
            parts.append(self.opaque)
        else:
            parts += self._authority()
            path = self.escaped_path()
            if path and not path.startswith(b"/") and self.host:
                parts.append(b"/")
            if not parts and b":" in path.partition(b"/")[0]:
                parts.append(b"./")
            parts.append(path)
        if self.force_query or self.query:
            parts.append(b"?" + self.query)
        if self.fragment:
            parts.append(b"#" + _escaped(self.fragment, self.raw_fragment, "fragment", _FRAGMENT_AS_WRITTEN))
        return parts

    def _authority(self) -> list[bytes]:
        has_none = not self.host and self.user is None
        if (not self.scheme and has_none) or (self.omit_host and has_none):
            return []
        parts = [b"//"] if self.host or self.path or self.user is not None else []
        if self.user is not None:
            name, password = self.user
            parts.append(_escape(name, "user"))
            if password is not None:
                parts.append(b":" + _escape(password, "user"))
            parts.append(b"@")
        parts.append(_escape(self.host, "host"))
        return [part for part in parts if part]


def parse_url(text: str) -> Url:
    """A URL that is absolute or begins with a slash.

    Raises:
        EvaluationError: no such URL.
    """
    raw = text.encode(errors="replace")
    try:
        _parse(raw, is_request=True)
        before, _, fragment = raw.partition(b"#")
        url = _parse(before, is_request=False)
        url.fragment = _unescape(fragment, "fragment")
        if _escape(url.fragment, "fragment") != fragment:
            url.raw_fragment = fragment
    except ValueError as err:
        raise EvaluationError(f"{text[:80]!r} is no URL: {err}") from err
    return url


def is_url(text: str) -> bool:
    """Whether ``parse_url`` would take it, but for its fragment."""
    try:
        _parse(text.encode(errors="replace"), is_request=True)
    except ValueError:
        return False
    return True


def text_of(raw: bytes) -> str:
    """The text of a part of a URL."""
    return raw.decode(errors="replace")


def _parse(raw: bytes, *, is_request: bool) -> Url:
    if any(byte < 0x20 or byte == 0x7F for byte in raw):
        raise ValueError("it has a control character")
    if not raw and is_request:
        raise ValueError("it is empty")
    url = Url()
    if raw == b"*":
        url.path = raw
        return url
    url.scheme, rest = _split_scheme(raw)
    if rest.endswith(b"?") and rest.count(b"?") == 1:
        url.force_query, rest = True, rest[:-1]
    else:
        rest, _, url.query = rest.partition(b"?")
    if not rest.startswith(b"/") and url.scheme:
        url.opaque = rest
        return url
    if not rest.startswith(b"/") and (is_request or b":" in rest.partition(b"/")[0]):
        raise ValueError("it is neither absolute nor a path from the root")
    return _parse_hierarchy(url, rest, is_request=is_request)


def _parse_hierarchy(url: Url, rest: bytes, *, is_request: bool) -> Url:
    """Authority and path."""
    if (url.scheme or (not is_request and not rest.startswith(b"///"))) and rest.startswith(b"//"):
        authority, slash, path = rest[2:].partition(b"/")
        rest = slash + path
        url.user, url.host = _parse_authority(url.scheme, authority)
    elif url.scheme and rest.startswith(b"/"):
        url.omit_host = True
    url.path = _unescape(rest, "path")
    if _escape(url.path, "path") != rest:
        url.raw_path = rest
    return url


def _split_scheme(raw: bytes) -> tuple[bytes, bytes]:
    found = re.match(rb"([A-Za-z][A-Za-z0-9+\-.]*)?:", raw)
    if found is None:
        return b"", raw
    if found[1] is None:
        raise ValueError("its scheme is missing")
    return found[1].lower(), raw[found.end() :]


def _parse_authority(scheme: bytes, authority: bytes) -> tuple[tuple[bytes, bytes | None] | None, bytes]:
    userinfo, at, host = authority.rpartition(b"@")
    parsed = _parse_host(scheme, host)
    if not at:
        return None, parsed
    if _USERINFO.fullmatch(userinfo) is None:
        raise ValueError("its user has a character that must be escaped")
    name, colon, password = userinfo.partition(b":")
    return (_unescape(name, "user"), _unescape(password, "user") if colon else None), parsed


def _parse_host(scheme: bytes, host: bytes) -> bytes:
    bracket = host.rfind(b"[")
    if bracket > 0:
        raise ValueError("its host has a bracket in the middle")
    if bracket == 0:
        return _parse_bracketed(host)
    colon = host.find(b":")
    if colon != -1 and scheme not in (b"http", b"https"):
        colon = host.rfind(b":")
    if colon != -1 and _PORT.fullmatch(host[colon:]) is None:
        raise ValueError("its port is no number")
    return _unescape(host, "host")


def _parse_bracketed(host: bytes) -> bytes:
    close = host.rfind(b"]")
    if close < 0:
        raise ValueError("its host has no closing bracket")
    if _PORT.fullmatch(host[close + 1 :]) is None:
        raise ValueError("its port is no number")
    name = host[1:close]
    zone_at = name.find(b"%25")
    if zone_at >= 0:
        plain, zone = _unescape(name[:zone_at], "host"), _unescape(name[zone_at:], "zone")
    else:
        plain, zone = _unescape(name, "host"), b""
    _check_ipv6(text_of(plain), zone)
    return b"[" + plain + zone + b"]" + host[close + 1 :]


def _check_ipv6(text: str, zone: bytes) -> None:
    address, percent, name = text.partition("%")
    if zone == b"%" or (percent and not name and not zone):
        raise ValueError("the zone of its address is empty")
    try:
        is_v6 = ":" in address and (address.lower().startswith("::ffff:") or parse_ip(address).address.version == 6)
    except EvaluationError as err:
        raise ValueError(str(err)) from err
    if not is_v6:
        raise ValueError("its host in brackets is no IPv6 address")


def _unescape(raw: bytes, mode: str) -> bytes:
    out = bytearray()
    position = 0
    while position < len(raw):
        byte = raw[position]
        if byte == 0x25:
            code = raw[position + 1 : position + 3]
            if len(code) < 2 or not _HEX.issuperset(code):
                raise ValueError("it has a wrong escape")
            _check_escape(code, mode)
            out.append(int(code, 16))
            position += 3
            continue
        if mode in ("host", "zone") and byte < 0x80 and byte not in _KEPT[mode]:
            raise ValueError("its host has a character that must be escaped")
        out.append(0x20 if byte == 0x2B and mode == "query" else byte)
        position += 1
    return bytes(out)


def _check_escape(code: bytes, mode: str) -> None:
    if mode == "host" and int(code[:1], 16) < 8 and code != b"25":
        raise ValueError("its host has an escape that is not allowed")
    if mode == "zone" and code != b"25" and int(code, 16) != 0x20 and int(code, 16) not in _KEPT["host"]:
        raise ValueError("the zone of its address has an escape that is not allowed")


def _escape(raw: bytes, mode: str) -> bytes:
    kept = _KEPT[mode]
    return b"".join(bytes([byte]) if byte in kept else b"%%%02X" % byte for byte in raw)


def _escaped(plain: bytes, raw: bytes, mode: str, as_written: frozenset[int]) -> bytes:
    if raw and as_written.issuperset(raw):
        try:
            if _unescape(raw, mode) == plain:
                return raw
        except ValueError:
            return _escape(plain, mode)
    return plain if plain == b"*" and mode == "path" else _escape(plain, mode)
