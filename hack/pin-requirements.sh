#!/usr/bin/env bash
# Pins what pyproject.toml asks for, with a hash of every file and for every platform: requirements.txt is what the program
# runs with, requirements-dev.txt adds the tools. The resolver lives in a folder of its own, so .venv holds what is pinned.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$(hack/find-python.sh)" -m venv "$tools"
"$tools/bin/pip" install --quiet uv

pin() {
    "$tools/bin/uv" --no-cache pip compile --quiet --upgrade --universal --python-version 3.11 \
        --generate-hashes --no-emit-index-url --no-header --no-annotate "$@"
}
pin pyproject.toml --output-file requirements.txt
pin pyproject.toml --extra kubeconfig-plugins --group dev --constraint requirements.txt --output-file requirements-dev.txt
printf 'hatchling>=1.27\n' | pin - --constraint requirements-dev.txt --output-file requirements-build.txt
