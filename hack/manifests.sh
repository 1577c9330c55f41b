#!/usr/bin/env bash
# Renders the chart with its defaults as plain manifests, for those who have no helm: deploy/manifests/gpu-dra.yaml.
# helm is the one of the PATH, or the one that the dev cluster has built (hack/devcluster/devcluster build).
#
#   hack/manifests.sh [FILE]     FILE: write there instead
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

file=${1:-deploy/manifests/gpu-dra.yaml}
built=${DEVCLUSTER_CACHE:-$HOME/.cache/gpu-dra-devcluster}/bin-node/helm
helm=$(command -v helm || true)
[ -n "$helm" ] || helm=$built
[ -x "$helm" ] || { echo "manifests: there is no helm in the PATH, and none at $built; run: hack/devcluster/devcluster build" >&2; exit 1; }

mkdir -p "$(dirname "$file")"
{
    echo "# The chart deploy/helm/gpu-dra with its defaults, by make manifests. Not to be edited: change the chart."
    echo "# With the namespace: kubectl apply -f deploy/manifests"
    "$helm" template gpu-dra deploy/helm/gpu-dra --namespace gpu-dra --kube-version 1.37.0 2>/dev/null |
        grep -v '^ *app.kubernetes.io/managed-by: Helm$' # nobody manages it
} >"$file.part"
mv "$file.part" "$file"
