"""A small API client for scenarios: JSON in, JSON out, and waiting by watch."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import urllib3

Json: TypeAlias = dict[str, Any]

_PATHS: Mapping[str, tuple[str, str]] = {
    "Namespace": ("/api/v1", "namespaces"),
    "Node": ("/api/v1", "nodes"),
    "Pod": ("/api/v1", "pods"),
    "Event": ("/api/v1", "events"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles"),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "ResourceQuota": ("/api/v1", "resourcequotas"),
    "Job": ("/apis/batch/v1", "jobs"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "PersistentVolume": ("/api/v1", "persistentvolumes"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses"),
    "FlowSchema": ("/apis/flowcontrol.apiserver.k8s.io/v1", "flowschemas"),
    "PriorityLevelConfiguration": ("/apis/flowcontrol.apiserver.k8s.io/v1", "prioritylevelconfigurations"),
    "ValidatingAdmissionPolicy": ("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
    "ValidatingAdmissionPolicyBinding": ("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings"),
    "DeviceTaintRule": ("/apis/resource.k8s.io/v1", "devicetaintrules"),
    "DeviceClass": ("/apis/resource.k8s.io/v1", "deviceclasses"),
    "ResourceClaim": ("/apis/resource.k8s.io/v1", "resourceclaims"),
    "ResourceClaimTemplate": ("/apis/resource.k8s.io/v1", "resourceclaimtemplates"),
    "ResourceSlice": ("/apis/resource.k8s.io/v1", "resourceslices"),
}
_WATCH_S = 10


class ApiRefused(Exception):
    """The API server answered with an error; ``status`` is its HTTP status, 0 when it did not answer."""

    def __init__(self, request: str, status: int, text: str) -> None:
        super().__init__(f"{request}: {status} {text}")
        self.status = status


class TimedOut(Exception):
    """What was waited for did not come; the text says what there was at last."""


class KubeApi:
    """The cluster's API as the administrator."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())  # hack/devcluster writes JSON
        pki, user = kubeconfig.parent, config["users"][0]["user"]
        self._server = config["clusters"][0]["cluster"]["server"]
        self._http = urllib3.PoolManager(
            ca_certs=config["clusters"][0]["cluster"]["certificate-authority"],
            cert_file=str(pki / user["client-certificate"]),
            key_file=str(pki / user["client-key"]),
            retries=False,
            maxsize=8,
        )

    def as_bearer(self, token: str) -> KubeApi:
        """The same API as the holder of a token."""
        other = copy.copy(self)
        pool = self._http.connection_pool_kw
        other._http = urllib3.PoolManager(
            ca_certs=pool["ca_certs"], retries=False, maxsize=2, headers={"Authorization": f"Bearer {token}"}
        )
        return other

    def path(self, kind: str, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Where objects of this kind lie."""
        prefix, plural = _PATHS[kind]
        parts = [prefix, *(["namespaces", namespace] if namespace else []), plural, name, subresource]
        return "/".join(part for part in parts if part)

    def request(self, method: str, path: str, body: Json | None = None, *, kind: str = "application/json") -> Json:
        """Send one request and return its JSON. Bodies have the white space of Python's own JSON, as from many a client.

        Raises:
            ApiRefused: any answer but a good one.
        """
        answer = self.request_text(method, path, None if body is None else json.dumps(body), kind=kind)
        decoded: Json = json.loads(answer or "{}")
        return decoded

    def request_text(self, method: str, path: str, body: str | None = None, *, kind: str = "application/json") -> str:
        """``request`` for answers that are no JSON, such as logs."""
        headers = {**self._http.headers, "Content-Type": kind}
        try:
            response = self._http.request(method, self._server + path, body=body, headers=headers, timeout=20.0)
        except urllib3.exceptions.HTTPError as err:
            raise ApiRefused(f"{method} {path}", 0, str(err)) from err
        text = response.data.decode(errors="replace")
        if response.status >= 300:
            raise ApiRefused(f"{method} {path}", response.status, text[:2000])
        return text

    def try_creating(self, path: str, body: Json) -> list[str]:
        """Have the server judge an object without storing it; its warnings.

        Raises:
            ApiRefused: it would not be stored.
        """
        headers = {**self._http.headers, "Content-Type": "application/json"}
        where = f"{self._server}{path}?dryRun=All"
        response = self._http.request("POST", where, body=json.dumps(body), headers=headers, timeout=20.0)
        if response.status >= 300:
            raise ApiRefused(f"POST {path}", response.status, response.data.decode(errors="replace")[:2000])
        return response.headers.getlist("Warning")

    def create(self, body: Json) -> Json:
        """Create an object; ``kind`` and ``metadata.namespace`` say where."""
        return self.request("POST", self.path(body["kind"], body["metadata"].get("namespace")), body)

    def apply(self, body: Json) -> Json:
        """Create the object or make it so (server-side apply)."""
        where = self.path(body["kind"], body["metadata"].get("namespace"), body["metadata"]["name"])
        options = "?fieldManager=e2e&force=true"
        return self.request("PATCH", where + options, body, kind="application/apply-patch+yaml")

    def get(self, kind: str, namespace: str | None, name: str) -> Json | None:
        """The object, or None when there is none."""
        try:
            return self.request("GET", self.path(kind, namespace, name))
        except ApiRefused as err:
            if err.status == 404:
                return None
            raise

    def find(self, kind: str, namespace: str | None = None, *, query: str = "") -> list[Json]:
        """All objects of a kind."""
        answer = self.request("GET", self.path(kind, namespace) + (f"?{query}" if query else ""))
        items: list[Json] = answer["items"]
        return items

    def delete(self, kind: str, namespace: str | None, name: str, *, grace_s: int | None = None) -> None:
        """Delete an object; one that is gone already is fine."""
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            self.request("DELETE", self.path(kind, namespace, name), body)
        except ApiRefused as err:
            if err.status != 404:
                raise

    def write_status(self, body: Json) -> Json:
        """Replace an object's status."""
        where = self.path(body["kind"], body["metadata"].get("namespace"), body["metadata"]["name"], "status")
        return self.request("PUT", where, body)

    def read_log(self, namespace: str, pod: str, container: str) -> str:
        """A container's log, through the kubelet."""
        return self.request_text("GET", self.path("Pod", namespace, pod, "log") + f"?container={container}")

    def wait(
        self,
        kind: str,
        namespace: str | None,
        condition: Callable[[list[Json]], bool],
        *,
        what: str,
        query: str = "",
        timeout_s: float = 90.0,
    ) -> list[Json]:
        """Wait until ``condition`` holds for the objects of a kind; return them. The API server may go away meanwhile.

        Raises:
            TimedOut: it never held.
        """
        end = time.monotonic() + timeout_s
        objects: list[Json] = []
        while True:
            try:
                for objects in self._follow(kind, namespace, query, end):
                    if condition(objects):
                        return objects
            except ApiRefused:
                time.sleep(0.2)
            if time.monotonic() >= end:
                seen = json.dumps([_brief(each) for each in objects])[:3000]
                raise TimedOut(f"after {timeout_s:.0f} s still not: {what}; {kind}s: {seen}")

    def watch(self, kind: str, namespace: str | None, *, version: str, seconds: int, query: str = "") -> Iterator[Json]:
        """The events after a version, bookmarks too, for so many seconds.

        Raises:
            ApiRefused: the watch is refused, or breaks.
        """
        where = self.path(kind, namespace)
        options = f"?{query}&watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={version}"
        try:
            response = self._http.request(
                "GET",
                self._server + where + options,
                preload_content=False,
                timeout=urllib3.Timeout(connect=5, read=seconds + 5),
            )
            try:
                if response.status >= 300:
                    raise ApiRefused(f"WATCH {where}", response.status, response.data.decode(errors="replace")[:2000])
                for line in response:
                    yield json.loads(line)
            finally:
                response.close()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as err:
            raise ApiRefused(f"WATCH {where}", 0, str(err)) from err

    def _follow(self, kind: str, namespace: str | None, query: str, end: float) -> Iterator[list[Json]]:
        """The list, and after each change the list again; ends after a while, to be begun afresh."""
        listed = self.request("GET", self.path(kind, namespace) + f"?{query}")
        objects = {each["metadata"]["uid"]: each for each in listed["items"]}
        yield list(objects.values())
        seconds = max(1, min(_WATCH_S, int(end - time.monotonic())))
        version = listed["metadata"]["resourceVersion"]
        for event in self.watch(kind, namespace, version=version, seconds=seconds, query=query):
            if event["type"] == "ERROR":
                return
            if event["type"] == "BOOKMARK":
                continue
            if event["type"] == "DELETED":
                objects.pop(event["object"]["metadata"]["uid"], None)
            else:
                objects[event["object"]["metadata"]["uid"]] = event["object"]
            yield list(objects.values())


def _brief(body: Json) -> Json:
    """What an error message needs of an object."""
    status = body.get("status", {})
    kept = {
        key: status[key] for key in ("phase", "conditions", "containerStatuses", "allocation", "reservedFor") if key in status
    }
    return {"name": body["metadata"]["name"], "deleted": body["metadata"].get("deletionTimestamp"), **kept}
