"""NVIDIA GPUs for Kubernetes by Dynamic Resource Allocation: publishes a node's devices, and hands claimed ones to containers.

``ARCHITECTURE.md`` has the map of these packages, what each must not know, and the two walks through them: a device's to its
slice, and a claim's to its container. Start reading at ``driver.node.node_plugin``, which puts the node half together.
"""
