#!/usr/bin/env bash
# The kind cluster is removed; nothing of it stays but the image.
set -euo pipefail
exec "${KIND:-kind}" delete cluster --name gpu-dra
