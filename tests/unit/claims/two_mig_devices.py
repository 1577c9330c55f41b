"""Two MIG devices of one GPU, and claims that have them."""

from __future__ import annotations

from driver.claims.model import PreparedDevice
from driver.claims.prepare import ClaimPreparer
from driver.errors import DriverError
from tests.fakes.claims import claim, prepare_one, ref, result
from tests.fakes.mig_claims import GPU, MigNode

ONE = f"{GPU}-mig-2g-20gb-p14-4"
OTHER = f"{GPU}-mig-1g-10gb-p19-0"
MADE = (GPU, 14, 4, 1)


def put(node: MigNode, number: int, *names: str, **changes: object) -> None:
    results = [result(0, request=f"r{place}", device=name, **changes) for place, name in enumerate(names)]
    node.api.put(claim(ref(number), results))


def prepared(preparer: ClaimPreparer, number: int) -> tuple[PreparedDevice, ...]:
    """The claim's devices: it must not fail."""
    answer = prepare_one(preparer, number)
    assert not isinstance(answer, DriverError), answer
    return answer
