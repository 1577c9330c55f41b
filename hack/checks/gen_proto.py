"""Makes the stubs of `driver/pb/` from `proto/`, or says where the committed ones differ.

All the kubelet's files are named `api.proto`, which Python refuses to load twice. protoc is therefore told that the
folder `proto/` is `driver/pb/`: the descriptors get distinct names, the stubs import each other rightly, and the names
on the wire stay as they are.

    python -m hack.checks.gen_proto           write the stubs
    python -m hack.checks.gen_proto --check   write nothing; exit status 1 when a stub differs
"""

from __future__ import annotations

import argparse
import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hack.checks.tree import GENERATED as STUBS
from hack.checks.tree import REPOSITORY

SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")
TOOL = ("grpcio-tools", "1.85.1")


class GenerationFailed(Exception):
    """protoc is not the pinned one, or refused a file."""


def find_protos(proto_dir: Path) -> list[str]:
    """The proto files under a folder, as sorted paths relative to it."""
    return sorted(path.relative_to(proto_dir).as_posix() for path in proto_dir.rglob("*.proto"))


def generate_stubs(proto_dir: Path, out_dir: Path) -> None:
    """Writes the stubs of all files under `proto_dir` to `out_dir/driver/pb`."""
    tool, wanted = TOOL
    found = importlib.metadata.version(tool)
    if found != wanted:
        raise GenerationFailed(f"generating stubs: {tool} is {found}, the committed stubs need {wanted}; run: make setup")
    scripts = Path(sys.executable).parent
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc"),
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
        *("-I", f"{STUBS}={proto_dir}"),
        *(f"--{kind}_out={out_dir}" for kind in ("python", "grpc_python")),
        *(f"--{kind}_out=quiet:{out_dir}" for kind in ("mypy", "mypy_grpc")),
        *(f"{STUBS}/{path}" for path in find_protos(proto_dir)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GenerationFailed(f"generating stubs from {proto_dir}: protoc said:\n{done.stderr.strip()}")


def read_stubs(root: Path) -> dict[str, bytes]:
    """The content of all generated files under `root/driver/pb`, by their path relative to root."""
    paths = sorted(path for path in (root / STUBS).rglob("*") if path.name.endswith(SUFFIXES))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def describe_drift(committed: Mapping[str, bytes], fresh: Mapping[str, bytes]) -> list[str]:
    """One line for each stub that is missing, left over or different."""
    return [
        *(f"{path}: is missing" for path in sorted(fresh.keys() - committed.keys())),
        *(f"{path}: has no proto file any more" for path in sorted(committed.keys() - fresh.keys())),
        *(f"{path}: differs" for path in sorted(committed.keys() & fresh.keys()) if committed[path] != fresh[path]),
    ]


def check_stubs(repository: Path, fresh_root: Path) -> int:
    """Says where the committed stubs differ from fresh ones; returns an exit status."""
    drift = describe_drift(read_stubs(repository), read_stubs(fresh_root))
    for line in drift:
        print(line, file=sys.stderr)
    if drift:
        print("The stubs do not follow from proto/. Run: make proto, and commit what it writes.", file=sys.stderr)
        return 1
    return 0


def write_stubs(repository: Path, fresh_root: Path) -> int:
    """Puts fresh stubs in the place of the committed ones; returns an exit status."""
    fresh = read_stubs(fresh_root)
    for path in read_stubs(repository).keys() - fresh.keys():
        (repository / path).unlink()
    for path in fresh:
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(fresh_root / path, repository / path)
    print(f"Wrote {len(fresh)} stubs to {STUBS}.")
    return 0


def main(arguments: list[str] | None = None, *, repository: Path = REPOSITORY) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description="Make the gRPC stubs of driver/pb from proto/.")
    parser.add_argument("--check", action="store_true", help="write nothing, say which committed stubs differ")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        try:
            generate_stubs(repository / "proto", Path(folder))
        except GenerationFailed as err:
            print(err, file=sys.stderr)
            return 1
        finish = check_stubs if chosen.check else write_stubs
        return finish(repository, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
