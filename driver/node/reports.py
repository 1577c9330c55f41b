"""What this node has to say, as events and log lines."""

from __future__ import annotations

from driver import log
from driver.claims.effects import Incident
from driver.kube.events import EventRecorder, ObjectReference
from driver.node.words import Word

_LOG = log.logger(__name__)


class NodeReports:
    """Events are about the node; those of a claim are also about the claim."""

    def __init__(self, recorder: EventRecorder, node_name: str) -> None:
        self._recorder = recorder
        self._node = ObjectReference(api_version="v1", kind="Node", name=node_name, uid=node_name)

    def say(self, word: Word) -> None:
        """Tell people about the node."""
        log.event(_LOG, log.WARNING if word.is_warning else log.INFO, word.message, reason=word.reason)
        self._recorder.record(self._node, word.reason, word.message, action="Observe", is_warning=word.is_warning)

    def warn(self, reason: str, message: str) -> None:
        """Tell people that something is wrong."""
        self.say(Word(reason=reason, message=message))

    def report(self, incident: Incident) -> None:
        """Tell people what preparing a claim brought to light."""
        self.warn(incident.reason, incident.message)
        ref = incident.ref
        if ref is not None:
            claim = ObjectReference(
                api_version="resource.k8s.io/v1", kind="ResourceClaim", name=ref.name, namespace=ref.namespace, uid=ref.uid
            )
            self._recorder.record(claim, incident.reason, incident.message, action="Prepare", is_warning=True)
