"""The driver as an operator installs it: the image in the node's containerd, the chart by helm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hack.devcluster import cluster, images
from hack.devcluster.layout import Layout
from tests.e2e.identity import SYSTEM_NAMESPACE
from tests.e2e.process import REPOSITORY

RELEASE = "gpu-dra"
CHART = REPOSITORY / "deploy" / "helm" / "gpu-dra"
_BUILD_WITHIN_S = 600
_HELM_WITHIN_S = 90
_WAIT = ("--wait", f"--timeout={_HELM_WITHIN_S}s")


class ReleaseFailed(Exception):
    """helm, or the build of the image, refused; the text has its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One installation on the dev cluster's real node."""

    layout: Layout

    def load_image(self) -> None:
        """Give the image to the node's containerd."""
        images.load_image(self.layout, _archive(self.layout))

    def install(self, values: Mapping[str, object]) -> None:
        """Install, or upgrade to these values, and wait until everything is ready."""
        try:
            self._helm("upgrade", "--install", RELEASE, str(CHART), *self._set(values), *_WAIT)
        except ReleaseFailed as err:
            raise ReleaseFailed(f"{err}\n{self._read_logs()}") from err

    def rollback(self) -> None:
        """Back to the revision before."""
        self._helm("rollback", RELEASE, *_WAIT)

    def uninstall(self) -> None:
        """Remove it; none is fine."""
        self._helm("uninstall", RELEASE, "--ignore-not-found", *_WAIT)

    def render(self, *templates: str) -> str:
        """Some of the chart's templates as manifests; all of them when none is named."""
        shown = (f"--show-only=templates/{name}.yaml" for name in templates)
        return self._helm("template", RELEASE, str(CHART), f"--kube-version={self.layout.kube_version}", *shown)

    def _read_logs(self) -> str:
        selector = f"app.kubernetes.io/instance={RELEASE}"
        asked = ("logs", "-n", SYSTEM_NAMESPACE, "-l", selector, "--prefix", "--tail=15")
        return cluster.run_kubectl(self.layout, *asked).stdout[-6000:]

    def _set(self, values: Mapping[str, object]) -> list[str]:
        own = {
            "kubeletPlugin.kubeletRoot": str(self.layout.kubelet_root),
            "kubeletPlugin.cdiRoot": str(self.layout.cdi_root),
            "kubeletPlugin.affinity": None,  # the dev node is not labelled as one with GPUs
        }
        return [f"--set-json={key}={json.dumps(value)}" for key, value in (own | dict(values)).items()]

    def _helm(self, *arguments: str) -> str:
        helm = self.layout.node_bin / "helm"
        command = [str(helm), "--kubeconfig", str(self.layout.admin_kubeconfig), "-n", SYSTEM_NAMESPACE, *arguments]
        return _run(command, timeout_s=_HELM_WITHIN_S + 60)


def build_image(layout: Layout) -> None:
    """Build the image, or see that nothing has changed.

    Raises:
        ReleaseFailed: it cannot be built.
    """
    _run([str(REPOSITORY / "hack" / "image" / "build.sh"), str(_archive(layout))], timeout_s=_BUILD_WITHIN_S)


def _archive(layout: Layout) -> Path:
    return layout.cache / "gpu-dra-image.tar"


def _run(command: list[str], *, timeout_s: float, cwd: Path = REPOSITORY) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s, cwd=cwd)
    if done.returncode:
        raise ReleaseFailed(f"{' '.join(command[:6])} ...: {done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout
