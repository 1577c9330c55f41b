"""The node half put together: reads the machine, publishes it, serves the kubelet. Holds no rules of its own."""
