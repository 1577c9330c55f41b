"""The process itself: how it ends when something in it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from tests.component.node.one_node import DRIVER, OneNode
from tests.fakes.kube_api import Fault
from tests.fakes.kubelet import CallFailed

GRACE_S = 2.0
_RUN = f"""
import sys
from driver.cli import kubelet_plugin, main
kubelet_plugin.GRACE_S = {GRACE_S}
sys.exit(main.main(sys.argv[1:]))
"""


def start(node: OneNode, kubeconfig: Path, machine: str = "dgx-h100") -> subprocess.Popen[bytes]:
    """The plugin as a process of its own, with a short grace."""
    flags = {
        "--nvml": f"mock:{machine}",
        "--mig": "off",
        "--node-name": "node-a",
        "--kubeconfig": kubeconfig,
        "--kubelet-root": node.folder,
        "--registry-dir": node.kubelet.registry_dir,
        "--cdi-root": node.cdi_root,
        "--pod-uid": uuid.uuid4(),
    }
    words = [str(word) for pair in flags.items() for word in pair]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GPU_DRA_")}
    return subprocess.Popen([sys.executable, "-c", _RUN, "kubelet-plugin", *words], env=environ, stderr=subprocess.DEVNULL)


def test_a_call_that_hangs_does_not_keep_the_process_from_ending(node: OneNode) -> None:
    """R13: SIGTERM ends it within the grace and with 0, though a claim's read never comes back; nothing is left prepared."""
    process = start(node, node.api.write_kubeconfig(node.folder / "kubeconfig"))
    try:
        node.wait_published(8)
        claim = node.allocate("one", [sorted(node.devices())[0]])
        node.api.fail(Fault(verb="get", resource="resourceclaims", kind="delay", delay_s=25.0))
        failed = threading.Event()

        def prepare() -> None:
            with pytest.raises(CallFailed):
                node.prepare(claim)
            failed.set()

        caller = threading.Thread(target=prepare)
        caller.start()
        node.wait(lambda: node.api.count("get", resource="resourceclaims") == 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(15.0) == 0
        assert failed.wait(10.0)
        caller.join()
    finally:
        process.kill()
        process.wait()
    assert node.cdi_files() == []
    node.wait(lambda: not node.kubelet.plugins(DRIVER))  # the kubelet looks at the folder now and then
    assert [path for path in node.folder.rglob("*") if path.is_socket()] == []
