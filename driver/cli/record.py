"""``gpu-dra record``: this machine as a mock machine file. Reads, prints, changes nothing."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING

from driver.cli.parser import Commands
from driver.config.load import add_flags, load
from driver.errors import SettingsInvalid

if TYPE_CHECKING:
    from driver.cli.recording import Recording, Virtualization
    from driver.nvml.library import NvmlLibrary
    from driver.nvml.mock.document import MachineDocument
    from driver.nvml.readings import MachineReading

_SETTINGS = ("nvml", "nvml_library", "sys_root", "driver_root")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")

_DESCRIPTION = """\
Write this machine as a mock machine file (YAML) to stdout: its GPUs, links, PCIe
levels, NUMA nodes, fabric, and the MIG instances that are there. The file plays
the machine anywhere, without a GPU: a bug report that others can run, a fixture
of a test, a cluster to try claims on.

UUIDs of GPUs and of a fabric's cluster are replaced, unless --no-anonymize is
given. PCI addresses, product names and the driver's version stay: they are the
machine. Serial numbers are never read, the host's name is never written."""

_EPILOG = """\
examples:
  gpu-dra record > my-machine.yaml
  gpu-dra inspect --nvml mock:./my-machine.yaml
  gpu-dra record --nvml mock:dgx-1v --name my-dgx

exit codes: 0 written, stderr says what the file could not say; 1 NVML does not
answer; 2 wrong command line or settings, or a machine that has no such form.
Next: docs/mock-machines.md tells the form of the file, and how to play faults."""


def add_parser(commands: Commands) -> None:
    """The command's flags and help."""
    parser = commands.add_parser(
        "record", help="write this machine as a mock machine file", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument(
        "--anonymize",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="replace the UUIDs of GPUs and of a fabric's cluster (default: replaced)",
    )
    parser.add_argument("--name", metavar="NAME", help="the machine's name in the file (default: from count and product)")
    add_flags(parser, _SETTINGS)


def run(args: argparse.Namespace) -> int:
    """Read the machine once, and write it.

    Raises:
        NvmlError: NVML does not answer.
        MachineInvalid, SettingsInvalid: what was asked for is wrong.
    """
    from driver.cli.backend import open_for_now  # noqa: PLC0415  (with it come msgspec and all of the machine)
    from driver.cli.recorded_boards import Catalogue  # noqa: PLC0415
    from driver.cli.recording import build_name, build_recorded  # noqa: PLC0415
    from driver.nvml.mock.catalogue import decode_machine, read_boards, read_mig_tables  # noqa: PLC0415

    settings = load(args, os.environ)
    if args.name is not None and _NAME.fullmatch(args.name) is None:
        raise SettingsInvalid(
            f"--name: {args.name[:80]!r} is no machine's name; say lower-case letters, digits, dots and dashes"
        )
    with open_for_now(settings) as backend:
        recording = _read_recording(backend.library, backend.read())
    recorded = build_recorded(
        recording,
        Catalogue(boards=read_boards(), mig_tables=read_mig_tables()),
        name=args.name or build_name(recording.reading.gpus),
        with_identifiers=not args.anonymize,
    )
    text = encode_machine(recorded.document)
    decode_machine(text.encode(), source="the recorded machine", seed="")
    sys.stdout.write(text)
    for note in recorded.notes:
        print(f"gpu-dra record: note: {note}", file=sys.stderr)
    print(f"gpu-dra record: {_sentence(len(recording.gpus), is_anonymous=args.anonymize)}", file=sys.stderr)
    return 0


def encode_machine(document: MachineDocument) -> str:
    """The document as YAML that ``--nvml mock:FILE`` reads; what is as by default is left out."""
    import yaml  # noqa: PLC0415

    class Dumper(yaml.SafeDumper):
        """Machine files have no aliases."""

        def ignore_aliases(self, _: object) -> bool:
            return True

    return yaml.dump(_plain(document), Dumper=Dumper, sort_keys=False, width=140, default_flow_style=None)


def _plain(value: object) -> object:
    import msgspec  # noqa: PLC0415

    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if not isinstance(value, msgspec.Struct):
        return value
    config = value.__struct_config__
    plain: dict[str, object] = {config.tag_field: config.tag} if config.tag_field is not None else {}
    for field in msgspec.structs.fields(value):
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        if getattr(value, field.name) != default:
            plain[field.encode_name] = _plain(getattr(value, field.name))
    return plain


def _sentence(count: int, *, is_anonymous: bool) -> str:
    identifiers = "UUIDs replaced (--no-anonymize keeps them)" if is_anonymous else "UUIDs as they are"
    return f"{count} GPU{'' if count == 1 else 's'} written, {identifiers}; try it: gpu-dra inspect --nvml mock:./FILE.yaml"


def _read_recording(library: NvmlLibrary, reading: MachineReading) -> Recording:
    from driver.cli.recorded_boards import RecordedGpu  # noqa: PLC0415
    from driver.cli.recording import Recording  # noqa: PLC0415

    gpus = []
    for gpu in reading.gpus:
        device_id = library.device_pci_info(library.device_handle_by_uuid(gpu.uuid)).device_id >> 16
        table = tuple(profile for profile in gpu.mig.profiles if profile.placements) if gpu.mig is not None else ()
        instances = tuple((each.profile_id, each.placement.start) for each in gpu.mig.instances) if gpu.mig is not None else ()
        gpus.append(RecordedGpu(reading=gpu, device_id=device_id, mig_table=table, mig_instances=instances))
    return Recording(reading=reading, gpus=tuple(gpus), virtualization=_name_virtualization(reading))


def _name_virtualization(reading: MachineReading) -> Virtualization:
    from driver.nvml.enums import VirtualizationMode  # noqa: PLC0415

    words: dict[int | None, Virtualization] = {
        VirtualizationMode.PASSTHROUGH: "passthrough",
        VirtualizationMode.VGPU: "vgpu",
    }
    return words.get(reading.gpus[0].virtualization_mode, "none") if reading.gpus else "none"
