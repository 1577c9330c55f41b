#!/usr/bin/env bash
# A kind cluster with mock GPUs: made, the image built and loaded, the chart installed, a first pod run. Again: brought up to date.
# NODE_IMAGE: the node image, of Kubernetes 1.34 or later (default: kind's own). KIND, HELM, KUBECTL, DOCKER: other programs of these names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

KIND=${KIND:-kind} HELM=${HELM:-helm} KUBECTL=${KUBECTL:-kubectl} DOCKER=${DOCKER:-docker}
cluster=gpu-dra
image=localhost/gpu-dra:kind
context=kind-$cluster

for program in "$KIND" "$HELM" "$KUBECTL" "$DOCKER"; do
    command -v "$program" >/dev/null || { echo "up: there is no $program in the PATH" >&2; exit 1; }
done

if ! "$KIND" get clusters | grep -qx "$cluster"; then
    "$KIND" create cluster --config hack/kind/cluster.yaml ${NODE_IMAGE:+--image "$NODE_IMAGE"} --wait 3m
fi
"$DOCKER" build --tag "$image" .
"$KIND" load docker-image "$image" --name "$cluster"

"$KUBECTL" --context "$context" apply -f deploy/manifests/0-namespace.yaml
"$HELM" --kube-context "$context" upgrade --install gpu-dra deploy/helm/gpu-dra \
    --namespace gpu-dra --values hack/kind/values.yaml --wait --timeout 5m
"$KUBECTL" --context "$context" get resourceslices

"$KUBECTL" --context "$context" apply -f deploy/examples/claim-template.yaml
"$KUBECTL" --context "$context" wait --for=condition=Ready pod/one-gpu --timeout=3m
"$KUBECTL" --context "$context" logs one-gpu
"$KUBECTL" --context "$context" delete -f deploy/examples/claim-template.yaml
