"""Certificates and kubeconfigs of one cluster, made by openssl."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from hack.devcluster.layout import DevclusterError, Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A certificate: its file name, its subject and the names it is valid for."""

    name: str
    subject: str
    valid_for: str


def plan_identities(layout: Layout) -> tuple[Identity, ...]:
    """Everyone who needs a certificate."""
    server_names = "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1"
    node = f"/O=system:nodes/CN=system:node:{layout.node}"
    return (
        Identity(name="apiserver", subject="/CN=kube-apiserver", valid_for=server_names),
        Identity(name="admin", subject="/O=system:masters/CN=admin", valid_for="DNS:admin"),
        Identity(name="scheduler", subject="/CN=system:kube-scheduler", valid_for="DNS:scheduler"),
        Identity(name="kcm", subject="/CN=system:kube-controller-manager", valid_for="DNS:kcm"),
        Identity(name=layout.node, subject=node, valid_for=f"DNS:{layout.node},IP:127.0.0.1"),
    )


def write_pki(layout: Layout) -> None:
    """Write a new authority, one certificate each, the service account key, and a kubeconfig each."""
    layout.pki.mkdir(parents=True, exist_ok=True)
    layout.pki.chmod(0o700)
    authority = "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -subj /CN=devcluster -days 365"
    _openssl(layout, *authority.split())
    for identity in plan_identities(layout):
        _write_certificate(layout, identity)
        write_kubeconfig(
            layout, identity.name, {"client-certificate": f"{identity.name}.crt", "client-key": f"{identity.name}.key"}
        )
    _openssl(layout, "genrsa", "-out", "sa.key", "2048")
    _openssl(layout, "rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")


def write_kubeconfig(layout: Layout, name: str, user: dict[str, str]) -> None:
    """Write ``pki/<name>.kubeconfig`` (JSON, which is YAML) for a user's certificate or token."""
    cluster = {"server": layout.api_server, "certificate-authority": str(layout.pki / "ca.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "devcluster", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "devcluster", "context": {"cluster": "devcluster", "user": name}}],
        "current-context": "devcluster",
    }
    path = layout.pki / f"{name}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))


def _write_certificate(layout: Layout, identity: Identity) -> None:
    name = identity.name
    extensions = layout.pki / f"{name}.ext"
    extensions.write_text(f"subjectAltName={identity.valid_for}\n")
    request = f"req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj {identity.subject}"
    _openssl(layout, *request.split())
    sign = f"x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out {name}.crt -days 365 -extfile {name}.ext"
    _openssl(layout, *sign.split())


def _openssl(layout: Layout, *arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], cwd=layout.pki, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DevclusterError(f"openssl {' '.join(arguments)} failed:\n{done.stderr}")
