"""Speaks the kubelet's gRPC: registration, prepare and unprepare, health of devices, and probes. Knows no hardware.

    sockets       which socket paths an instance uses (pure)
    instance      an instance's lock, its folders, and the files of instances that are dead
    listener      a gRPC server whose socket file appears complete and leaves only by its owner
    folder_watch  wakes when something in a folder changes (inotify)
    registration  the kubelet's Registration service, and keeping its socket in place
    service_socket  the service's listener, made anew when its file is taken away
    claim_calls   what a call about claims asks and may be answered (pure)
    dra           DRAPlugin v1 and v1beta1 over ``driver.claims.model.ClaimService``
    health        DRAResourceHealth v1 and v1alpha1 over a ``HealthSource``
    probes        grpc.health.v1 for the kubelet's probes
    server        all of it, started and stopped in the right order

gRPC's own fork support costs locks around every call and saves nobody: this program never forks without exec.
"""

from __future__ import annotations

import os

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # read once, when grpc is imported: so it stands before any of our imports of grpc
