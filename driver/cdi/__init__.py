"""What a container needs to see a device, and the files that say so. Does not know claims or NVML."""
