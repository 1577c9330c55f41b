"""End to end: the driver on a real kubelet, scheduler and containerd (``hack/devcluster/e2e.sh``, ``make e2e``).

Not collected by pytest: scenarios share one cluster, run in order, and each prints one line of what was seen.
"""
