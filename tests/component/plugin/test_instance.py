"""An instance on disk: its lock, its folders, and what dead instances left."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from driver.errors import SocketUnusable
from driver.plugin.instance import take_instance
from driver.plugin.sockets import SocketPaths, choose_socket_paths


def choose(root: Path, instance: str) -> SocketPaths:
    return choose_socket_paths(
        driver_name="gpu.nvidia.com", instance=instance, plugin_dir=root / "plugins", registry_dir=root / "registry"
    )


def bind(path: Path) -> None:
    """A socket file whose server is gone."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


def leave_dead_instance(root: Path, name: str) -> SocketPaths:
    """What kill -9 leaves: sockets and a lock file that nobody holds."""
    paths = choose(root, name)
    instance = take_instance(paths)
    bind(paths.service)
    bind(paths.registration)
    os.close(instance._lock_fd)
    return paths


def files(root: Path) -> set[str]:
    return {each.name for each in root.rglob("*") if not each.is_dir()}


def test_folders_are_made_for_root_alone_and_the_kubelets_as_the_kubelet_makes_it(root: Path) -> None:
    paths = choose(root, "one")
    take_instance(paths).release()
    assert stat.S_IMODE(paths.service.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(paths.registration.parent.stat().st_mode) == 0o750


def test_our_folder_is_narrowed_and_the_kubelets_left_as_it_is(root: Path) -> None:
    paths = choose(root, "one")
    for folder in (paths.service.parent, paths.registration.parent):
        folder.mkdir()
        folder.chmod(0o755)
    take_instance(paths).release()
    assert stat.S_IMODE(paths.service.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(paths.registration.parent.stat().st_mode) == 0o755


def test_the_lock_file_is_private_and_goes_with_its_instance(root: Path) -> None:
    paths = choose(root, "one")
    instance = take_instance(paths)
    assert stat.S_IMODE(paths.lock.stat().st_mode) == 0o600
    instance.release()
    instance.release()
    assert files(root) == set()


def test_the_files_of_a_dead_instance_go_and_a_live_ones_stay(root: Path) -> None:
    """B57: kill -9, and a neighbour in a rolling update."""
    live = take_instance(choose(root, "live"))
    bind(live.paths.service)
    bind(live.paths.registration)
    dead = leave_dead_instance(root, "dead")
    mine = take_instance(choose(root, "mine"))
    assert files(root) == {live.paths.service.name, live.paths.registration.name, live.paths.lock.name, mine.paths.lock.name}
    assert not dead.lock.exists()
    live.release()
    mine.release()


def test_the_same_instance_again_finds_its_path_free(root: Path) -> None:
    """A container that is restarted in its pod has the same pod uid."""
    paths = leave_dead_instance(root, "pod")
    hidden = paths.service.with_name(".x")
    bind(hidden)
    again = take_instance(paths)
    assert files(root) == {paths.lock.name, ".x"}
    again.release()


def test_an_instance_that_lives_is_not_taken_twice(root: Path) -> None:
    """Two servers on one path would take each other's sockets (R15)."""
    live = take_instance(choose(root, "pod"))
    bind(live.paths.service)
    with pytest.raises(SocketUnusable, match=rf"locked by a live process \(pid {os.getpid()}\).*its own pod uid"):
        take_instance(choose(root, "pod"), patience_s=0)
    assert live.paths.service.exists()
    live.release()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"[]",
        b"[" * 4096,
        b'{"service": 5, "registration": null}',
        json.dumps({"service": "../victim.sock", "registration": "/etc/passwd"}).encode(),
        json.dumps({"service": "..", "registration": "."}).encode(),
        json.dumps({"service": "victim.txt", "registration": "a\nb.sock"}).encode(),
        b"\xff\xfe",
        b"9" * 5000,
    ],
    ids=["empty", "no json", "a list", "deep", "wrong types", "paths", "folders", "other names", "not UTF-8", "a huge number"],
)
def test_a_strange_lock_file_removes_nothing_else(root: Path, content: bytes) -> None:
    """A file of the host is not believed: only sockets, only plain names, only in our two folders."""
    paths = choose(root, "mine")
    take_instance(paths).release()
    bind(root / "victim.sock")
    (paths.service.parent / "victim.txt").touch()
    (paths.service.parent / "dra-strange.lock").write_bytes(content)
    take_instance(paths).release()
    assert files(root) == {"victim.sock", "victim.txt"}


def test_a_lock_file_that_is_a_link_is_left_alone(root: Path) -> None:
    paths = choose(root, "mine")
    take_instance(paths).release()
    victim = root / "victim"
    victim.touch()
    (paths.service.parent / "dra-link.lock").symlink_to(victim)
    take_instance(paths).release()
    assert files(root) == {"victim", "dra-link.lock"}


def test_a_named_file_that_is_no_socket_stays(root: Path) -> None:
    """Only what a server could have left is removed."""
    paths = choose(root, "mine")
    take_instance(paths).release()
    (paths.service.parent / "dra-x.sock").write_text("somebody's")
    (paths.service.parent / "dra-x.lock").write_text('{"service": "dra-x.sock"}')
    take_instance(paths).release()
    assert files(root) == {"dra-x.sock"}


def test_a_folder_that_cannot_be_made_is_said(root: Path) -> None:
    (root / "plugins").write_text("in the way")
    with pytest.raises(SocketUnusable, match=r"taking the instance one in .*/plugins: "):
        take_instance(choose(root, "one"))


def test_many_instances_that_start_and_end_at_once_never_take_a_live_ones_files(root: Path) -> None:
    """The lock file of one that starts may be removed by one that cleans: it is then made anew."""
    broken: list[str] = []

    def live_and_die(number: int) -> None:
        for _ in range(20):
            instance = take_instance(choose(root, f"i{number}"))
            bind(instance.paths.service)
            if not (instance.paths.service.exists() and instance.paths.lock.exists()):
                broken.append(instance.paths.instance)
            instance.paths.service.unlink()
            instance.release()

    threads = [threading.Thread(target=live_and_die, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert broken == []
    assert files(root) == set()
