"""``gpu-dra demo``: the main job on a mock machine, with everything around it in this one process.

The machine, the plugin, its HTTP, its gRPC, its sockets, records and CDI files are the real ones (on a mock NVML). Small
stand-ins play the API server, the kubelet and kube-scheduler; they decide nothing that the real parts of this driver decide.
"""

from driver.cli.demo.command import add_parser, run

__all__ = ["add_parser", "run"]
