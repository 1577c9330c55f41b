"""What each XID, the driver's number for what goes wrong on a GPU, means: whose it is, and whether the GPU stays in use.

NVIDIA's catalogue (for Ampere and later) says what each is and what to do at once; whether a GPU may be given out after it is
decided here (B75): where the catalogue says to restart the program or to do nothing, it is, and where it says to reset or
restart more than the program, it is not. A number that is not here, or that the catalogue gives no action for, is taken for
the GPU's: better one GPU less for a while than jobs on a broken one. ``make docs`` writes this table down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from driver.health.model import Scope

RESTART = "Nothing to do about the GPU. If one program brings it up again and again, look at that program."
TIMEOUT = (
    "Restart the program. If the GPU needs a reset, the driver asks for it, and the taint gpu.nvidia.com/recovery says so."
)
ROW = "Reset the GPU when it is idle: the row is replaced then. If it comes back, have the GPU tested."
CONTAINED = (
    "Restart the program that ended. Reset the GPU when it is idle: the bad row is replaced then. If it comes back, have the"
    " GPU tested."
)
WATCH = "Nothing to do at once. If it comes up again and again on one GPU, have that GPU tested."
ACTION = "Do what the driver asks for: the taint gpu.nvidia.com/recovery names it. None: nothing is to be done."
DETAIL = "Do what XID 48, which comes with it, asks for."
RESET = "Let the pods on this GPU end, then reset it (nvidia-smi --gpu-reset). If it comes back, have the GPU tested."
REBOOT = "Drain the node and reboot it; if the GPU is lost again, have the card and its slot tested."
POWER = "Drain the node, power it off and look at the card's power cables."
GUEST = "Let the pods on this node end, then restart the virtual machine."
LINK = (
    "Look at nvidia-smi nvlink -s and at the NVLinks' other ends; reset the GPUs at both. If it comes back, have them tested."
)
LOOK = (
    "Look the number up in NVIDIA's XID catalogue, and at the kernel's log around it. --ignored-xids keeps it from being held"
    " against a GPU."
)
SOFTWARE = (
    "Let the pods on this GPU end and reset it; update the driver. If it comes back, send nvidia-bug-report.sh to NVIDIA."
)
REPORT = "Nothing to do at once. If it comes back, update the driver; then send nvidia-bug-report.sh to NVIDIA."


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """An XID."""

    number: int
    scope: Scope
    """Whose it is: who has to be put right."""
    is_held: bool
    """The GPU is given to no new claim after it. Else it is counted, and said once."""
    meaning: str
    advice: str


def _programs(numbers: Sequence[int], meaning: str, advice: str = RESTART) -> Iterator[Xid]:
    """A program did it to itself."""
    for number in numbers:
        yield Xid(number=number, scope=Scope.APPLICATION, is_held=False, meaning=meaning, advice=advice)


def _counted(number: int, meaning: str, advice: str) -> Iterator[Xid]:
    """No program is to blame, and the GPU works as before."""
    yield Xid(number=number, scope=Scope.GPU, is_held=False, meaning=meaning, advice=advice)


def _held(number: int, meaning: str, advice: str = RESET, *, scope: Scope = Scope.GPU) -> Iterator[Xid]:
    yield Xid(number=number, scope=scope, is_held=True, meaning=meaning, advice=advice)


_COPY_ENGINES = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))
_DECODERS = (68, 83, 84, 88, 89, 96, 97, 98)
_JPEG = (82, *range(99, 106))
_LINKS = "an NVLink faulted"

XIDS: tuple[Xid, ...] = tuple(
    sorted(
        (
            *_programs((8, 43), "a program's channel was reset, the others go on"),
            *_programs((11, 25, 32), "a program's command buffer is corrupt"),
            *_programs((13,), "a program's kernel faulted (illegal instruction or address)"),
            *_programs((31,), "a program read or wrote memory that it does not have"),
            *_programs((37, 66, 67, 141), "the driver or a program used the GPU in a way that it does not know", REPORT),
            *_counted(38, "the GPU's context switching firmware was slow to answer", REPORT),
            *_programs(_COPY_ENGINES, "a program's copy faulted (copy engine)"),
            *_counted(44, "a context switch faulted", REPORT),
            *_programs((45,), "a program was ended, and its channels with it"),
            *_held(46, "the GPU stopped answering"),
            *_held(48, "two bits of a memory word are wrong (double-bit ECC error)"),
            *_held(54, "the card's auxiliary power is not connected", POWER, scope=Scope.NODE),
            *_programs((60, *_DECODERS), "a video processor faulted on a program's input"),
            *_held(61, "an internal microcontroller broke off"),
            *_held(62, "an internal microcontroller halted"),
            *_counted(63, "a memory row is to be replaced by a spare one with the next reset", ROW),
            *_held(64, "a memory row could not be noted for replacement"),
            *_programs((69,), "a program's graphics engine class faulted"),
            *_held(74, "an NVLink failed", LINK),
            *_held(79, "the GPU fell off the bus", REBOOT, scope=Scope.NODE),
            *_programs((80,), "what a program sent to the GPU arrived corrupt"),
            *_programs(_JPEG, "a JPEG decoder faulted on a program's input"),
            *_programs((86, 139), "an optical flow engine faulted on a program's input"),
            *_counted(92, "many single-bit errors, all corrected", WATCH),
            *_counted(93, "the InfoROM is written to more often than it lasts for", WATCH),
            *_counted(94, "a memory error, contained: only the program that read it ended", CONTAINED),
            *_held(95, "a memory error, not contained: any program on the GPU may have wrong data"),
            *_counted(106, "a test message of the management bus", "Nothing to do."),
            *_counted(107, "a test message of the management bus, silent", "Nothing to do."),
            *_programs((108, 137), "a program's access over NVLink faulted"),
            *_programs((109,), "a program's context switch timed out", TIMEOUT),
            *_held(110, "a security fault of the GPU's firmware", SOFTWARE),
            *_held(119, "the GPU's system processor (GSP) does not answer", SOFTWARE),
            *_held(120, "the GPU's system processor (GSP) faulted", SOFTWARE),
            *_counted(121, "an error between CPU and GPU (C2C), corrected", WATCH),
            *_held(136, "training of the links to other chips failed"),
            *_held(140, "a memory error that ECC could not recover"),
            *_held(143, "the GPU could not be initialised"),
            *(each for number in (144, 145, 146, 147, 148, 150) for each in _held(number, _LINKS, LINK)),
            *_held(149, "an NVLink faulted and did not recover by itself", LINK),
            *_held(151, "the keys of confidential computing could not be changed", GUEST, scope=Scope.NODE),
            *_counted(154, "the driver changed what it asks to be done about the GPU: read as the recovery action", ACTION),
            *_held(155, "an NVLink failed, as the driver found"),
            *_held(156, "a part of the GPU is to be retired with the next reset"),
            *_counted(157, "a part of the GPU could not be retired", WATCH),
            *_held(158, "the GPU timed out for good"),
            *_counted(160, "a memory channel was retired", WATCH),
            *_counted(161, "a memory channel could not be retired", WATCH),
            *_counted(171, "where the memory error of XID 48 was: in the GPU's memory (DRAM)", DETAIL),
            *_counted(172, "where the memory error of XID 48 was: in the chip (SRAM)", DETAIL),
        ),
        key=lambda each: each.number,
    )
)

_BY_NUMBER = {xid.number: xid for xid in XIDS}


def find_xid(number: int) -> Xid:
    """What is known of it; a number of nobody is the GPU's, by caution."""
    found = _BY_NUMBER.get(number)
    meaning = "an error that is not in this driver's table"
    return found or Xid(number=number, scope=Scope.GPU, is_held=True, meaning=meaning, advice=LOOK)


def is_known(number: int) -> bool:
    """Whether the table has it."""
    return number in _BY_NUMBER
