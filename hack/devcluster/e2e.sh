#!/usr/bin/env bash
# Builds what is missing, starts the real node, runs the scenarios (one line each), stops the node. Exit status 0 when all pass.
# Options: --only TEXT (scenarios whose name contains it; repeatable), --soak, --keep (leave the node up), --list.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PYTHON=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
exec "$PYTHON" -m tests.e2e "$@"
