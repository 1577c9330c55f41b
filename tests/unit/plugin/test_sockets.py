"""Socket paths: per instance, at most 107 bytes, the same each time, never those of another instance."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.errors import SettingsInvalid, SocketPathTooLong
from driver.plugin import sockets

KUBELET = Path("/var/lib/kubelet")
POD_UID = "6f1b8c1e-3d0a-4c57-9a3b-2f0c5a7d9e11"
OTHER_POD_UID = "6f1b8c1e-3d0a-4c57-9a3b-2f0c5a7d9e12"


def choose(driver_name: str, *, instance: str = POD_UID, root: Path = KUBELET) -> sockets.SocketPaths:
    return sockets.choose_socket_paths(
        driver_name=driver_name,
        instance=instance,
        plugin_dir=root / "plugins" / driver_name,
        registry_dir=root / "plugins_registry",
    )


def driver_of(length: int) -> str:
    return ("gpu.nvidia.com." + "x" * length)[:length]


def root_of(length: int) -> Path:
    return Path("/" + "r" * (length - 1))


def test_a_usual_driver_gets_the_names_that_people_know() -> None:
    assert choose("gpu.nvidia.com") == sockets.SocketPaths(
        instance=POD_UID,
        service=KUBELET / f"plugins/gpu.nvidia.com/dra-{POD_UID}.sock",
        registration=KUBELET / f"plugins_registry/gpu.nvidia.com-{POD_UID}-reg.sock",
        lock=KUBELET / f"plugins/gpu.nvidia.com/dra-{POD_UID}.lock",
    )


@pytest.mark.parametrize("name_length", [20, 34, 63], ids=lambda length: f"driver name of {length}")
@pytest.mark.parametrize("instance", [POD_UID, "a1b2c3d4e5f6"], ids=["pod uid", "random word"])
def test_every_driver_name_fits_below_the_usual_root(name_length: int, instance: str) -> None:
    """B55: each path is legal, and nothing stands where the kubelet's watcher skips it."""
    paths = choose(driver_of(name_length), instance=instance)
    assert max(len(os.fsencode(path)) for path in (paths.service, paths.registration)) <= 107
    assert not paths.registration.name.startswith(".")
    assert paths.registration.name.endswith(".sock")


def test_a_root_of_60_characters_still_serves_a_driver_name_of_20() -> None:
    """B55: the shortest names are taken, which follow from the same instance."""
    paths = choose(driver_of(20), root=root_of(60))
    assert (len(str(paths.service)), len(str(paths.registration))) == (106, 98)


@pytest.mark.parametrize(("name_length", "size"), [(34, 120), (63, 149)], ids=["driver name of 34", "driver name of 63"])
def test_a_root_that_leaves_no_room_is_refused_with_the_length_and_the_limit(name_length: int, size: int) -> None:
    """B55: a clear refusal, not an OSError of bind."""
    with pytest.raises(SocketPathTooLong, match=rf"the shortest is {size} bytes .*the limit is 107; use a shorter folder"):
        choose(driver_of(name_length), root=root_of(60))


@pytest.mark.parametrize(("name_length", "root_length"), [(14, 16), (20, 16), (34, 16), (63, 16), (14, 60), (20, 60), (34, 40)])
def test_two_pods_never_share_a_name(name_length: int, root_length: int) -> None:
    """Two instances of one driver live on one folder in a rolling update (R15)."""
    one, other = (choose(driver_of(name_length), instance=uid, root=root_of(root_length)) for uid in (POD_UID, OTHER_POD_UID))
    assert one.service != other.service
    assert one.registration != other.registration
    assert one.lock != other.lock


@given(
    instance=st.from_regex(r"[a-f0-9]{8}(-[a-f0-9]{4}){0,3}", fullmatch=True),
    name_length=st.integers(1, 63),
    root_length=st.integers(2, 70),
)
def test_a_path_is_legal_and_follows_from_its_instance_or_is_refused(instance: str, name_length: int, root_length: int) -> None:
    driver_name, root = ("d" * name_length), root_of(root_length)
    try:
        paths = choose(driver_name, instance=instance, root=root)
    except SocketPathTooLong:
        assert root_length + len("/plugins/") + name_length > 90 or root_length + len("/plugins_registry/") > 87
    else:
        assert max(len(os.fsencode(each)) for each in (paths.service, paths.registration)) <= 107
        assert paths == choose(driver_name, instance=instance, root=root)


@pytest.mark.parametrize("filler", ["a", "é", "字"], ids=["ascii", "two bytes", "three bytes"])
@pytest.mark.parametrize("excess", [-1, 0, 1], ids=["106 bytes", "107 bytes", "108 bytes"])
def test_the_limit_is_in_bytes_and_exact(filler: str, excess: int) -> None:
    """B56: 107 bytes keep the full name; at 108 the next shorter name is taken."""
    name = f"dra-{POD_UID}.sock"
    room = 107 + excess - len(name) - len("//")
    folder = Path("/" + filler * (room // len(filler.encode())) + "a" * (room % len(filler.encode())))
    paths = sockets.choose_socket_paths(
        driver_name="gpu.nvidia.com", instance=POD_UID, plugin_dir=folder, registry_dir=Path("/run/reg")
    )
    assert (paths.service.name == name) is (excess <= 0)
    assert len(os.fsencode(paths.service)) == (
        107 + excess if excess <= 0 else 107 + excess - len(name) + len("dra-0123456789a.sock")
    )


@pytest.mark.parametrize(
    ("driver_name", "instance", "plugin_dir"),
    [
        ("../gpu", POD_UID, "/run/p"),
        ("", POD_UID, "/run/p"),
        ("gpu/nvidia", POD_UID, "/run/p"),
        (".hidden", POD_UID, "/run/p"),
        ("g" * 64, POD_UID, "/run/p"),
        ("gpu.nvidia.com", "../../etc", "/run/p"),
        ("gpu.nvidia.com", "", "/run/p"),
        ("gpu.nvidia.com", "a\nb", "/run/p"),
        ("gpu.nvidia.com", "a" * 64, "/run/p"),
        ("gpu.nvidia.com", POD_UID, "run/p"),
    ],
    ids=[
        *("driver leads out", "no driver", "driver with a slash", "hidden driver", "driver too long"),
        *("instance leads out", "no instance", "instance with a line end", "instance too long", "relative folder"),
    ],
)
def test_what_is_no_file_name_never_becomes_one(driver_name: str, instance: str, plugin_dir: str) -> None:
    with pytest.raises(SettingsInvalid):
        sockets.choose_socket_paths(
            driver_name=driver_name, instance=instance, plugin_dir=Path(plugin_dir), registry_dir=Path("/run/reg")
        )


@pytest.mark.parametrize("name", ["0123456789a.sock", f"gpu.nvidia.com-{POD_UID}-reg.sock"], ids=["shortest", "longest"])
def test_a_hidden_name_is_skipped_by_the_kubelet_and_no_longer_than_its_socket(name: str) -> None:
    hidden = [sockets.build_hidden_path(Path("/run/reg") / name, generation) for generation in (0, 1, 999, 1000)]
    assert all(each.name.startswith(".") and len(each.name) <= len(name) for each in hidden)
    assert all(each.name.startswith(sockets.build_hidden_prefix(Path(name))) for each in hidden)
    assert len(set(hidden[:3])) == 3
