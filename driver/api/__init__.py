"""What crosses the Kubernetes API, as frozen values with their limits. Does not know how it travels."""
