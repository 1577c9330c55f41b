"""DeviceTaintRules: what an administrator says against devices. Source: k8s.io/api v0.37.2."""

from __future__ import annotations

from driver.api.resource_v1 import GROUP_VERSION, Taint
from driver.controller.objects.model import Lean, Meta
from driver.kube.resources import Resource


class DeviceSelector(Lean, frozen=True, kw_only=True):
    """Which devices a rule taints: those that all given names fit; all, where none is given."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class TaintRuleSpec(Lean, frozen=True, kw_only=True):
    """A rule without a selector taints nothing."""

    taint: Taint
    device_selector: DeviceSelector | None = None


class DeviceTaintRule(Lean, frozen=True, kw_only=True):
    """An administrator's taint on devices (R22)."""

    metadata: Meta
    spec: TaintRuleSpec


TAINT_RULES = Resource(group_version=GROUP_VERSION, plural="devicetaintrules", type_=DeviceTaintRule)
OLDER_TAINT_RULES = Resource(group_version="resource.k8s.io/v1beta2", plural="devicetaintrules", type_=DeviceTaintRule)
"""``resource.k8s.io/v1`` has them from 1.37 on; 1.36 serves the same in ``v1beta2`` where the API is switched on."""
