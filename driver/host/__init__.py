"""The machine's files: sysfs, procfs, device nodes and the driver root, each below a root that is a setting."""
