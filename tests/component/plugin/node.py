"""A node for tests: a kubelet's folders, and plugin instances on them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from driver.claims.model import ClaimService
from driver.names import DeviceName, PoolName
from driver.plugin.health import DeviceHealth, Health, HealthBoard
from driver.plugin.server import PluginCallbacks, PluginServer, PluginSettings
from tests.fakes.claim_service import ScriptedClaimService

DRIVER = "gpu.nvidia.com"


@dataclass
class Heard:
    """What an instance's callbacks were told."""

    troubles: list[str] = field(default_factory=list)
    registered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    is_ready: bool = True


class PluginNode:
    """The folders below ``root``, and what runs on them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plugin_dir = root / "plugins" / DRIVER
        self.registry_dir = root / "plugins_registry"
        self._running: list[PluginServer] = []

    def settings(
        self, instance: str | None = None, *, probe_address: str | None = None, silence_s: float = 30
    ) -> PluginSettings:
        """Settings of an instance on this node."""
        return PluginSettings(
            driver_name=DRIVER,
            plugin_dir=self.plugin_dir,
            registry_dir=self.registry_dir,
            instance=instance,
            probe_address=probe_address,
            silence_s=silence_s,
        )

    def start(
        self,
        settings: PluginSettings | None = None,
        claim_service: ClaimService | None = None,
        *,
        board: HealthBoard | None = None,
        heard: Heard | None = None,
    ) -> PluginServer:
        """A started instance."""
        server = self.make(settings, claim_service, board=board, heard=heard)
        server.start()
        self._running.append(server)
        return server

    def make(
        self,
        settings: PluginSettings | None = None,
        claim_service: ClaimService | None = None,
        *,
        board: HealthBoard | None = None,
        heard: Heard | None = None,
    ) -> PluginServer:
        """An instance that is not started."""
        ear = heard or Heard()
        callbacks = PluginCallbacks(
            on_registered=ear.registered.release, on_trouble=ear.troubles.append, is_ready=lambda: ear.is_ready
        )
        return PluginServer(
            settings or self.settings(), claim_service or ScriptedClaimService(), board or make_board(Health.HEALTHY), callbacks
        )

    def stop(self, server: PluginServer, grace_s: float = 5.0) -> bool:
        """Stop one instance."""
        self._running.remove(server)
        return server.stop(grace_s)

    def stop_all(self) -> None:
        """Stop what still runs."""
        for server in self._running:
            server.stop(1.0)
        self._running.clear()

    def sockets(self) -> set[str]:
        """The names of all files in the two folders, hidden ones too."""
        folders = (self.plugin_dir, self.registry_dir)
        return {each.name for folder in folders if folder.exists() for each in folder.iterdir()}


def make_board(*states: Health) -> HealthBoard:
    """A board with a device for each state."""
    board = HealthBoard()
    board.post(build_health(*states))
    return board


def build_health(*states: Health) -> tuple[DeviceHealth, ...]:
    """A device for each state: ``gpu-0``, ``gpu-1``."""
    return tuple(
        DeviceHealth(pool=PoolName("node-a"), device=DeviceName(f"gpu-{number}"), health=state, last_updated_s=1)
        for number, state in enumerate(states)
    )
