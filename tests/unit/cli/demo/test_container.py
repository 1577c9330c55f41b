"""What a container gets by CDI ids."""

from __future__ import annotations

from driver.cli.demo.container import CdiFile, ContainerView, build_container_view


def _file() -> CdiFile:
    return CdiFile(
        name="claim.json",
        spec={
            "kind": "k8s.gpu.nvidia.com/claim",
            "devices": [
                {
                    "name": "u-a",
                    "containerEdits": {"env": ["A=1"], "deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/x"}]},
                },
                {"name": "u-b", "containerEdits": {"env": ["B=1"], "deviceNodes": [{"path": "/dev/nvidia1"}]}},
            ],
            "containerEdits": {
                "env": ["A=1", "C=1"],
                "deviceNodes": [{"path": "/dev/nvidiactl"}],
                "mounts": [{"hostPath": "/h/lib.so", "containerPath": "/lib.so"}],
            },
        },
    )


def test_a_container_gets_the_devices_asked_for_and_the_files_own_edits_once() -> None:
    assert build_container_view([_file()], ["k8s.gpu.nvidia.com/claim=u-a"]) == ContainerView(
        files=("claim.json",),
        env=("A=1", "C=1"),
        device_nodes=("/dev/nvidia0", "/dev/nvidiactl"),
        mounts=("/lib.so",),
    )


def test_a_file_of_which_no_device_is_asked_gives_nothing() -> None:
    empty = ContainerView(files=(), env=(), device_nodes=(), mounts=())
    assert build_container_view([_file()], ["other.vendor/claim=u-a"]) == empty
    assert build_container_view([], ["k8s.gpu.nvidia.com/claim=u-a"]) == empty


def test_several_files_add_up() -> None:
    other = CdiFile(name="m.json", spec={"kind": "v/m", "devices": [{"name": "x", "containerEdits": {"env": ["M=1"]}}]})
    view = build_container_view([_file(), other], ["v/m=x", "k8s.gpu.nvidia.com/claim=u-b"])
    assert (view.files, view.env) == (("claim.json", "m.json"), ("B=1", "A=1", "C=1", "M=1"))
