"""The stubs follow from `proto/`, and the check of it notices when they do not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hack.checks.gen_proto import describe_drift, find_protos, main
from hack.checks.tree import REPOSITORY


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of one proto file, with fresh stubs."""
    shutil.copytree(REPOSITORY / "proto" / "pluginregistration", tmp_path / "proto" / "pluginregistration")
    assert main([], repository=tmp_path) == 0
    return tmp_path


def test_committed_stubs_follow_from_the_proto_files() -> None:
    assert main(["--check"]) == 0


def test_fresh_stubs_pass_the_check(repository: Path) -> None:
    assert main(["--check"], repository=repository) == 0


def test_each_proto_file_gets_code_and_types_for_messages_and_services(repository: Path) -> None:
    folder = repository / "driver" / "pb" / "pluginregistration" / "v1"
    assert sorted(path.name for path in folder.iterdir()) == [
        "api_pb2.py",
        "api_pb2.pyi",
        "api_pb2_grpc.py",
        "api_pb2_grpc.pyi",
    ]


def test_a_changed_comment_in_a_proto_file_is_noticed(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Comments reach the stubs, so that an editor shows them."""
    proto = repository / "proto" / "pluginregistration" / "v1" / "api.proto"
    proto.write_text(proto.read_text().replace("Who are you?", "Who goes there?"))
    assert main(["--check"], repository=repository) == 1
    assert capsys.readouterr().err.splitlines() == [
        "driver/pb/pluginregistration/v1/api_pb2_grpc.py: differs",
        "driver/pb/pluginregistration/v1/api_pb2_grpc.pyi: differs",
        "The stubs do not follow from proto/. Run: make proto, and commit what it writes.",
    ]


def test_a_stub_edited_by_hand_is_noticed_and_made_good(repository: Path) -> None:
    stub = repository / "driver" / "pb" / "pluginregistration" / "v1" / "api_pb2.py"
    stub.write_text(stub.read_text() + "# quick fix\n")
    assert main(["--check"], repository=repository) == 1
    assert main([], repository=repository) == 0
    assert main(["--check"], repository=repository) == 0


def test_stubs_go_when_their_proto_file_went(repository: Path) -> None:
    left_over = repository / "driver" / "pb" / "gone" / "v1" / "api_pb2.py"
    left_over.parent.mkdir(parents=True)
    left_over.write_text("")
    assert main(["--check"], repository=repository) == 1
    assert main([], repository=repository) == 0
    assert not left_over.exists()


def test_a_broken_proto_file_leaves_the_stubs_as_they_are(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stub = repository / "driver" / "pb" / "pluginregistration" / "v1" / "api_pb2.py"
    before = stub.read_bytes()
    (repository / "proto" / "pluginregistration" / "v1" / "api.proto").write_text('syntax = "proto3";\nmessage {')
    assert main([], repository=repository) == 1
    assert "protoc said" in capsys.readouterr().err
    assert stub.read_bytes() == before


def test_drift_names_each_stub_once_and_says_how_it_differs() -> None:
    committed = {"a": b"1", "b": b"1", "old": b"1"}
    fresh = {"a": b"1", "b": b"2", "new": b"1"}
    assert describe_drift(committed, fresh) == ["new: is missing", "old: has no proto file any more", "b: differs"]


def test_proto_files_are_found_in_one_order(tmp_path: Path) -> None:
    for name in ("b/v1/api.proto", "a/v1/api.proto", "a/README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert find_protos(tmp_path) == ["a/v1/api.proto", "b/v1/api.proto"]
