"""Every error that this program raises on purpose.

    DriverError
      ClaimError               this claim cannot be prepared now; the text goes into its own answer
        ClaimNotFound          the API server has no such claim
        ClaimReplaced          the claim of this name has another uid
        ClaimNotAllocated      the claim has no allocation
        ForeignPool            a result of our driver names another node's pool
        UnknownDevice          a result names a device that this node does not have
        DeviceInUse            another claim holds the device
        DeviceNotReady         a device node or library that the container needs is missing
        MigRefused             NVML refuses to make or remove a MIG device, or somebody else's lies in its place
        ConfigInvalid          an opaque config is wrong; lists every fault with its field path
        ClaimBusy              a lock or a step did not end before the call's deadline; ask again
        RecordUnreadable       this claim's record is set aside as corrupt
        StateUnwritable        a file of this node's own (record, lock, CDI file) cannot be written or deleted
      NvmlError                NVML refused a call; carries NVML's own code and the call's name
      ApiError                 the API server refused a request, or could not be reached
        NotFound  Conflict  Forbidden  Invalid  Gone  TooManyRequests  ApiUnreachable
      Fatal                    the process must stop and touch nothing
        SettingsInvalid  MachineInvalid  AnotherPublisher  SocketPathTooLong  SocketUnusable  LeadershipLost

The first split is by whose business the error is: the claim's user, the hardware, the cluster, or the operator. A library's
exception never leaves the package that owns the library; it is chained (``raise ... from``) to one of these. A message says
what was being done, to what, and what to look at next.
"""

from __future__ import annotations

from collections.abc import Sequence


class DriverError(Exception):
    """The root of the tree above; never raised itself."""


class ClaimError(DriverError):
    """This claim cannot be prepared now. The text becomes the claim's own answer; its neighbours are not touched."""


class ClaimNotFound(ClaimError):
    """The API server has no claim of this namespace and name."""


class ClaimReplaced(ClaimError):
    """The claim of this namespace and name has another uid than the kubelet asked for."""


class ClaimNotAllocated(ClaimError):
    """The claim exists and has no ``status.allocation``."""


class ForeignPool(ClaimError):
    """A result of our driver lies in another node's pool: preparing it here would start a pod without its GPU."""


class UnknownDevice(ClaimError):
    """A result names a device that this node does not have (any more)."""


class DeviceInUse(ClaimError):
    """Another claim holds the device, in whatever state; retryable, since that claim may go away."""


class DeviceNotReady(ClaimError):
    """A device node, a library or a capability that the container needs is missing now; retryable."""


class ClaimBusy(ClaimError):
    """A lock was not had, or a step did not end, before the call's deadline; the kubelet asks again."""


class MigRefused(ClaimError):
    """A MIG device cannot be made or removed now: NVML refuses, or another instance is in its place; retryable."""


class RecordUnreadable(ClaimError):
    """The claim's record on disk is corrupt and set aside; its devices stay blocked until it is rebuilt."""


class StateUnwritable(ClaimError):
    """A record, a lock or a CDI file cannot be written, read or deleted: a full or read-only disk; retryable."""


class ConfigInvalid(ClaimError):
    """One or more faults in an opaque config; ``faults`` are ``"<field path>: <what is wrong>"`` lines, all of them."""

    def __init__(self, what: str, faults: Sequence[str]) -> None:
        super().__init__(f"{what}: " + "; ".join(faults))
        self.faults = tuple(faults)


class NvmlError(DriverError):
    """NVML refused ``call`` with ``code`` (NVML's own number; ``name`` is NVML's own word for it)."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"NVML {call}: {name} ({code})")
        self.call = call
        self.code = code
        self.name = name


class ApiError(DriverError):
    """The API server answered ``status`` (0 when it could not be reached) to ``request``."""

    def __init__(self, request: str, status: int, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(f"{request}: {status} {message}" if status else f"{request}: {message}")
        self.request = request
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: somebody else wrote the object, or it exists already."""


class Forbidden(ApiError):
    """401 or 403: credentials or RBAC."""


class Gone(ApiError):
    """410: the resourceVersion is too old; list again."""


class Invalid(ApiError):
    """400 or 422: the object breaks the API's rules. Never retried as it is."""


class TooManyRequests(ApiError):
    """429: wait ``retry_after_s``."""


class ApiUnreachable(ApiError):
    """No answer at all: connection refused, reset or timed out."""


class Fatal(DriverError):
    """The process must stop, say why, and touch nothing. ``exit_code`` is what the program ends with."""

    exit_code = 1


class SettingsInvalid(Fatal):
    """Flags, environment or config file are wrong; every fault is in the text."""

    exit_code = 2


class MachineInvalid(Fatal):
    """A mock machine's YAML is wrong; the text has the path in the document and what would be right."""

    exit_code = 2


class AnotherPublisher(Fatal):
    """Another driver of the same name serves this node."""

    exit_code = 3


class SocketPathTooLong(Fatal):
    """No legal socket path of at most 107 bytes exists below the given directories."""

    exit_code = 2


class SocketUnusable(Fatal):
    """A socket cannot be served: its folder cannot be made, something else stands at its path, or a live process holds it."""


class LeadershipLost(Fatal):
    """The lease that this controller held is another's, gone, or was not renewed in time: whatever it knows may be old."""

    exit_code = 4
