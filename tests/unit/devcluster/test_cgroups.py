"""The cgroup that a cluster's pods live below."""

from __future__ import annotations

from pathlib import Path

from hack.devcluster.cgroups import list_roots, make_cgroup
from hack.devcluster.layout import Layout


def test_version_1_gets_a_cgroup_in_each_hierarchy_with_the_roots_processors(tmp_path: Path) -> None:
    """An empty cpuset takes no process."""
    (tmp_path / "memory").mkdir()
    cpuset = tmp_path / "cpuset"
    (cpuset / "gpu-dra-dev").mkdir(parents=True)
    for folder, text in ((cpuset, "0-1\n"), (cpuset / "gpu-dra-dev", "\n")):
        (folder / "cpuset.cpus").write_text(text)
    make_cgroup(Layout(), tmp_path)
    assert (tmp_path / "memory" / "gpu-dra-dev").is_dir()
    assert (cpuset / "gpu-dra-dev" / "cpuset.cpus").read_text() == "0-1\n"


def test_version_2_has_one_hierarchy(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "system.slice").mkdir()
    assert list_roots(tmp_path) == [tmp_path]


def test_two_clusters_have_two_cgroups() -> None:
    """A kubelet ends what it does not know below its own."""
    assert Layout().cgroup != Layout(home=Path("/run/other")).cgroup
