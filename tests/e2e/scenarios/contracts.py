"""The contract tests of the API client, which every run makes on a fake, on the real API server."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.e2e.process import REPOSITORY
from tests.e2e.runner import Suite
from tests.e2e.stage import Stage, expect

SUITE = Suite()


@SUITE.add("the API client's contract tests on the real API server", needs_minor=36)
def run_contract_tests(stage: Stage) -> str:
    """What the fake API server of the unit tests does, the real one does too. Older servers have other rules for counters."""
    command = [sys.executable, "-m", "pytest", "tests/contract/kube", "-p", "no:cacheprovider"]
    environment = {**os.environ, "GPU_DRA_E2E_KUBECONFIG": str(stage.layout.admin_kubeconfig)}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    expect(done.returncode == 0, f"pytest ended with {done.returncode}: {done.stdout[-3000:]}")
    return lines[-1] if lines else "nothing was said"
