"""A real Kubernetes node on a bare machine: control plane, kubelet and containerd, built from Go modules.

Needs root, Python 3.11 and Go; no registry, no systemd, no container engine. ``README.md`` has the facts behind the choices.
"""
