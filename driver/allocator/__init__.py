"""Which devices a pod's claims get, and on which node, or the nearest miss in numbers. Pure: no I/O, no clock, no chance.

Knows the API's values and the links between GPUs; does not know where slices and claims come from, nor who writes the answer.
"""
