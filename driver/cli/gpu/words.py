"""Claims in words: what they ask for, and how well the GPUs that they have are linked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from driver.allocator.device_node import DeviceNode
from driver.allocator.problem import Claim as AskedClaim
from driver.allocator.tables import PARTS, LinkTables
from driver.api.claim_spec_v1 import ALL, ClaimSpec, DeviceRequest, ExactRequest, SpecFault, SubRequest, decode_claim_spec
from driver.api.topology_policy import Policy
from driver.controller.objects.model import Claim


def describe_requests(claim: Claim) -> tuple[str, ...]:
    """A line for each request, and one for each constraint that more than one device is under."""
    try:
        spec = decode_claim_spec(bytes(claim.spec))
    except SpecFault as err:
        return (f"not readable here: {err}",)
    return (*(_describe_request(each) for each in spec.devices.requests), *_describe_constraints(spec))


def describe_policy(asked: AskedClaim) -> str:
    """The topology policy of the claim or of a class of its; empty where nobody says anything."""
    policy = asked.policy
    return "" if policy == Policy() else f"policy: {policy.scope.value} {policy.mode.value}, {policy.packing.value}"


def describe_links(node: DeviceNode, mask: int) -> str:
    """How well the whole GPUs of a set hang together; empty for fewer than two."""
    tables = node.shape.tables
    gpus = mask & tables.full
    if gpus.bit_count() < 2:
        return ""
    return f"{_describe_ring(tables, gpus)}; {_compare(tables, gpus)}"


def describe_span_s(seconds: float) -> str:
    """``45s``, ``12m``, ``3h12m``, ``5d4h``, as kubectl has it."""
    whole = max(0, int(seconds))
    for unit, size, sub, sub_size in (("d", 86400, "h", 3600), ("h", 3600, "m", 60)):
        if whole >= 2 * size or (whole >= size and unit == "h"):
            rest = whole % size // sub_size
            return f"{whole // size}{unit}" + (f"{rest}{sub}" if rest and whole < 10 * size else "")
    return f"{whole // 60}m" if whole >= 120 else f"{whole}s"


def count(number: int, what: str) -> str:
    """``1 GPU``, ``2 GPUs``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def join_names(names: Iterable[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    all_names = list(names)
    more = f" and {len(all_names) - most} more" if len(all_names) > most else ""
    return ", ".join(all_names[:most]) + more


def _describe_request(request: DeviceRequest) -> str:
    if request.exactly is not None:
        return f"{request.name}: {_describe_ask(request.exactly)}"
    return f"{request.name}: the first of: " + "; ".join(f"{sub.name}: {_describe_ask(sub)}" for sub in request.first_available)


def _describe_ask(ask: ExactRequest | SubRequest) -> str:
    number = "all" if ask.allocation_mode == ALL else str(ask.count)
    admin = ", with admin access" if isinstance(ask, ExactRequest) and ask.admin_access else ""
    capacity = "" if ask.capacity is None else "".join(f", {name} {amount}" for name, amount in ask.capacity.requests.items())
    selectors = "".join(f", where {_one_line(each.cel.expression)}" for each in ask.selectors)
    return f"{number} of class {ask.device_class_name}{admin}{capacity}{selectors}"


def _describe_constraints(spec: ClaimSpec) -> Iterator[str]:
    for each in spec.devices.constraints:
        whom = f" ({', '.join(each.requests)})" if each.requests else ""
        if each.match_attribute is not None:
            yield f"all of one {each.match_attribute}{whom}"
        elif each.distinct_attribute is not None:
            yield f"each of another {each.distinct_attribute}{whom}"


def _one_line(expression: str) -> str:
    text = " ".join(expression.split())
    return text if len(text) <= 100 else text[:97] + "..."


def _describe_ring(tables: LinkTables, gpus: int) -> str:
    if tables.is_nvlink_ring(gpus):
        return "every hop of their ring is NVLink" if gpus.bit_count() > 2 else "linked by NVLink"
    if tables.pcie_roots(gpus) == 1:
        return "linked by PCIe below one root"
    if tables.numa_nodes(gpus) == 1:
        return "linked by PCIe within one NUMA node"
    return "linked by PCIe across NUMA nodes"


def _compare(tables: LinkTables, gpus: int) -> str:
    weakest, total = tables.loss(gpus)
    what = f"{gpus.bit_count()} GPUs of this machine"
    if not weakest and not total:
        return f"as good as any {what}"
    if weakest:
        return f"the weakest hop has {100 - 100 * weakest // PARTS}% of that of the best {what}"
    return f"the weakest hop is that of the best {what}, all hops together have {100 - 100 * total // PARTS}%"
