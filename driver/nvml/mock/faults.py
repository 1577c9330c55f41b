"""Faults that a mock machine plays: from its own file, or at run time from ``<state dir>/faults.yaml``. The values; pure."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from driver.nvml.calls import NVML_CALLS
from driver.nvml.library import Code

_GpuNumber = Annotated[int, Meta(ge=0, lt=64)]
_InstanceNumber = Annotated[int, Meta(ge=0, lt=64)]
_Times = Annotated[int, Meta(ge=1, le=1_000_000)]
_Id = Annotated[str, Meta(max_length=64)]
_CODES = {code.name: code for code in Code if code is not Code.SUCCESS}
_CALLS = frozenset(NVML_CALLS.values())


class _Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab", tag_field="kind"):
    """Every fault; ``kind`` says which."""


class XidEvent(_Fault, frozen=True, kw_only=True, tag="xid"):
    """The driver reports an XID, once. To report the same again, give it another ``id``."""

    gpu: _GpuNumber
    xid: Annotated[int, Meta(ge=0, lt=1024)]
    gpu_instance: _InstanceNumber | None = None
    compute_instance: _InstanceNumber | None = None
    id: _Id = ""


class EccEvent(_Fault, frozen=True, kw_only=True, tag="ecc"):
    """The driver reports an ECC error, once."""

    gpu: _GpuNumber
    bits: Literal["single", "double"] = "double"
    id: _Id = ""


class GpuLost(_Fault, frozen=True, kw_only=True, tag="gpu-lost"):
    """The GPU fell off the bus: every call but for its address and minor number says GPU_IS_LOST."""

    gpu: _GpuNumber


class LinkDown(_Fault, frozen=True, kw_only=True, tag="link-down"):
    """NVLinks are inactive as ``gpu`` sees them: all of them, those to ``peer``, or those of the numbers ``links``."""

    gpu: _GpuNumber
    peer: _GpuNumber | None = None
    links: Annotated[tuple[Annotated[int, Meta(ge=0, lt=36)], ...], Meta(max_length=36)] | None = None


class NeedsRecovery(_Fault, frozen=True, kw_only=True, tag="recovery-action"):
    """The driver asks for ``action``, whatever XIDs there are; ``none`` says that it asks for nothing."""

    gpu: _GpuNumber
    action: Literal[
        "none",
        "gpu-reset",
        "node-reboot",
        "drain-p2p",
        "drain-and-reset",
        "recover-imex-domain",
        "bus-reset",
        "system-reboot",
    ]


class RowsRemapped(_Fault, frozen=True, kw_only=True, tag="remapped-rows"):
    """Rows of the GPU's memory are replaced by spare ones, wait for a reset to be, or cannot be."""

    gpu: _GpuNumber
    rows: Annotated[int, Meta(ge=0, le=512)] = 1
    is_pending: bool = msgspec.field(default=False, name="pending")
    has_failed: bool = msgspec.field(default=False, name="failed")


class Slowdown(_Fault, frozen=True, kw_only=True, tag="slowdown"):
    """The hardware brakes the clocks: it is too hot, or the power supply says so."""

    gpu: _GpuNumber
    reason: Literal["thermal", "power-brake"]


class CallFails(_Fault, frozen=True, kw_only=True, tag="call-fails"):
    """A call says ``code``: for one GPU or for all, for ever or the next ``times`` times."""

    call: str
    code: str
    gpu: _GpuNumber | None = None
    times: _Times | None = None

    def __post_init__(self) -> None:
        _check_call(self.call)
        if self.code not in _CODES:
            raise ValueError(f"code {self.code!r} is none of NVML's: one of {', '.join(sorted(_CODES))}")


class CallHangs(_Fault, frozen=True, kw_only=True, tag="call-hangs"):
    """A call does not come back for ``seconds``, or until the fault is taken away; then it goes on."""

    call: str
    seconds: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    gpu: _GpuNumber | None = None
    times: _Times | None = None

    def __post_init__(self) -> None:
        _check_call(self.call)


class NotReady(_Fault, frozen=True, kw_only=True, tag="not-ready"):
    """The driver is not loaded: every call says DRIVER_NOT_LOADED, until the fault is taken away or ``until`` has come."""

    until: Annotated[float, Meta(ge=0)] | None = None
    """Seconds since 1970."""


class Load(_Fault, frozen=True, kw_only=True, tag="load"):
    """No fault: how busy the GPU is, for its figures. Without an entry it idles."""

    gpu: _GpuNumber
    percent: Annotated[int, Meta(ge=0, le=100)] = 0
    memory_percent: Annotated[int, Meta(ge=0, le=100)] = 0
    celsius: Annotated[int, Meta(ge=0, le=120)] = 31
    watts: Annotated[int, Meta(ge=0, le=2000)] = 74


Fault = (
    XidEvent | EccEvent | GpuLost | LinkDown | NeedsRecovery | RowsRemapped | Slowdown | CallFails | CallHangs | NotReady | Load
)
Event = XidEvent | EccEvent | NeedsRecovery | RowsRemapped


class FaultsDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``faults.yaml``."""

    faults: Annotated[list[Fault], Meta(max_length=1024)] = []


def _check_call(call: str) -> None:
    if call not in _CALLS:
        raise ValueError(f"call {call!r} is none that this program makes: one of {', '.join(sorted(_CALLS))}")


def is_over_with_reset(fault: Fault, gpu: int) -> bool:
    """Whether a reset of this GPU puts the fault right. A row without a spare stays bad, calls go on failing."""
    if getattr(fault, "gpu", None) != gpu or isinstance(fault, CallFails | CallHangs | Load):
        return False
    return not (isinstance(fault, RowsRemapped) and fault.has_failed)


def find_bad_gpu(faults: tuple[Fault, ...], gpu_count: int) -> str | None:
    """What is wrong with the GPU numbers of ``faults`` on a machine of ``gpu_count``; None where all exist."""
    for place, fault in enumerate(faults):
        for field in ("gpu", "peer"):
            number = getattr(fault, field, None)
            if number is not None and number >= gpu_count:
                return f"$.faults[{place}].{field}: there is no GPU {number}: the machine has 0 to {gpu_count - 1}"
    return None
