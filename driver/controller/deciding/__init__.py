"""What to do, given the books. Pure: time and chance are told to it, and it learns from what it is told.

``waiting_line.WaitingLine`` decides demand after demand, each anew only where something changed; ``decision.decide`` decides
one: ``question`` is what of it is ours, ``pod_fit`` where its pods could run, ``waits`` why it has no place, ``kinds`` which
demands are alike. What is to be mended, and what not tried again so soon: ``takeback`` (idle allocations), ``doubles`` (a
device in two claims), ``lessons`` (nodes that kube-scheduler refused), ``put_off``.
"""
