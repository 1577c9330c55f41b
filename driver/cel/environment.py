"""What a selector can name: the device and its fields, types, and which features are on."""

from __future__ import annotations

from dataclasses import dataclass

from driver.cel import types
from driver.cel.types import Type


@dataclass(frozen=True, slots=True)
class Features:
    """Feature gates of Kubernetes that change the language.

    ``list_attributes`` is DRAListTypeAttributes (attributes may be lists, and ``includes`` exists), ``consumable_capacity`` is
    DRAConsumableCapacity (``device.allowMultipleAllocations`` exists).
    """

    list_attributes: bool = False
    consumable_capacity: bool = True


WRAPPERS = {
    "google.protobuf.BoolValue": types.BOOL,
    "google.protobuf.BytesValue": types.BYTES,
    "google.protobuf.DoubleValue": types.DOUBLE,
    "google.protobuf.FloatValue": types.DOUBLE,
    "google.protobuf.Int32Value": types.INT,
    "google.protobuf.Int64Value": types.INT,
    "google.protobuf.StringValue": types.STRING,
    "google.protobuf.UInt32Value": types.UINT,
    "google.protobuf.UInt64Value": types.UINT,
}
_JSON = types.map_of(types.STRING, types.DYN)
_TIME_FIELDS = {"seconds": types.INT, "nanos": types.INT}
MESSAGES: dict[str, tuple[Type, dict[str, Type]]] = {
    **{name: (types.nullable(wrapped), {"value": wrapped}) for name, wrapped in WRAPPERS.items()},
    "google.protobuf.Any": (types.ANY, {"type_url": types.STRING, "value": types.BYTES}),
    "google.protobuf.Duration": (types.DURATION, _TIME_FIELDS),
    "google.protobuf.Timestamp": (types.TIMESTAMP, _TIME_FIELDS),
    "google.protobuf.Empty": (types.struct("google.protobuf.Empty"), {}),
    "google.protobuf.Struct": (_JSON, {"fields": _JSON}),
    "google.protobuf.ListValue": (types.LIST, {"values": types.LIST}),
    "google.protobuf.Value": (
        types.DYN,
        {
            "null_value": types.NULL,
            "number_value": types.DOUBLE,
            "string_value": types.STRING,
            "bool_value": types.BOOL,
            "struct_value": _JSON,
            "list_value": types.LIST,
        },
    ),
}
"""Message types that can be built, with the type of the result and of their fields."""

TYPE_NAMES: dict[str, Type] = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Empty": types.struct("google.protobuf.Empty"),
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "int": types.INT,
    "list": types.LIST,
    "map": types.MAP,
    "net.CIDR": types.CIDR,
    "net.IP": types.IP,
    "null_type": types.NULL,
    "optional_type": types.OPTIONAL,
    "string": types.STRING,
    "type": types.TYPE,
    "uint": types.UINT,
}
"""Types whose names are values."""

CONSTANTS = {"google.protobuf.NullValue.NULL_VALUE": 0}


class Environment:
    """The names of a selector for one set of features."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.attribute = types.DYN if features.list_attributes else types.ANY
        domains = types.map_of(types.STRING, types.map_of(types.STRING, self.attribute))
        self.device_fields = {
            "driver": types.STRING,
            "attributes": domains,
            "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
        }
        if features.consumable_capacity:
            self.device_fields["allowMultipleAllocations"] = types.BOOL
        self._unusable = {
            **{name: kind for name, (kind, _) in MESSAGES.items() if name not in TYPE_NAMES},
            types.DEVICE.name: types.DEVICE,
            f"{types.DEVICE.name}.attributes": domains,
            f"{types.DEVICE.name}.capacity": self.device_fields["capacity"],
        }

    def find(self, name: str) -> tuple[Type, object, bool] | None:
        """The type of a global name, its value, and whether it has one; None if there is no such name."""
        if name == "device":
            return types.DEVICE, None, False
        if name in TYPE_NAMES:
            return types.type_of(TYPE_NAMES[name]), TYPE_NAMES[name], True
        if name in CONSTANTS:
            return types.INT, CONSTANTS[name], True
        if name in self._unusable:
            return types.type_of(self._unusable[name]), None, False
        return None

    def message(self, name: str) -> tuple[Type, dict[str, Type]] | None:
        """The result and the fields of a message type."""
        if name == types.DEVICE.name:
            return types.DEVICE, self.device_fields
        return MESSAGES.get(name)

    def field(self, struct_name: str, field: str) -> Type | None:
        """The type of a field."""
        found = self.message(struct_name)
        return None if found is None else found[1].get(field)
