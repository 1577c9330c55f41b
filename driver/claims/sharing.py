"""Carries out what ``sharing_plan`` has planned: settings of GPUs, MPS daemons, and the way from a container to its daemon."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from driver import log
from driver.cdi.edits import MpsAccess
from driver.claims.record import ClaimRecord, RecordedDevice, State
from driver.errors import DeviceNotReady, NvmlError
from driver.mps.daemon import Daemons
from driver.mps.daemon_files import DaemonFiles, DaemonSpec
from driver.mps.watch import DaemonWatch
from driver.names import ClaimUID
from driver.nvml.enums import ComputeMode
from driver.nvml.gpu_controls import GONE, GpuControls, GpuSetting
from driver.nvml.library import Code

_LOG = log.logger(__name__)

_NEVER_SET = frozenset({Code.NOT_SUPPORTED, Code.INVALID_ARGUMENT, Code.FUNCTION_NOT_FOUND})
_UID_LENGTH = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSharing:
    """The ``SharingEffects`` of a node."""

    controls: GpuControls
    daemons: Daemons
    watch: DaemonWatch
    root_on_host: Path
    """The daemons' folder as the container runtime sees it."""

    def apply(self, record: ClaimRecord) -> None:
        """See ``SharingEffects``."""
        for setting in _list_settings(record):
            try:
                self.controls.set(setting)
            except NvmlError as err:
                if setting.time_slice == 0 and err.code in _NEVER_SET:  # the driver's default is all that this GPU has
                    continue
                raise DeviceNotReady(f"{record.ref()}: GPU {setting.uuid} cannot be shared as its config asks: {err}") from err
        for spec in list_daemons(record):
            try:
                self.daemons.start(spec)
            except DeviceNotReady as err:
                raise DeviceNotReady(f"{record.ref()}: {err}") from err

    def release(self, record: ClaimRecord, others: Iterable[ClaimRecord]) -> None:
        """See ``SharingEffects``."""
        for spec in list_daemons(record):
            self.watch.forget(spec.name)
            self.daemons.stop(spec.name)
        still = frozenset(
            device.uuid
            for each in others
            for device in each.devices
            if device.sharing and device.sharing.time_slice is not None
        )
        for setting in _list_settings(record):
            undone = GpuSetting(
                uuid=setting.uuid,
                compute_mode=ComputeMode.DEFAULT if setting.compute_mode == ComputeMode.EXCLUSIVE_PROCESS else None,
                time_slice=0 if setting.time_slice and setting.uuid not in still else None,
            )
            if undone.compute_mode is not None or undone.time_slice is not None:
                self._take_back(record, undone)

    def has_folders(self, record: ClaimRecord) -> bool:
        """See ``SharingEffects``."""
        return all(self.daemons.files(spec.name).folder.is_dir() for spec in list_daemons(record))

    def keep(self, record: ClaimRecord) -> None:
        """See ``SharingEffects``."""
        if record.state is State.PREPARE_COMPLETED:
            for spec in list_daemons(record):
                self.watch.keep(spec)

    def sweep(self, read_known: Callable[[], Collection[ClaimUID]]) -> None:
        """See ``SharingEffects``."""
        names = self.daemons.list_names()
        known = read_known() if names else ()
        for name in names:
            if name[:_UID_LENGTH] in known:
                continue
            try:
                self.daemons.stop(name)
                log.event(_LOG, log.WARNING, "stopped an MPS daemon that no claim owns", daemon=name)
            except DeviceNotReady as err:
                log.event(_LOG, log.WARNING, "an MPS daemon that no claim owns stays", daemon=name, error=err)

    def read_access(self, record: ClaimRecord, device: RecordedDevice) -> MpsAccess | None:
        """See ``SharingEffects``."""
        if device.sharing is None or device.sharing.mps is None:
            return None
        files = DaemonFiles(root=self.root_on_host, name=_name_daemon(record, device.sharing.mps.daemon))
        return MpsAccess(pipe_folder=str(files.pipe), shared_memory_folder=str(files.shared_memory))

    def _take_back(self, record: ClaimRecord, setting: GpuSetting) -> None:
        """What went with the driver or the card, or could never be set, is taken back already."""
        try:
            self.controls.set(setting)
        except NvmlError as err:
            if err.code in GONE | _NEVER_SET:
                log.event(
                    _LOG, log.INFO, "nothing to take back on a GPU", claim=str(record.ref()), uuid=setting.uuid, error=err
                )
                return
            raise DeviceNotReady(
                f"{record.ref()}: what was set on GPU {setting.uuid} cannot be taken back yet: {err}; the claim keeps the GPU"
            ) from err


def list_daemons(record: ClaimRecord) -> tuple[DaemonSpec, ...]:
    """The daemons that the devices of a claim are served by."""
    by_name: dict[str, list[RecordedDevice]] = {}
    for device in record.devices:
        if device.sharing is not None and device.sharing.mps is not None:
            by_name.setdefault(device.sharing.mps.daemon, []).append(device)
    return tuple(_build_spec(record, name, devices) for name, devices in by_name.items())


def _build_spec(record: ClaimRecord, name: str, devices: list[RecordedDevice]) -> DaemonSpec:
    uses = {
        device.uuid: device.sharing.mps for device in devices if device.sharing is not None and device.sharing.mps is not None
    }
    first = next(iter(uses.values()))
    return DaemonSpec(
        name=_name_daemon(record, name),
        uuids=tuple(sorted(uses)),
        thread_percentage=first.thread_percentage,
        memory_mib={uuid: use.memory_mib for uuid, use in uses.items() if use.memory_mib is not None},
        is_multi_user=first.is_multi_user,
    )


def _name_daemon(record: ClaimRecord, name: str) -> str:
    return f"{record.uid}-{name}"


def _list_settings(record: ClaimRecord) -> tuple[GpuSetting, ...]:
    """What is set, once for each GPU. Processes that take turns do so in the default mode."""
    settings = {}
    for device in record.devices:
        sharing = device.sharing
        if sharing is None:
            continue
        if sharing.time_slice is not None:
            settings[device.uuid] = GpuSetting(
                uuid=device.uuid, compute_mode=ComputeMode.DEFAULT, time_slice=sharing.time_slice
            )
        elif sharing.is_exclusive_process:
            settings[device.uuid] = GpuSetting(uuid=device.uuid, compute_mode=ComputeMode.EXCLUSIVE_PROCESS)
    return tuple(settings.values())
