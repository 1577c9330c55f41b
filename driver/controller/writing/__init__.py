"""Writes to claims, and to the one annotation of nodes, whatever happens on the way.

``writer.Writer`` does a job, ``threads.WriterThreads`` several at once. ``claim_steps`` (pure) chooses the next step from the
claim as it is; ``attempt`` takes it, and waits out what fails; ``claim_api`` has the requests. ``in_flight``: what is being
written; ``fence``: nodes that may leave because nothing is.
"""
