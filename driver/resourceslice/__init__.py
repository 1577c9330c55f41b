"""The node's devices in the API's words, kept in step with the API server. Does not know claims."""
