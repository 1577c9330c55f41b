"""What happens to nodes: drained, deleted and made again, and without the plugin for long. Nothing that pods hold is lost."""

from __future__ import annotations

from dataclasses import replace

from hack.devcluster import cluster
from tests.e2e import identity, objects
from tests.e2e.kube import Json
from tests.e2e.objects import NAMESPACE
from tests.e2e.runner import Suite
from tests.e2e.scenarios.restarts import MACHINE, expect_untouched, read_files, start_pod
from tests.e2e.stage import NotAsExpected, Stage, expect, is_waiting

SUITE = Suite()
_ONE = objects.claim_spec([objects.exactly()])
_DRAIN = ("drain", "--ignore-daemonsets", "--force", "--timeout=50s")


@SUITE.add("node: drained with claims held, and back: pods go, claims are free, slices stay")
def run_drain(stage: Stage) -> str:
    """``kubectl drain`` and ``uncordon``, as an operator does; a claim that is not a template's is free, and allocated anew."""
    stage.start_plugin(MACHINE)
    stage.api.create(objects.claim("kept", _ONE))
    stage.api.create(objects.pod("named", named="kept"))
    for name in ("one", "two"):
        stage.create_pod(name, _ONE)
    for name in ("named", "one", "two"):
        stage.expect_own_devices(name, stage.wait_running(name))
    before = _identify(stage.wait_pool())
    try:
        _kubectl(stage, *_DRAIN, stage.layout.node)
        left = [each["metadata"]["name"] for each in stage.api.find("Pod", NAMESPACE)]
        expect(not left, f"drained, and these pods are there: {left}")
        expect(not read_files(stage), f"records or CDI files are left: {sorted(read_files(stage))}")
        stage.api.wait("ResourceClaim", NAMESPACE, _is_only_kept_and_free, what="the templates' claims gone, the other free")
        expect(_identify(stage.wait_pool()) == before, "the drain changed the slices")
        stage.api.create(objects.pod("later", named="kept"))
        expect(is_waiting(stage.api, "later"), "a pod is placed on a node that is drained")
    finally:
        _kubectl(stage, "uncordon", stage.layout.node)
    stage.expect_own_devices("later", stage.wait_running("later"))
    return "3 pods gone, their claims free, the slices untouched; a pod that waited runs again"


@SUITE.add("node: the Node is deleted and made again: slices go, and come back as the new node's; a pod runs through")
def run_deleted(stage: Stage) -> str:
    """A kubelet registers when it starts. The plugin is not touched: it sees the new Node by itself."""
    kubeconfig = stage.layout.home / "unbound.kubeconfig"
    identity.write_kubeconfig(stage.api, identity.PLUGIN, stage.layout.admin_kubeconfig, None, kubeconfig)
    stage.start_plugin(MACHINE, folders=replace(stage.folders, kubeconfig=kubeconfig))
    before = start_pod(stage)
    old = _uid(stage)
    stage.api.delete("Node", None, stage.layout.node)
    stage.api.wait("ResourceSlice", None, lambda found: not found, what="the slices collected", query=stage.pool_query)
    stage.restart("kubelet")
    identity.write_kubeconfigs(stage.api, stage.layout)
    new = _uid(stage)
    expect(new != old, "the Node has its old uid")

    def is_the_new_nodes(slices: list[Json]) -> bool:
        owners = {each["metadata"]["ownerReferences"][0]["uid"] for each in slices}
        islands = {objects.attribute(each, "nvlinkIsland") for each in objects.slice_devices(slices).values()}
        tags = {str(each).partition("-")[0] for each in islands}
        return owners == {new} and tags == {new.replace("-", "")[:12]}

    stage.api.wait("ResourceSlice", None, is_the_new_nodes, what="slices of the new Node's", query=stage.pool_query)
    expect_untouched(stage, before)
    return f"{old[:8]} to {new[:8]}; owner and islands of the slices follow, the pod and its claim stayed"


def _identify(slices: list[Json]) -> set[tuple[str, str]]:
    return {(each["metadata"]["uid"], each["metadata"]["resourceVersion"]) for each in slices}


def _is_only_kept_and_free(claims: list[Json]) -> bool:
    return [each["metadata"]["name"] for each in claims] == ["kept"] and not claims[0].get("status", {}).get("allocation")


def _uid(stage: Stage) -> str:
    node = stage.api.get("Node", None, stage.layout.node)
    if node is None:
        raise NotAsExpected("there is no Node")
    return str(node["metadata"]["uid"])


def _kubectl(stage: Stage, *arguments: str) -> None:
    done = cluster.run_kubectl(stage.layout, *arguments)
    expect(done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout[-500:]} {done.stderr[-500:]}")
