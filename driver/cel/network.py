"""IP addresses and CIDR blocks."""

from __future__ import annotations

import ipaddress
import re

from driver.cel.errors import EvaluationError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_LINK_LOCAL_MULTICAST_V4 = ipaddress.ip_network("224.0.0.0/24")
_MAPPED = ipaddress.ip_network("::ffff:0:0/96")


class Ip:
    """An address."""

    __slots__ = ("address",)

    def __init__(self, address: Address) -> None:
        self.address = address

    def __str__(self) -> str:
        return str(self.address)

    @property
    def cost_size(self) -> int:
        """Bytes."""
        return self.address.max_prefixlen // 8


class Cidr:
    """An address with the length of its prefix; host bits stay."""

    __slots__ = ("address", "prefix_length")

    def __init__(self, address: Address, prefix_length: int) -> None:
        self.address = address
        self.prefix_length = prefix_length

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix_length}"

    @property
    def interface(self) -> tuple[Address, int]:
        """What makes two blocks equal."""
        return self.address, self.prefix_length

    @property
    def cost_size(self) -> int:
        """Bytes of the prefix."""
        return (self.prefix_length + 7) // 8

    def network_of(self, address: Address, prefix_length: int) -> int:
        """The first bits of an address, as a number."""
        return int(address) >> (address.max_prefixlen - prefix_length)

    def contains(self, address: Address) -> bool:
        """Whether the address lies in the block."""
        return address.version == self.address.version and self.network_of(address, self.prefix_length) == self.network_of(
            self.address, self.prefix_length
        )

    def contains_block(self, other: Cidr) -> bool:
        """Whether the other block lies in this one."""
        return self.prefix_length <= other.prefix_length and self.contains(other.address)

    def masked(self) -> Cidr:
        """The same block without host bits."""
        shift = self.address.max_prefixlen - self.prefix_length
        return Cidr(type(self.address)(int(self.address) >> shift << shift), self.prefix_length)


def parse_ip(text: str) -> Ip:
    """An address.

    Raises:
        EvaluationError: no address, one with a zone, or an IPv4 address in IPv6 clothes.
    """
    if "%" in text or "/" in text:
        raise EvaluationError(f"{text[:80]!r} is no IP address without zone")
    try:
        address = ipaddress.ip_address(text)
    except ValueError as err:
        raise EvaluationError(f"{text[:80]!r} is no IP address") from err
    if address.version == 6 and address in _MAPPED:
        raise EvaluationError(f"{text[:80]!r} is an IPv4 address written as IPv6, which is not allowed")
    return Ip(address)


def parse_cidr(text: str) -> Cidr:
    """A block.

    Raises:
        EvaluationError: no block.
    """
    address_text, slash, bits = text.rpartition("/")
    if not slash or re.fullmatch(r"0|[1-9][0-9]{0,2}", bits) is None:
        raise EvaluationError(f"{text[:80]!r} is no CIDR block such as 10.0.0.0/8")
    address = parse_ip(address_text).address
    if int(bits) > address.max_prefixlen:
        raise EvaluationError(f"{text[:80]!r} is no CIDR block: its prefix is too long")
    return Cidr(address, int(bits))


def is_loopback(address: Address) -> bool:
    """127.0.0.0/8 or ::1."""
    return address.is_loopback


def is_link_local_multicast(address: Address) -> bool:
    """224.0.0.0/24, or ff02::/16 with any flags."""
    if address.version == 4:
        return address in _LINK_LOCAL_MULTICAST_V4
    return (int(address) >> 112) & 0xFF0F == 0xFF02


def is_link_local_unicast(address: Address) -> bool:
    """169.254.0.0/16 or fe80::/10."""
    return address.is_link_local


def is_global_unicast(address: Address) -> bool:
    """All but unspecified, broadcast, loopback, multicast and link-local ones: private addresses are global here."""
    if address.version == 4 and int(address) == 0xFFFFFFFF:
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)
