"""What a node is brought into before a call, and what calls should be answered."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from driver.claims.model import PreparedDevice
from driver.names import CDIDeviceID
from tests.fakes.claims import POOL, Node, device, uid


def answer(number: int, *positions: int, request: str = "gpus") -> tuple[PreparedDevice, ...]:
    return tuple(
        PreparedDevice(
            requests=(request,),
            pool=POOL,
            device=device(position),
            cdi_device_ids=(CDIDeviceID(f"k8s.gpu.nvidia.com/claim={uid(number)}-{device(position)}"),),
        )
        for position in positions
    )


def wipe(node: Node) -> dict[str, bytes]:
    before = node.cdi_files()
    for path in node.cdi.iterdir():
        path.unlink()
    node.cdi.rmdir()
    return before


class Overtaken(Node):
    """A node on which something happens just as a step is about to be taken."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.at: dict[str, Any] = {}

    def _step(self, name: str) -> None:
        act = self.at.pop(name, None)
        if act is not None:
            act()
        super()._step(name)


def rewrite(node: Node, number: int, **changes: Any) -> None:
    """Change a record on disk, and its hash with it."""
    body = json.dumps({**node.records()[uid(number)], **changes}).encode()
    digest = hashlib.sha256(body).hexdigest().encode()
    node.record_path(number).write_bytes(b'{"sha256":"%s","record":%s}' % (digest, body))


def set_state(node: Node, number: int, state: str) -> None:
    rewrite(node, number, state=state)
