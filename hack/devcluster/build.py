"""Build the cluster's binaries from Go modules; what is there is not built again."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hack.devcluster.layout import DevclusterError, Layout

MODULES = Path(__file__).parent / "modules"
Say = Callable[[str], None]

_KUBERNETES = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubelet", "kubectl")
_CONTAINERD = ("containerd", "containerd-shim-runc-v2", "ctr")
_CNI = ("main/bridge", "main/loopback", "ipam/host-local")
_PACKAGES = {"runc": "runc", "iptables": "iptables", "busybox": "busybox-static", "openssl": "openssl", "ip": "iproute2"}
_IMAGE_PACKAGES = {"buildah": "buildah", "crun": "crun", "mmdebstrap": "mmdebstrap"}
"""Programs that come from the distribution, and the package each is in."""
_SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """One program: from which module and package, and where it goes."""

    module: Path
    package: str
    output: Path
    ldflags: str = ""


def plan_binaries(layout: Layout) -> Iterator[Binary]:
    """Every binary that a cluster of this version needs."""
    major, minor, _ = layout.kube_version.split(".")
    stamp = {"gitVersion": f"v{layout.kube_version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    version = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamp.items())
    kubernetes = MODULES / f"kubernetes-{layout.kube_version}"
    for name in _KUBERNETES:
        package = f"k8s.io/kubernetes/cmd/{name}"
        yield Binary(module=kubernetes, package=package, output=layout.kube_bin / name, ldflags=version)
    yield Binary(module=MODULES / "etcd", package="go.etcd.io/etcd/server/v3", output=layout.node_bin / "etcd")
    for name in _CONTAINERD:
        package = f"github.com/containerd/containerd/v2/cmd/{name}"
        yield Binary(module=MODULES / "containerd", package=package, output=layout.node_bin / name)
    for name in _CNI:
        package = f"github.com/containernetworking/plugins/plugins/{name}"
        yield Binary(module=MODULES / "cni", package=package, output=layout.node_bin / "cni" / Path(name).name)
    yield Binary(module=MODULES / "helm", package="helm.sh/helm/v3/cmd/helm", output=layout.node_bin / "helm")


def install_packages(say: Say, *, for_images: bool = False) -> None:
    """Install from the distribution what is missing (apt, as root). ``for_images``: what builds the driver's image, too.

    Raises:
        DevclusterError: something is missing and cannot be installed here.
    """
    wanted = _PACKAGES | (_IMAGE_PACKAGES if for_images else {})
    missing = [package for program, package in wanted.items() if not shutil.which(program, path=_SEARCH_PATH)]
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise DevclusterError(f"install these first, there is no apt-get here: {' '.join(missing)}")
    say(f"installing {' '.join(missing)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DevclusterError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def build_binaries(layout: Layout, say: Say) -> None:
    """Build what is missing, one after the other, saying which and how long each took.

    Raises:
        DevclusterError: there is no Go, or a build failed; the compiler's words are in the text.
    """
    wanted = list(plan_binaries(layout))
    missing = [binary for binary in wanted if not os.access(binary.output, os.X_OK)]
    say(f"Kubernetes {layout.kube_version}: {len(wanted) - len(missing)} of {len(wanted)} binaries are there")
    if missing and not shutil.which("go"):
        raise DevclusterError("Go is needed to build the cluster's binaries, and is not in PATH")
    for number, binary in enumerate(missing, start=1):
        say(f"building {binary.output.name} ({number} of {len(missing)})")
        began = time.monotonic()
        _build_one(binary)
        say(f"built {binary.output.name} in {time.monotonic() - began:.0f} s")


def _build_one(binary: Binary) -> None:
    binary.output.parent.mkdir(parents=True, exist_ok=True)
    partial = binary.output.with_suffix(".part")
    with tempfile.TemporaryDirectory() as scratch:  # go may rewrite go.mod, and the checkout may be read-only
        module = Path(shutil.copytree(binary.module, Path(scratch) / "module"))
        flags = ["-trimpath", "-tags", "no_btrfs,no_zfs,no_devmapper", "-ldflags", f"-s -w {binary.ldflags}"]
        done = subprocess.run(
            ["go", "build", *flags, "-o", partial, binary.package],
            cwd=module,
            env={**os.environ, "CGO_ENABLED": "0"},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    if done.returncode:
        raise DevclusterError(f"building {binary.package} failed:\n{done.stderr[-4000:]}")
    partial.rename(binary.output)
