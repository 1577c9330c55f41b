"""What is wrong with the node's GPUs, judged from what NVML says. Pure, but for the file that keeps it."""
