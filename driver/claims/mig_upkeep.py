"""What claims say about the MIG instances of a node, and what is still to be done for claims that are gone."""

from __future__ import annotations

from dataclasses import dataclass

from driver import log
from driver.claims.mig_debts import Debt
from driver.claims.mig_record import RecordedMig
from driver.claims.model import Deadline
from driver.claims.work import ClaimWork
from driver.errors import ClaimError
from driver.names import GpuUUID
from driver.topology.mig import Footprint, OwnedInstance

_LOG = log.logger(__name__)
_LOCK_S = 5.0
_NO_INSTANCE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class MigClaims:
    """The instances that are ours, and the places where nothing may be put yet."""

    owned: frozenset[OwnedInstance] = frozenset()
    leftovers: tuple[Footprint, ...] = ()


def read_mig_claims(work: ClaimWork) -> MigClaims:
    """What the records and the debts say now.

    Raises:
        StateUnwritable
    """
    debts = work.carrier.mig.debts.read_all()
    owned = {_own(mig) for record in work.index.read_records() for mig in record.own_instances()}
    owned |= {_own(debt.mig, is_mode_only=debt.is_mode_only) for debt in debts}
    return MigClaims(owned=frozenset(owned), leftovers=tuple(debt.mig.footprint for debt in debts if not debt.is_mode_only))


def pay_debts(work: ClaimWork) -> None:
    """Remove the MIG instances that could not be removed when their claims ended (R29).

    Raises:
        DeviceNotReady, StateUnwritable: nothing can be looked at.
    """
    debts = work.carrier.mig.debts
    for debt in debts.read_all():
        try:
            with work.locks.hold_gpus((debt.mig.gpu,), debt.ref(), Deadline(_LOCK_S), "pay:begin"):
                if _is_due(debt, work.catalog.read().epoch.boot_id):
                    work.carrier.mig.pay(debt)
                debts.delete(debt)
        except ClaimError as err:
            log.event(_LOG, log.WARNING, "a MIG instance whose claim is gone stays for now", claim=str(debt.ref()), error=err)
        else:
            log.event(_LOG, log.INFO, "a MIG instance whose claim is gone was removed", claim=str(debt.ref()), gpu=debt.mig.gpu)


def _is_due(debt: Debt, boot_id: str) -> bool:
    """A boot removes every instance: what lies there now is another one."""
    return not debt.boot_id or debt.boot_id == boot_id


def _own(mig: RecordedMig, *, is_mode_only: bool = False) -> OwnedInstance:
    profile_id, start = (_NO_INSTANCE, _NO_INSTANCE) if is_mode_only else (mig.profile_id, mig.start)
    return OwnedInstance(gpu_uuid=GpuUUID(mig.gpu_uuid), profile_id=profile_id, start=start)
