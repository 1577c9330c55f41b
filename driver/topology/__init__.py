"""What is in this node and how it hangs together. Does not know who may use it."""
