"""A small API client for scenarios: JSON in, JSON out, and waiting by watch."""

from __future__ import annotations

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

    def path(self, kind: str, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Where objects of this kind lie."""
        prefix, plural = _PATHS[kind]
        parts = [prefix, *(["namespaces", namespace] if namespace else []), plural, name, subresource]
        return "/".join(part for part in parts if part)

    def request(self, method: str, path: str, body: Json | None = None, *, kind: str = "application/json") -> Json:
        """Send one request and return its JSON.

        Raises:
            ApiRefused: any answer but a good one.
        """
        answer = self.request_text(method, path, None if body is None else json.dumps(body), kind=kind)
        decoded: Json = json.loads(answer or "{}")
        return decoded

    def request_text(self, method: str, path: str, body: str | None = None, *, kind: str = "application/json") -> str:
        """``request`` for answers that are no JSON, such as logs."""
        headers = {"Content-Type": kind}
        try:
            response = self._http.request(method, self._server + path, body=body, headers=headers, timeout=20.0)
        except urllib3.exceptions.HTTPError as err:
            raise ApiRefused(f"{method} {path}", 0, str(err)) from err
        text = response.data.decode(errors="replace")
        if response.status >= 300:
            raise ApiRefused(f"{method} {path}", response.status, text[:2000])
        return text

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
            except (ApiRefused, urllib3.exceptions.HTTPError, OSError):
                time.sleep(0.2)
            if time.monotonic() >= end:
                seen = json.dumps([_brief(each) for each in objects])[:3000]
                raise TimedOut(f"after {timeout_s:.0f} s still not: {what}; {kind}s: {seen}")

    def _follow(self, kind: str, namespace: str | None, query: str, end: float) -> Iterator[list[Json]]:
        """The list, and after each change the list again; ends after a while, to be begun afresh."""
        where = self.path(kind, namespace) + f"?{query}"
        listed = self.request("GET", where)
        objects = {each["metadata"]["uid"]: each for each in listed["items"]}
        yield list(objects.values())
        seconds = max(1, min(_WATCH_S, int(end - time.monotonic())))
        options = f"&watch=1&timeoutSeconds={seconds}&resourceVersion={listed['metadata']['resourceVersion']}"
        response = self._http.request(
            "GET", self._server + where + options, preload_content=False, timeout=urllib3.Timeout(connect=5, read=seconds + 5)
        )
        try:
            for line in response:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                if event["type"] == "DELETED":
                    objects.pop(event["object"]["metadata"]["uid"], None)
                else:
                    objects[event["object"]["metadata"]["uid"]] = event["object"]
                yield list(objects.values())
        finally:
            response.close()


def _brief(body: Json) -> Json:
    """What an error message needs of an object."""
    status = body.get("status", {})
    kept = {
        key: status[key] for key in ("phase", "conditions", "containerStatuses", "allocation", "reservedFor") if key in status
    }
    return {"name": body["metadata"]["name"], "deleted": body["metadata"].get("deletionTimestamp"), **kept}
