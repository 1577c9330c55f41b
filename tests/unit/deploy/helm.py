"""The chart rendered with values of a test's own. Needs helm: of the PATH, or of the dev cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.deploy.rendered import ROOT

CHART = ROOT / "deploy" / "helm" / "gpu-dra"
_BUILT = Path(os.environ.get("DEVCLUSTER_CACHE") or Path.home() / ".cache" / "gpu-dra-devcluster") / "bin-node" / "helm"
HELM = shutil.which("helm") or str(_BUILT)
needs_helm = pytest.mark.skipif(not Path(HELM).exists(), reason="no helm here")


def run_helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Whatever becomes of it."""
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, check=False, timeout=60)


def template(*arguments: str, release: str = "gpu-dra", chart: Path = CHART) -> subprocess.CompletedProcess[str]:
    """``helm template``, whatever becomes of it; Kubernetes 1.37 unless an argument says otherwise."""
    return run_helm("template", release, str(chart), "--kube-version=1.37.0", *arguments)


def render(*arguments: str, release: str = "gpu-dra", chart: Path = CHART) -> list[dict[str, Any]]:
    """The objects that helm would send."""
    done = template(*arguments, release=release, chart=chart)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The one object of this kind."""
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def pod_of(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The pods of the one DaemonSet or Deployment: their spec."""
    found: dict[str, Any] = of_kind(objects, kind)["spec"]["template"]["spec"]
    return found
