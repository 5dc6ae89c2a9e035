"""One run as the history shows it: what the schedule knows of it, and what its execution says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from .ledger import Claim
from .runs import EVERYONE

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord, Executions


@dataclass(frozen=True, slots=True)
class RunView:
    """A run and its execution, if that is still in the store."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("due", "status", "ms", "execution", "why")
    claim: Claim
    record: ExecutionRecord | None

    @classmethod
    async def of(cls, claim: Claim, executions: Executions) -> Self:
        """The view of one claim."""
        return cls(claim, await executions.get(claim.execution, EVERYONE))

    def plain(self) -> dict[str, Any]:
        """The run as JSON."""
        record = self.record
        return {
            "due": self.claim.due.isoformat(timespec="seconds"),
            "status": self.status,
            "by_hand": self.claim.by_hand,
            "execution_id": self.claim.execution if record is not None else None,
            "started_at": None if record is None else record.started_at.isoformat(),
            "duration_ms": None if record is None else record.duration_ms,
            "cost_usd": None if record is None else record.cost_usd,
            "reason": self.reason or None,
        }

    @property
    def status(self) -> str:
        """What its execution says comes first."""
        return str(self.record.status) if self.record is not None else self.claim.status or self.claim.state

    @property
    def reason(self) -> str:
        """Why it is not ``ok``."""
        if self.claim.reason or self.record is None or self.record.failure is None:
            return self.claim.reason
        return self.record.failure.message

    def cells(self) -> list[str]:
        """One for each of :attr:`COLUMNS`."""
        plain = self.plain()
        due = plain["due"][:19] + (" by hand" if self.claim.by_hand else "")
        duration = "-" if plain["duration_ms"] is None else str(plain["duration_ms"])
        return [due, self.status, duration, plain["execution_id"] or "-", self.reason or "-"]
