"""Container images made on the spot: no registry is needed, and nothing but the machine's static busybox."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hack.devcluster.layout import DevclusterError, Layout

_APPLETS = """
cat cut date echo env false grep head id kill ls mount readlink sed sh sleep sort stat tail test touch tr true wc
"""
_OCI = "application/vnd.oci.image."


def build_image(ref: str, layer: bytes, *, command: Sequence[str]) -> bytes:
    """An OCI archive with one layer, as bytes; the same input gives the same bytes."""
    blobs: dict[str, bytes] = {}

    def add_blob(data: bytes) -> tuple[str, int]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return f"sha256:{digest}", len(data)

    layer_digest, layer_bytes = add_blob(layer)
    config: dict[str, object] = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": list(command), "Env": ["PATH=/bin:/usr/bin:/usr/local/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [layer_digest]},
    }
    config_digest, config_bytes = add_blob(json.dumps(config).encode())
    manifest: dict[str, object] = {
        "schemaVersion": 2,
        "mediaType": _OCI + "manifest.v1+json",
        "config": {"mediaType": _OCI + "config.v1+json", "digest": config_digest, "size": config_bytes},
        "layers": [{"mediaType": _OCI + "layer.v1.tar", "digest": layer_digest, "size": layer_bytes}],
    }
    manifest_digest, manifest_bytes = add_blob(json.dumps(manifest).encode())
    entry = {
        "mediaType": _OCI + "manifest.v1+json",
        "digest": manifest_digest,
        "size": manifest_bytes,
        "annotations": {"io.containerd.image.name": ref, "org.opencontainers.image.ref.name": ref},
    }
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    files |= {f"blobs/sha256/{digest}": data for digest, data in blobs.items()}
    return build_tar(files, {})


def build_tar(files: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    """A tar of executable files and symbolic links."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
        for name, target in links.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return out.getvalue()


def write_images(folder: Path) -> tuple[Path, ...]:
    """Write ``localhost/pause:1`` and ``localhost/busybox:1`` as OCI archives; return their paths.

    The pause image is busybox too: the runtime ends a sandbox by SIGKILL, so that nothing has to act on a signal.
    """
    found = shutil.which("busybox")
    if found is None:
        raise DevclusterError("busybox is missing; run: hack/devcluster/devcluster build")
    busybox = Path(found).read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    shell = build_tar({"bin/busybox": busybox}, {f"bin/{applet}": "busybox" for applet in _APPLETS.split()})
    pause = build_tar({"bin/busybox": busybox}, {})
    images = {
        "pause": build_image("localhost/pause:1", pause, command=["/bin/busybox", "sleep", "2147483647"]),
        "busybox": build_image("localhost/busybox:1", shell, command=["/bin/sh"]),
    }
    for name, data in images.items():
        (folder / f"{name}.tar").write_bytes(data)
    return tuple(folder / f"{name}.tar" for name in images)


def ctr(layout: Layout) -> list[str]:
    """The beginning of a ctr command on this cluster's containers."""
    return [str(layout.node_bin / "ctr"), "-a", str(layout.containerd_socket), "-n", "k8s.io"]


def load_image(layout: Layout, archive: Path) -> str:
    """Import an OCI or Docker archive into the node's containerd; return what ctr says.

    Raises:
        DevclusterError: containerd refuses the file.
    """
    command = [*ctr(layout), "images", "import", str(archive)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DevclusterError(f"containerd does not take {archive}:\n{done.stderr}")
    return done.stdout
