"""The fence: how a node says whose its devices are, so that no device ever has two allocators (design section 6).

A fenced device has a taint that no user tolerates, and says the same in an attribute, since selectors cannot see taints (R4).
The node half publishes one of three states for all devices of its pool, and moves between them (R3):

    scheduler --(taint)--> draining --(kube-scheduler's slowest allocation is over)--> controller
    scheduler <--(the controller has acknowledged)-- draining <--(nobody allocates)-- controller
"""

from __future__ import annotations

ALLOCATOR_KEY = "gpu.nvidia.com/allocator"
"""The key of the taint; the node label that beats the node half's own setting has it, too."""
DRAINED_ANNOTATION = "gpu.nvidia.com/allocator-drained"
"""On the Node, by the controller: the ``timeAdded`` of the draining taint up to which it has nothing under way in the pool."""

SCHEDULER = "scheduler"
DRAINING = "draining"
"""Nobody allocates: a request to one side may still be under way."""
CONTROLLER = "controller"

FENCE_EFFECT = "NoSchedule"
FENCED = (DRAINING, CONTROLLER)
"""The values that the taint may have."""

TOPOLOGY_CLASS = "topology.gpu.nvidia.com"
"""The DeviceClass whose claims only the controller can serve."""
