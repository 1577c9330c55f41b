"""Why there is no answer from the API server, in plain words: of which server, what went wrong, what to do about it.

Pure: from the exception of a socket, of OpenSSL or of ``http.client`` to a text. ``connection`` marks what it raises, so that
it is known whether anything was sent, and to whom.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Mapping
from typing import TypeAlias

from driver.kube.connection import AnswerBroken, ConnectionLost, NotConnected, Place

Words: TypeAlias = tuple[str, str]
"""What went wrong, and what to do."""

_ADDRESS = "is the address right (`server` of the kubeconfig, KUBERNETES_SERVICE_HOST in a pod)?"
_IS_API = f"is an API server there, and {_ADDRESS}"
_PROXY = "look at HTTPS_PROXY and NO_PROXY, or proxy-url of the kubeconfig"
_CLIENT = "look at the client certificate of the kubeconfig's user"
_OVERLOAD = "the server may be starting, ending or overloaded: its log says"

_BY_ERRNO: Mapping[int, Words] = {
    errno.ECONNREFUSED: ("connection refused: nothing listens there", f"is the server up, and {_ADDRESS}"),
    errno.EHOSTUNREACH: ("no route to host", "is that machine up, and is there a network (CNI, VPN, firewall) between?"),
    errno.ENETUNREACH: ("no route to that network", "has this machine, or pod, a network and a default route (CNI, VPN)?"),
    errno.ECONNRESET: ("connection reset by the other side", f"{_OVERLOAD}; or {_IS_API}"),
    errno.EPIPE: ("the other side closed the connection while the request was sent", _OVERLOAD),
    errno.ETIMEDOUT: ("the other side fell silent, and no longer acknowledges what is sent", "is that machine still up?"),
    errno.EADDRNOTAVAIL: (
        "this machine has no free port, or no such address, to connect from",
        "see `ss -s` for what has them",
    ),
    errno.EMFILE: ("this process has as many files and connections open as it may", "raise its limit (ulimit -n)"),
    errno.ENFILE: ("this machine has as many files open as it may", "see fs.file-max"),
    errno.EACCES: ("this machine does not let the connection out", "look at its firewall and the pod's policies"),
    errno.EPERM: ("this machine does not let the connection out", "look at its firewall and the NetworkPolicies"),
}

_NOT_THE_CA = (
    "its certificate is not signed by a CA that is trusted here",
    "is it the server that the CA is of (certificate-authority of the kubeconfig, ca.crt of the service account)? "
    "Behind a proxy that opens TLS, give the proxy's CA",
)
_OTHER_NAME = ("its certificate is for another name", f"{_ADDRESS} If it is, set tls-server-name in the kubeconfig")
_BY_VERIFY_CODE: Mapping[int, Words] = {
    9: ("its certificate is not valid yet", "is the clock right, here and there?"),
    10: ("its certificate has expired", "renew it there (`kubeadm certs renew apiserver`), or is the clock here wrong?"),
    62: _OTHER_NAME,
    64: _OTHER_NAME,
}
_BY_TLS_REASON: Mapping[str, Words] = {
    "WRONG_VERSION_NUMBER": ("what it speaks is not TLS", f"is it http:// and not https://? {_IS_API}"),
    "HTTP_REQUEST": ("what it speaks is not TLS", f"is it http:// and not https://? {_IS_API}"),
    "UNEXPECTED_EOF_WHILE_READING": ("it closed the connection in the middle of TLS", _IS_API),
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": ("it wants a client certificate, and there is none", _CLIENT),
    "SSLV3_ALERT_BAD_CERTIFICATE": ("it does not accept our client certificate", _CLIENT),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": ("it says that our client certificate has expired", _CLIENT),
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": ("it does not accept our client certificate", _CLIENT),
    "TLSV1_ALERT_UNKNOWN_CA": ("our client certificate is not signed by a CA that it trusts", _CLIENT),
}


def describe_failure(err: BaseException, place: Place, *, silence_s: float) -> str:
    """The text of an ``ApiUnreachable``. ``silence_s`` is how long an answer was waited for."""
    via = f" through the proxy {place.proxy_name}" if place.proxy else ""
    what, advice = _explain(err, place, silence_s)
    return f"no answer from the API server at {place.url}{via}: {what}; {advice}"


def _explain(err: BaseException, place: Place, silence_s: float) -> Words:
    if isinstance(err, NotConnected):
        return _explain_unconnected(err, place)
    root = err.__cause__ if isinstance(err, ConnectionLost) and err.__cause__ is not None else err
    if isinstance(root, TimeoutError) and root.errno is None:
        return f"timed out, nothing came for {silence_s:g} s", _OVERLOAD
    if isinstance(root, AnswerBroken):
        return str(root), _IS_API
    return _explain_os_error(root)


def _explain_unconnected(err: NotConnected, place: Place) -> Words:
    root = err.__cause__ or err
    whom = place.proxy_name if place.proxy else place.host
    if isinstance(root, TimeoutError) and root.errno in {None, errno.ETIMEDOUT}:
        return (
            f"timed out, no connection within {err.waited_s:g} s",
            f"is that machine up, does a firewall drop it, and {_ADDRESS}",
        )
    if isinstance(root, socket.gaierror):
        return _explain_name(root, whom)
    if isinstance(root, UnicodeError):
        return f"{whom!r} is no name of a host", _ADDRESS
    what, advice = _explain_os_error(root)
    is_of_proxy = place.proxy is not None and not isinstance(root, ssl.SSLError)
    return (f"the proxy: {what}", _PROXY) if is_of_proxy else (what, advice)


def _explain_name(err: socket.gaierror, host: str) -> Words:
    if err.errno in {socket.EAI_AGAIN, socket.EAI_FAIL}:
        return f"the name {host!r} cannot be looked up now", "does DNS answer here (/etc/resolv.conf)?"
    return f"there is no host of the name {host!r}", f"{_ADDRESS} Does DNS know it here?"


def _explain_os_error(err: BaseException) -> Words:
    if isinstance(err, ConnectionLost) or (isinstance(err, ConnectionError) and err.errno is None):  # http.client's own
        return "it closed the connection without an answer", f"{_OVERLOAD}; or {_IS_API}"
    if isinstance(err, ssl.SSLEOFError) and err.reason is None:
        return "it closed the connection in the middle of TLS", f"{_CLIENT}; or {_OVERLOAD}"
    if isinstance(err, ssl.SSLCertVerificationError):
        what, advice = _BY_VERIFY_CODE.get(err.verify_code, _NOT_THE_CA)
        return f"{what} ({err.verify_message.rstrip('.')})", advice
    if isinstance(err, ssl.SSLError):
        reason = err.reason or type(err).__name__
        return _BY_TLS_REASON.get(reason, (f"TLS could not be agreed on ({reason})", _IS_API))
    if isinstance(err, OSError) and err.errno is not None and err.errno in _BY_ERRNO:
        return _BY_ERRNO[err.errno]
    return str(err)[:300] or type(err).__name__, _IS_API
