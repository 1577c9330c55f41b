"""What is known of the cluster, kept in step with changes, and looked up rather than worked out anew. Pure; one thread owns it.

``mirror.Cluster`` is the whole, and what others ask. Its parts: a book for each kind of object (``pods``, ``claims``,
``classes``, ``pools``, ``node_room``, ``volumes``); ``demands``: which pods wait, and which claims are placed together;
``judge``: whose a claim is, by what its selectors ``reach``, found out with bounded ``effort``; ``change_log``: which nodes
changed since when. ``occupancy`` counts the fleet for the metrics.
"""
