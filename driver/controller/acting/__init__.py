"""A round of the decision thread, in parts: from what is seen and decided to jobs, and from their outcomes back.

``ledger.Ledger`` is what the thread knows beside the mirror. ``witness`` takes in changes, ``placer`` makes jobs of
decisions, ``retaker`` of what is to be taken back or settled, and ``outcomes`` takes in what came of them. ``speech`` and
``fence_climbers`` tell people. ``loop`` calls them in this order.
"""
