"""The wire form of the kubelet's contracts, written down a second time.

A kubelet that is in the field cannot be changed: whatever becomes of `proto/`, these tables stay. They follow the
kubelet's own files of Kubernetes 1.37.2, and for its probes the standard gRPC health service.
"""

from __future__ import annotations

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor, MethodDescriptor

from driver.pb.dra.v1 import api_pb2 as dra_v1
from driver.pb.dra.v1 import api_pb2_grpc as dra_v1_grpc
from driver.pb.dra.v1beta1 import api_pb2 as dra_v1beta1
from driver.pb.dra.v1beta1 import api_pb2_grpc as dra_v1beta1_grpc
from driver.pb.dra_health.v1 import api_pb2 as health_v1
from driver.pb.dra_health.v1 import api_pb2_grpc as health_v1_grpc
from driver.pb.dra_health.v1alpha1 import api_pb2 as health_v1alpha1
from driver.pb.dra_health.v1alpha1 import api_pb2_grpc as health_v1alpha1_grpc
from driver.pb.grpc_health.v1 import health_pb2 as probes_v1
from driver.pb.grpc_health.v1 import health_pb2_grpc as probes_v1_grpc
from driver.pb.pluginregistration.v1 import api_pb2 as registration_v1
from driver.pb.pluginregistration.v1 import api_pb2_grpc as registration_v1_grpc

Fields = dict[str, tuple[int, str]]
"""Field name to number and type."""

FILES = {
    "pluginregistration v1": registration_v1.DESCRIPTOR,
    "dra v1": dra_v1.DESCRIPTOR,
    "dra v1beta1": dra_v1beta1.DESCRIPTOR,
    "dra-health v1": health_v1.DESCRIPTOR,
    "dra-health v1alpha1": health_v1alpha1.DESCRIPTOR,
    "probes v1": probes_v1.DESCRIPTOR,
}

REGISTRATION: dict[str, Fields] = {
    "InfoRequest": {},
    "PluginInfo": {
        "type": (1, "string"),
        "name": (2, "string"),
        "endpoint": (3, "string"),
        "supported_versions": (4, "repeated string"),
    },
    "RegistrationStatus": {"plugin_registered": (1, "bool"), "error": (2, "string")},
    "RegistrationStatusResponse": {},
}

DEVICE_V1BETA1: Fields = {
    "request_names": (1, "repeated string"),
    "pool_name": (2, "string"),
    "device_name": (3, "string"),
    "cdi_device_ids": (4, "repeated string"),
}
DRA_V1BETA1: dict[str, Fields] = {
    "Claim": {"namespace": (1, "string"), "uid": (2, "string"), "name": (3, "string")},
    "Device": DEVICE_V1BETA1,
    "NodePrepareResourcesRequest": {"claims": (1, "repeated Claim")},
    "NodePrepareResourcesResponse": {"claims": (1, "map<string, NodePrepareResourceResponse>")},
    "NodePrepareResourceResponse": {"devices": (1, "repeated Device"), "error": (2, "string")},
    "NodeUnprepareResourcesRequest": {"claims": (1, "repeated Claim")},
    "NodeUnprepareResourcesResponse": {"claims": (1, "map<string, NodeUnprepareResourceResponse>")},
    "NodeUnprepareResourceResponse": {"error": (1, "string")},
}
DRA_V1 = {**DRA_V1BETA1, "Device": {**DEVICE_V1BETA1, "share_id": (5, "optional string")}}

HEALTH: dict[str, Fields] = {
    "NodeWatchResourcesRequest": {},
    "NodeWatchResourcesResponse": {"devices": (1, "repeated DeviceHealth")},
    "DeviceHealth": {
        "device": (1, "optional DeviceIdentifier"),
        "health": (2, "HealthStatus"),
        "last_updated_time": (3, "int64"),
        "health_check_timeout_seconds": (4, "int64"),
        "message": (5, "string"),
    },
    "DeviceIdentifier": {"pool_name": (1, "string"), "device_name": (2, "string")},
}

PROBES: dict[str, Fields] = {
    "HealthCheckRequest": {"service": (1, "string")},
    "HealthCheckResponse": {"status": (1, "ServingStatus")},
}

MESSAGES = {
    "pluginregistration v1": REGISTRATION,
    "dra v1": DRA_V1,
    "dra v1beta1": DRA_V1BETA1,
    "dra-health v1": HEALTH,
    "dra-health v1alpha1": HEALTH,
    "probes v1": PROBES,
}

ENUMS = {
    "pluginregistration v1": {},
    "dra v1": {},
    "dra v1beta1": {},
    "dra-health v1": {"HealthStatus": {"UNKNOWN": 0, "HEALTHY": 1, "UNHEALTHY": 2}},
    "dra-health v1alpha1": {"HealthStatus": {"UNKNOWN": 0, "HEALTHY": 1, "UNHEALTHY": 2}},
    "probes v1": {"ServingStatus": {"UNKNOWN": 0, "SERVING": 1, "NOT_SERVING": 2, "SERVICE_UNKNOWN": 3}},
}

METHODS = {
    "pluginregistration v1": {
        "/pluginregistration.Registration/GetInfo": "InfoRequest -> PluginInfo",
        "/pluginregistration.Registration/NotifyRegistrationStatus": "RegistrationStatus -> RegistrationStatusResponse",
    },
    "dra v1": {
        "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources": (
            "NodePrepareResourcesRequest -> NodePrepareResourcesResponse"
        ),
        "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources": (
            "NodeUnprepareResourcesRequest -> NodeUnprepareResourcesResponse"
        ),
    },
    "dra v1beta1": {
        "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources": (
            "NodePrepareResourcesRequest -> NodePrepareResourcesResponse"
        ),
        "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources": (
            "NodeUnprepareResourcesRequest -> NodeUnprepareResourcesResponse"
        ),
    },
    "dra-health v1": {
        "/v1.DRAResourceHealth/NodeWatchResources": "NodeWatchResourcesRequest -> stream NodeWatchResourcesResponse",
    },
    "dra-health v1alpha1": {
        "/v1alpha1.DRAResourceHealth/NodeWatchResources": "NodeWatchResourcesRequest -> stream NodeWatchResourcesResponse",
    },
    "probes v1": {"/grpc.health.v1.Health/Check": "HealthCheckRequest -> HealthCheckResponse"},
}

SCALARS = {FieldDescriptor.TYPE_STRING: "string", FieldDescriptor.TYPE_BOOL: "bool", FieldDescriptor.TYPE_INT64: "int64"}


def describe_field(field: FieldDescriptor) -> str:
    """The type as a proto file would write it; a single message counts as optional, since it can be absent."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (describe_field(field.message_type.fields_by_name[name]) for name in ("key", "value"))
        return f"map<{key}, {value.removeprefix('optional ')}>"
    named = field.message_type or field.enum_type
    kind = SCALARS[field.type] if named is None else named.name
    if field.is_repeated:
        return f"repeated {kind}"
    return f"optional {kind}" if field.has_presence else kind


def describe_message(message: Descriptor) -> Fields:
    return {field.name: (field.number, describe_field(field)) for field in message.fields}


def describe_method(method: MethodDescriptor) -> str:
    asks = "stream " if method.client_streaming else ""
    answers = "stream " if method.server_streaming else ""
    return f"{asks}{method.input_type.name} -> {answers}{method.output_type.name}"


def describe_methods(file: FileDescriptor) -> dict[str, str]:
    return {
        f"/{service.full_name}/{method.name}": describe_method(method)
        for service in file.services_by_name.values()
        for method in service.methods
    }


def list_enums(file: FileDescriptor) -> list[EnumDescriptor]:
    nested = (enum for message in file.message_types_by_name.values() for enum in message.enum_types)
    return [*file.enum_types_by_name.values(), *nested]


@pytest.mark.parametrize("name", FILES)
def test_messages_have_the_fields_numbers_and_types_of_the_kubelet(name: str) -> None:
    messages = FILES[name].message_types_by_name
    assert {key: describe_message(message) for key, message in messages.items()} == MESSAGES[name]


@pytest.mark.parametrize("name", FILES)
def test_enums_have_the_values_of_the_kubelet(name: str) -> None:
    enums = {enum.name: {value.name: value.number for value in enum.values} for enum in list_enums(FILES[name])}
    assert enums == ENUMS[name]


@pytest.mark.parametrize("name", FILES)
def test_methods_have_the_full_names_that_the_kubelet_calls(name: str) -> None:
    assert describe_methods(FILES[name]) == METHODS[name]


def test_a_device_has_the_bytes_of_the_wire() -> None:
    """One message by hand, so that not only the descriptors' own words stand for it."""
    device = dra_v1.Device(request_names=["a"], pool_name="p", device_name="d", cdi_device_ids=["v/c=n"], share_id="s")
    wire = b"\x0a\x01a\x12\x01p\x1a\x01d\x22\x05v/c=n\x2a\x01s"
    assert device.SerializeToString(deterministic=True) == wire
    assert dra_v1.Device.FromString(wire) == device


def test_older_kubelet_reads_the_newer_device_without_its_share() -> None:
    device = dra_v1.Device(pool_name="p", device_name="d", share_id="s")
    older = dra_v1beta1.Device.FromString(device.SerializeToString())
    assert (older.pool_name, older.device_name) == ("p", "d")


def test_share_id_can_be_absent_and_empty() -> None:
    """The kubelet tells the two apart."""
    assert not dra_v1.Device().HasField("share_id")
    assert dra_v1.Device(share_id="").HasField("share_id")


def test_all_files_load_together_under_distinct_names() -> None:
    """The kubelet calls each of its five api.proto, which one process cannot load twice."""
    assert sorted(file.name for file in FILES.values()) == [
        "driver/pb/dra/v1/api.proto",
        "driver/pb/dra/v1beta1/api.proto",
        "driver/pb/dra_health/v1/api.proto",
        "driver/pb/dra_health/v1alpha1/api.proto",
        "driver/pb/grpc_health/v1/health.proto",
        "driver/pb/pluginregistration/v1/api.proto",
    ]


def test_every_service_has_a_servicer_to_build_on() -> None:
    servicers = (
        registration_v1_grpc.RegistrationServicer,
        dra_v1_grpc.DRAPluginServicer,
        dra_v1beta1_grpc.DRAPluginServicer,
        health_v1_grpc.DRAResourceHealthServicer,
        health_v1alpha1_grpc.DRAResourceHealthServicer,
        probes_v1_grpc.HealthServicer,
    )
    expected = {file.name.removesuffix(".proto").replace("/", ".") + "_pb2_grpc" for file in FILES.values()}
    assert {servicer.__module__ for servicer in servicers} == expected
