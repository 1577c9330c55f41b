"""What the API server says, as lean values, and what can be read off one of them alone. Pure.

``model`` and ``taint_rules`` have the objects, ``reductions`` and ``slice_reduction`` drop of them what no decision reads.
``ownership``: whose an allocation is. ``pod_use``: what a pod takes of its node; ``node_terms``: which nodes a selector
takes; ``life``: from when to when.
"""
