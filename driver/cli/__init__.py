"""Builds the objects and starts them. The only package that chooses a backend or prints."""
