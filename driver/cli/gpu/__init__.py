"""``kubectl gpu``: for people with a cluster, what waits and why, and what stands in the way. It only reads."""
