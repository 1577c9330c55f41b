"""Which config a device of a claim is prepared with. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from driver.api import gpu_config, resource_v1
from driver.claims import precedence
from driver.claims.model import ClaimRef
from driver.errors import ConfigInvalid

ChosenConfig: TypeAlias = precedence.SourcedConfig[gpu_config.GpuConfig | gpu_config.MigDeviceConfig]


def choose_device_config(
    result: resource_v1.AllocationResult,
    ref: ClaimRef,
    configs: Iterable[precedence.SourcedConfig[gpu_config.DeviceConfig]],
    *,
    is_mig: bool,
) -> ChosenConfig | None:
    """The config of a device, if there is one. A config for another kind is passed over, unless it names the request.

    Raises:
        ConfigInvalid
    """
    wanted = gpu_config.MigDeviceConfig if is_mig else gpu_config.GpuConfig
    what = "MIG device" if is_mig else "whole GPU"
    fitting: list[ChosenConfig] = []
    faults = []
    for each in configs:
        where = f"status.allocation.devices.config[{each.position}]"
        if isinstance(each.config, gpu_config.TopologyPolicy) or not each.applies_to(result.request):
            continue
        if result.admin_access:
            if each.source == "FromClaim":
                faults.append(f"{where}: request {result.request!r} has adminAccess, which takes no config; leave it out")
        elif isinstance(each.config, wanted):
            fitting.append(
                precedence.SourcedConfig(position=each.position, source=each.source, requests=each.requests, config=each.config)
            )
        elif each.names(result.request):
            faults.append(
                f"{where}.opaque.parameters.kind: {type(each.config).__name__} is for another kind of device, and request "
                f"{result.request!r} was given the {what} {result.device}; use {wanted.__name__}"
            )
    if faults:
        raise ConfigInvalid(f"{ref}: the config does not fit the device", faults)
    return precedence.choose_config(fitting, result.request)
