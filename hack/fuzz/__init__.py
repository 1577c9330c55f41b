"""Throws random and hostile input at a running kubelet plugin, and sees whether it is whole afterwards."""
