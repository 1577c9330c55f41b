"""Stubs of the kubelet's gRPC services, made from `proto/` by `make proto`; never edited by hand."""
