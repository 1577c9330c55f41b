"""What was published last, on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.api.resource_v1 import Attribute, Device
from driver.errors import StateUnwritable
from driver.node.inventory_file import FILE_NAME, InventoryFile
from driver.resourceslice.inventory import Inventory

INVENTORY = Inventory(devices=(Device(name="gpu-0000-01-00-0", attributes={"allocator": Attribute(string="scheduler")}),))


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """By another process, too."""
    InventoryFile(tmp_path).write(INVENTORY)
    assert InventoryFile(tmp_path).read() == INVENTORY
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_nothing_is_written_when_nothing_changed(tmp_path: Path) -> None:
    """A pass every five minutes wears no disk."""
    file = InventoryFile(tmp_path)
    file.write(INVENTORY)
    before = (tmp_path / FILE_NAME).stat()
    file.write(INVENTORY)
    after = (tmp_path / FILE_NAME).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_node_without_a_past_has_an_empty_inventory(tmp_path: Path) -> None:
    """The first start."""
    assert InventoryFile(tmp_path).read() == Inventory()


@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff\xfe", b'{"version": 99, "devices": []}', b'{"devices": [{"name": "../etc"}]}']
)
def test_an_unusable_file_is_set_aside_and_kept(tmp_path: Path, text: bytes) -> None:
    """Evidence stays, the node starts."""
    (tmp_path / FILE_NAME).write_bytes(text)
    assert InventoryFile(tmp_path).read() == Inventory()
    assert (tmp_path / f"{FILE_NAME}.corrupt").read_bytes() == text
    assert not (tmp_path / FILE_NAME).exists()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """The folder is root's, and still a name in it is no path to elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"untouched")
    (tmp_path / FILE_NAME).symlink_to(elsewhere)
    file = InventoryFile(tmp_path)
    assert file.read() == Inventory()
    assert elsewhere.read_bytes() == b"untouched"


def test_a_folder_that_is_gone_is_an_error_with_its_path(tmp_path: Path) -> None:
    """The caller tries again later."""
    with pytest.raises(StateUnwritable, match=r"inventory\.json"):
        InventoryFile(tmp_path / "gone").write(INVENTORY)


def test_what_another_instance_wrote_is_read_anew(tmp_path: Path) -> None:
    """Two instances share the folder in a rolling update; what was decoded once is not believed for ever."""
    mine, theirs = InventoryFile(tmp_path), InventoryFile(tmp_path)
    mine.write(INVENTORY)
    assert mine.read() is mine.read()
    theirs.write(Inventory())
    assert mine.read() == Inventory()
    mine.write(INVENTORY)
    assert theirs.read() == INVENTORY
