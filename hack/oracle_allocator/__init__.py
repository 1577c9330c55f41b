"""What Kubernetes' own allocator says to random cases; ``README.md`` says how the golden file is made."""
