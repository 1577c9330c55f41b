"""Kubernetes' own code as an oracle for our selector language."""
