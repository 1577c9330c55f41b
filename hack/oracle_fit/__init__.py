"""kube-scheduler's own filters as an oracle for what fits where."""
