"""What the store keeps of schedules: who they are, how far each has come, and who has taken which run.

Of several gateways that see a due time, the one whose claim is written runs it: a claim is written only if there is
none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExecutionId, replace
from pml_kit.shared.change import Write, change

if TYPE_CHECKING:
    from pml_hookspecs import Document, Documents

PLANS, STATES, CLAIMS = "schedules.plans", "schedules.states", "schedules.claims"
PAGE = 1000
MOST_DIGESTS = 4
"""How many versions of a schedule's times are told apart: gateways may be on different ones for a while."""
CLAIMED, QUEUED, STARTED, ENDED = "claimed", "queued", "started", "ended"
SKIPPED, FAILED, UNKNOWN = "skipped", "error", "unknown"
"""How runs end of which no execution tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How far one schedule has come."""

    paused: bool | None = None
    """None: as the schedule itself says."""
    handled: Mapping[str, datetime] = field(default_factory=dict)
    """The last due time that was seen to, by the digest of the plan."""
    going: tuple[str, ...] = ()
    """Keys of the claims under way."""
    runs: int = 0
    """Begun at due times."""
    missed: int = 0
    """Due times that nothing was run for, as no gateway was up."""
    last: str = ""
    """Key of the claim that was made last."""

    def to_plain(self) -> dict[str, Any]:
        """The value as JSON."""
        latest = sorted(self.handled.items(), key=lambda item: item[1])[-MOST_DIGESTS:]
        return {
            "paused": self.paused,
            "handled": {digest: moment.isoformat() for digest, moment in latest},
            "going": list(self.going),
            "runs": self.runs,
            "missed": self.missed,
            "last": self.last,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> State:
        """What :meth:`to_plain` wrote."""
        return cls(
            paused=plain["paused"],
            handled={digest: datetime.fromisoformat(text) for digest, text in plain["handled"].items()},
            going=tuple(plain["going"]),
            runs=plain["runs"],
            missed=plain["missed"],
            last=plain["last"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One run of a schedule, taken by one gateway."""

    schedule: str
    due: datetime
    execution: ExecutionId
    state: str
    by_hand: bool = False
    """Whether somebody asked for it, and it is no due time of the schedule."""
    attempts: int = 1
    """Gateways that have tried to begin it."""
    status: str = ""
    """How it ended."""
    reason: str = ""
    """Why it ended so, where no execution tells."""
    version: int = 0

    @property
    def key(self) -> str:
        """Names schedule and due time."""
        return key_of(self.schedule, self.due)

    def to_plain(self) -> dict[str, Any]:
        """The value as JSON."""
        return {
            "due": self.due.isoformat(),
            "execution": self.execution,
            "by_hand": self.by_hand,
            "attempts": self.attempts,
            "status": self.status,
            "reason": self.reason,
        }

    @classmethod
    def from_document(cls, document: Document) -> Claim:
        """What is kept."""
        value = document.value
        return cls(
            schedule=document.marks["schedule"],
            due=datetime.fromisoformat(value["due"]),
            execution=ExecutionId(value["execution"]),
            state=document.marks["state"],
            by_hand=value["by_hand"],
            attempts=value["attempts"],
            status=value["status"],
            reason=value["reason"],
            version=document.version,
        )


def key_of(schedule: str, due: datetime) -> str:
    """The key of the claim for one due time."""
    return f"{schedule}@{due.astimezone(UTC).isoformat(timespec='milliseconds')}"


def execution_of(schedule: str, due: datetime, now: datetime) -> ExecutionId:
    """The id of the execution for a due time: a UUIDv7 that tells when it was claimed, and follows from the due time.

    It is kept in the claim, so whoever begins the run after another has failed to gives it the same one. The time in it
    is when the execution counts as begun.
    """
    digest = hashlib.sha256(key_of(schedule, due).encode()).hexdigest()
    head = f"{round(now.timestamp() * 1000):012x}"
    return ExecutionId(f"{head[:8]}-{head[8:]}-7{digest[:3]}-8{digest[3:6]}-{digest[6:18]}")


class Ledger:
    """The state of schedules and the claims of runs, in the store."""

    def __init__(self, documents: Documents, keep: timedelta) -> None:
        """``keep`` is how long claims are kept."""
        self._documents, self._keep = documents, keep

    async def plans(self) -> Sequence[Document]:
        """All schedules that are kept here."""
        return await self._all(PLANS)

    async def plan(self, name: str) -> Document | None:
        """One of them."""
        return await self._documents.get(PLANS, name)

    async def keep_plan(self, name: str, value: Mapping[str, Any], *, if_version: int) -> bool:
        """Keep a schedule; False when somebody else changed it meanwhile, or there is one already (0)."""
        return await self._documents.put(PLANS, name, value, if_version=if_version) is not None

    async def remove_plan(self, name: str) -> bool:
        """Forget a schedule and how far it has come; its history stays for its time. Whether there was one."""
        there = await self._documents.delete(PLANS, name)
        for state in (QUEUED, CLAIMED):
            for claim in await self.claims({"schedule": name, "state": state}):
                await self.drop(claim)
        await self._documents.delete(STATES, name)
        return there

    async def drop(self, claim: Claim) -> None:
        """End a claim whose schedule is gone."""
        await self.write(replace(claim, state=ENDED, status=SKIPPED, reason="the schedule was removed"))

    async def states(self) -> dict[str, State]:
        """All, by schedule."""
        return {document.key: State.from_plain(document.value) for document in await self._all(STATES)}

    async def state(self, name: str) -> State:
        """One; as at the beginning when there is none."""
        document = await self._documents.get(STATES, name)
        return State() if document is None else State.from_plain(document.value)

    async def change(self, name: str, edit: Callable[[State], State]) -> State:
        """Change a state, whoever else changes it at the same time; what it is then.

        Raises:
            RuntimeError: Others always were faster.
        """

        def edited(found: Document | None) -> tuple[State, Write | None]:
            before = State() if found is None else State.from_plain(found.value)
            after = edit(before)
            return after, None if after == before else Write(after.to_plain())

        return await change(self._documents, STATES, name, edited)

    async def claim(self, claim: Claim) -> Claim | None:
        """Make a claim; None when somebody has made it before."""
        return await self.write(replace(claim, version=0))

    async def write(self, claim: Claim) -> Claim | None:
        """Change a claim; None when somebody else did meanwhile."""
        version = await self._documents.put(
            CLAIMS,
            claim.key,
            claim.to_plain(),
            marks={"schedule": claim.schedule, "state": claim.state},
            expires_at=datetime.now(UTC) + self._keep,
            if_version=claim.version,
        )
        return None if version is None else replace(claim, version=version)

    async def claim_at(self, key: str) -> Claim | None:
        """None when there is none."""
        document = await self._documents.get(CLAIMS, key)
        return None if document is None else Claim.from_document(document)

    async def claims(self, marks: Mapping[str, str], most: int | None = None) -> list[Claim]:
        """Those with such marks, last changed first."""
        return [Claim.from_document(document) for document in await self._all(CLAIMS, marks, most)]

    async def _all(
        self, collection: str, marks: Mapping[str, str] | None = None, most: int | None = None
    ) -> list[Document]:
        found: list[Document] = []
        cursor = None
        while most is None or len(found) < most:
            limit = PAGE if most is None else min(PAGE, most - len(found))
            page = await self._documents.find(collection, marks=marks, limit=limit, cursor=cursor)
            found += page.items
            if (cursor := page.cursor) is None:
                break
        return found
