"""Links in another system's root mean that system's files."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from driver.host.inside import resolve_inside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Something stands outside of the root under each name that an escape would find."""
    root = tmp_path / "root"
    for folder in (root / "usr/lib64", tmp_path / "usr/lib64", tmp_path / "outside"):
        folder.mkdir(parents=True)
        (folder / "lib").write_text(str(folder))
    return root


def test_a_plain_path_is_itself(root: Path) -> None:
    assert resolve_inside(root, "usr/lib64/lib") == PurePosixPath("usr/lib64/lib")


LINKS = {
    "relative": "usr/lib64/lib",
    "absolute": "/usr/lib64/lib",
    "up too far": "../../../../usr/lib64/lib",
    "absolute and up too far": "/../../usr/lib64/lib",
    "with dots and slashes": "./usr//lib64/./lib",
    "down and up": "usr/lib64/../lib64/lib",
}


@pytest.mark.parametrize("target", LINKS.values(), ids=LINKS.keys())
def test_a_link_ends_inside_the_root(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    assert resolve_inside(root, "link") == PurePosixPath("usr/lib64/lib")


def test_a_link_on_the_way_is_followed_too(root: Path) -> None:
    (root / "lib64").symlink_to("/usr/lib64")
    assert resolve_inside(root, "lib64/lib") == PurePosixPath("usr/lib64/lib")


def test_a_chain_of_links_is_followed_to_its_end(root: Path) -> None:
    (root / "usr/lib64/lib.so").symlink_to("lib.so.1")
    (root / "usr/lib64/lib.so.1").symlink_to("/usr/lib64/lib")
    assert resolve_inside(root, "usr/lib64/lib.so") == PurePosixPath("usr/lib64/lib")


def test_up_from_a_linked_folder_is_up_from_where_it_really_is(root: Path) -> None:
    (root / "deep/er").mkdir(parents=True)
    (root / "short").symlink_to("deep/er")
    assert resolve_inside(root, "short/..") == PurePosixPath("deep")


def test_an_absolute_link_to_a_file_outside_finds_nothing(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "outside/lib")
    with pytest.raises(FileNotFoundError):
        resolve_inside(root, "link")


def test_a_relative_link_to_a_file_outside_finds_nothing(root: Path) -> None:
    (root / "link").symlink_to("../outside/lib")
    with pytest.raises(FileNotFoundError):
        resolve_inside(root, "link")


@pytest.mark.parametrize("inside", ["", "/", ".", "..", "usr/.."])
def test_the_root_is_its_own_end(root: Path, inside: str) -> None:
    assert resolve_inside(root, inside) == PurePosixPath()


def test_links_that_go_round_end_in_an_error(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("/a")
    with pytest.raises(OSError, match="symbolic links"):
        resolve_inside(root, "a")


def test_a_path_through_a_file_is_an_error(root: Path) -> None:
    with pytest.raises(NotADirectoryError):
        resolve_inside(root, "usr/lib64/lib/more")


def test_a_link_that_is_too_long_for_its_own_good_is_still_bounded(root: Path) -> None:
    (root / "a").symlink_to("/".join(["a"] * 200))
    with pytest.raises(OSError, match="symbolic links"):
        resolve_inside(root, "a")
