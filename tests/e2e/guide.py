"""A page of ``docs/`` as a person would follow it: its commands, in its order, in a shell with kubectl, helm and our programs.

The person stands in a copy of the repository's manifests, whose containers have the image that is here. Nothing else differs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from hack.checks.snippets import Step, choose_steps, find_missing
from hack.devcluster.layout import Layout
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.process import REPOSITORY
from tests.e2e.stage import NotAsExpected, expect

_STEP_WITHIN_S = 240
_MANIFESTS = ("deploy", "deviceclasses")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """One page on the running cluster."""

    layout: Layout
    page: Path

    def follow(self, stage: str) -> str:
        """Run what the page has for this stage; what was seen.

        Raises:
            NotAsExpected: a command failed, or printed something else than the page shows.
        """
        steps = choose_steps((REPOSITORY / self.page).read_text(), f"e2e={stage}")
        expect(bool(steps), f"{self.page} has nothing for {stage}")
        folder = self._make_folder()
        for step in steps:
            self._run(step, folder)
        shown = sum(bool(step.shown) for step in steps)
        return f"{len(steps)} blocks of {self.page}, {shown} with what they print"

    def _run(self, step: Step, folder: Path) -> None:
        script = re.sub(r"\bNODE\b", self.layout.node, step.block.text).replace("REGISTRY/", "")
        command = ["bash", "-euo", "pipefail", "-c", script]
        where = f"{self.page}:{step.block.line}"
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=self._environment(folder),
                capture_output=True,
                text=True,
                timeout=_STEP_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired as err:
            raise NotAsExpected(f"{where} goes on after {_STEP_WITHIN_S} s: {err.stdout!r} {err.stderr!r}") from err
        expect(done.returncode == 0, f"{where} ends with {done.returncode}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
        missing = find_missing(step.shown, done.stdout + done.stderr)
        expect(missing is None, f"{where} does not print {missing!r} but {done.stdout[-3000:]}{done.stderr[-500:]}")

    def _environment(self, folder: Path) -> Mapping[str, str]:
        programs = (folder / "bin", self.layout.kube_bin, self.layout.node_bin, Path(sys.executable).parent)
        path = ":".join([*map(str, programs), os.environ["PATH"]])
        return {"PATH": path, "HOME": str(folder), "KUBECONFIG": str(folder / "kubeconfig"), "COLUMNS": "100"}

    def _make_folder(self) -> Path:
        folder = self.layout.home / "guide"
        shutil.rmtree(folder, ignore_errors=True)
        for name in _MANIFESTS:
            shutil.copytree(REPOSITORY / name, folder / name, symlinks=False)
        for path in (folder / "deploy" / "examples").rglob("*.yaml"):
            documents = [_fit(document) for document in yaml.safe_load_all(path.read_text()) if document]
            path.write_text(yaml.safe_dump_all(documents, sort_keys=False))
        (folder / "bin").mkdir()
        (folder / "bin" / "helm").write_text(self._make_helm())
        (folder / "bin" / "helm").chmod(0o755)
        (folder / "kubeconfig").write_text(yaml.safe_dump(self._make_kubeconfig()))
        return folder

    def _make_helm(self) -> str:
        """helm, that installs for a node whose kubelet and runtime have their folders elsewhere, and that has no GPUs."""
        own = f"--set=kubeletPlugin.kubeletRoot={self.layout.kubelet_root} --set=kubeletPlugin.cdiRoot={self.layout.cdi_root}"
        helm = self.layout.node_bin / "helm"
        mock = "--set=kubeletPlugin.nvml=mock:dgx-h100 --set-json=kubeletPlugin.affinity=null"
        lines = (
            "#!/bin/sh",
            f'[ "$1" != install ] || set -- "$@" {own}',
            f'case "$1 $*" in *kubeletPlugin.nvml*) ;; "install "*) set -- "$@" {mock} ;; esac',
            f'exec {helm} "$@"',
        )
        return "\n".join(lines) + "\n"

    def _make_kubeconfig(self) -> Json:
        """The administrator's, with our namespace, and files named from the root."""
        config: Json = yaml.safe_load(self.layout.admin_kubeconfig.read_text())
        for context in config["contexts"]:
            context["context"]["namespace"] = NAMESPACE
        for entry in (*(each["user"] for each in config["users"]), *(each["cluster"] for each in config["clusters"])):
            files = [key for key in entry if key in {"client-certificate", "client-key", "certificate-authority"}]
            entry |= {key: str(self.layout.admin_kubeconfig.parent / entry[key]) for key in files}
        return config


def _fit(document: Json) -> Json:
    """The same with the image that is here, and containers that end at once when they are told to."""
    spec = document.get("spec") or {}
    pod = spec if document["kind"] == "Pod" else spec.get("template", {}).get("spec", {})
    if "containers" in pod:
        pod["terminationGracePeriodSeconds"] = 1
    for container in pod.get("containers", []):
        command = [word.replace("sleep infinity", "sleep 100000") for word in container.get("command", [])]
        container |= {"image": "localhost/busybox:1", "imagePullPolicy": "Never", "command": command}
    return document
