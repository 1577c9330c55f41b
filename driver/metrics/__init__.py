"""What both halves serve over HTTP, and how their figures are kept: pages, registries, labels that stay few."""
