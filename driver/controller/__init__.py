"""The controller half: chooses devices and node for the claims of pods that wait, and writes it into the claims.

``controller.Controller`` is the process: stand by (``election``), then lead. A leader's watches (``intake``) and its one thread
that decides (``loop``) are all there is beside the threads that write. Inwards:

* ``objects``: what the API server says, as values.
* ``books``: what is known of the cluster, kept in step with it.
* ``deciding``: what to do about it. Nothing in these three does I/O or looks at a clock.
* ``writing``: one claim written, step by step. Knows nothing of decisions, as they know nothing of it.
* ``acting``: from what is seen and decided to jobs, and from their outcomes back.
"""
