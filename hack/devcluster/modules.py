"""Write the module files of another Kubernetes version (a developer's step: the result is committed)."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from hack.devcluster.build import MODULES, Say
from hack.devcluster.layout import DevclusterError

_TOOLS_GO = """//go:build tools

package tools

import (
{imports}
)
"""
_COMMANDS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet")


def write_module(version: str, say: Say) -> Path:
    """Write ``modules/kubernetes-<version>`` with every staging module replaced by its release (1.36.3 -> v0.36.3).

    ``k8s.io/kubernetes`` replaces its staging modules by folders that its module zip does not have; their releases are the
    same code.
    """
    folder = MODULES / f"kubernetes-{version}"
    say(f"reading the module file of Kubernetes {version}")
    answer = json.loads(_go(MODULES, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"))
    upstream = Path(answer["GoMod"]).read_text()
    staging = re.findall(r"^\s*(k8s\.io/\S+) => \./staging/\S+$", upstream, flags=re.MULTILINE)
    release = "v0." + version.split(".", 1)[1]
    go_line = re.search(r"^go (\S+)$", upstream, flags=re.MULTILINE)
    godebug = re.search(r"^godebug .+$|^godebug \([^)]*\)$", upstream, flags=re.MULTILINE)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "module devcluster",
        f"go {go_line.group(1) if go_line else '1.24'}",
        godebug.group(0) if godebug else "",
        f"require k8s.io/kubernetes v{version}",
        "replace (",
        *(f"\t{module} => {module} {release}" for module in staging),
        ")",
    ]
    (folder / "go.mod").write_text("\n\n".join(lines[:4]) + "\n\n" + "\n".join(lines[4:]) + "\n")
    imports = "\n".join(f'\t_ "k8s.io/kubernetes/cmd/{command}"' for command in _COMMANDS)
    (folder / "tools.go").write_text(_TOOLS_GO.format(imports=imports))
    say("resolving the dependencies")
    _go(folder, "mod", "tidy")
    return folder


def _go(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["go", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DevclusterError(f"go {' '.join(arguments)} in {folder} failed:\n{done.stderr[-4000:]}")
    return done.stdout
