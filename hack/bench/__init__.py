"""The benchmark: the plugin as a real process, between a stand-in API server and a stand-in kubelet, against a bare floor.

What is measured and how is told in ``docs/performance.md``; ``python -m hack.bench --help`` lists the figures.
"""
