"""Images made on the spot are what a registry would have served."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import Any

from hack.devcluster.images import build_image, build_tar


def read_tar(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: file.read() for member in tar if (file := tar.extractfile(member)) is not None}


def read_json(data: bytes) -> Any:
    return json.loads(data)


def test_image_is_a_chain_of_digests_that_hold() -> None:
    """The index names the manifest, the manifest the config and the layer, each by the digest of its bytes."""
    layer = build_tar({"bin/busybox": b"elf"}, {"bin/sh": "busybox"})
    files = read_tar(build_image("localhost/x:1", layer, command=["/bin/sh"]))
    entry = read_json(files["index.json"])["manifests"][0]
    manifest = read_json(files["blobs/" + entry["digest"].replace(":", "/")])
    config = read_json(files["blobs/" + manifest["config"]["digest"].replace(":", "/")])
    assert entry["annotations"]["io.containerd.image.name"] == "localhost/x:1"
    assert config["config"]["Cmd"] == ["/bin/sh"]
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert files["blobs/" + manifest["layers"][0]["digest"].replace(":", "/")] == layer
    for name, data in files.items():
        if name.startswith("blobs/sha256/"):
            assert name.removeprefix("blobs/sha256/") == hashlib.sha256(data).hexdigest()


def test_same_input_gives_the_same_image() -> None:
    layer = build_tar({"a": b"1"}, {})
    assert build_image("x", layer, command=[]) == build_image("x", layer, command=[])


def test_files_can_be_run_and_links_lead_where_they_should() -> None:
    with tarfile.open(fileobj=io.BytesIO(build_tar({"bin/busybox": b"elf"}, {"bin/ls": "busybox"}))) as tar:
        assert tar.getmember("bin/busybox").mode == 0o755
        assert tar.getmember("bin/ls").linkname == "busybox"
