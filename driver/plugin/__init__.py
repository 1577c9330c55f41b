"""The kubelet's gRPC: registration, prepare, unprepare, health. Does not know hardware."""
