"""Requests for approval as they are kept: who asked for what, what a human said, and whether it was used."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from pml_kit.pages import every_document

if TYPE_CHECKING:
    from pml_hookspecs import Document, Run, Services

    from .settings import Settings
    from .subject import Subject

COLLECTION, LOOKS = "approvals.requests", "approvals.looks"
State = Literal["pending", "approved", "denied", "used"]
Answer = Literal["approved", "denied"]
PAGE, TOO_MANY = 1000, 2
LOOK_S, NOTE_S = 30.0, 10.0
"""How long a look at what waits counts, and how often one is noted [s]."""
POLL_S = 0.5
"""How often an answer is looked for, which another gateway may have been given [s]."""
MOST_BEFORE = 50
"""Requests among which the last approved one is looked for."""
LONGEST_MARK = 200


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    id: str
    state: State
    principal: str
    value: dict[str, Any]
    """What is kept, secrets taken out: ``kind``, ``target``, ``request``, ``digest``, ``intent``, ``execution_id``,
    ``agent``, ``requested_at``, and ``flows`` where there are some; and once answered ``answer``, ``answered_at``,
    ``answered_by``, ``reason``."""
    version: int
    expires_at: datetime | None


class Requests:
    """All requests, in the gateway's store."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services, self._settings = services, settings
        self._noted_at = 0.0

    async def of(self, digest: str, principal: str) -> list[Request]:
        """Those for the same task of the same principal, the last changed first."""
        marks = {"digest": digest, "principal": principal}
        page = await self._services.store.documents.find(COLLECTION, marks=marks)
        return [_request(document) for document in page.items]

    async def all(self, state: str | None, limit: int) -> Sequence[Request]:
        """The last ``limit``, of one state or of all."""
        marks = None if state is None else {"state": state}
        page = await self._services.store.documents.find(COLLECTION, marks=marks, limit=limit)
        return [_request(document) for document in page.items]

    async def get(self, id: str) -> Request | None:
        """None when there is none, or it has expired."""
        document = await self._services.store.documents.get(COLLECTION, id)
        return None if document is None else _request(document)

    async def beginning_with(self, start: str) -> Sequence[Request]:
        """Those whose ids begin so; at most two, as more than one is too many to answer."""
        found: list[Request] = []
        async for document in every_document(self._services.store.documents, COLLECTION, page=PAGE):
            if document.key.startswith(start):
                found.append(_request(document))
            if len(found) == TOO_MANY:
                break
        return found

    async def before(self, request: Request) -> Request | None:
        """What the same principal was last approved of the same target; None for the first time."""
        marks = {"principal": request.principal, "target": request.value["target"][:LONGEST_MARK]}
        page = await self._services.store.documents.find(COLLECTION, marks=marks, limit=MOST_BEFORE)
        return next((_request(one) for one in page.items if one.value.get("answer") == "approved"), None)

    async def answered(self, request: Request) -> None:
        """Wait until somebody has answered it, at whichever gateway: for ever, if it expires before."""
        found: Request | None = request
        while found is None or found.state == "pending":
            await asyncio.sleep(POLL_S)
            found = await self.get(request.id)

    def look(self) -> None:
        """Note that somebody who may answer looks at what waits."""
        if time.monotonic() - self._noted_at < NOTE_S and self._noted_at:
            return
        self._noted_at, until = time.monotonic(), datetime.now(UTC) + timedelta(seconds=LOOK_S)
        self._services.store.documents.put_soon(LOOKS, "last", {}, expires_at=until)

    async def somebody_looks(self) -> bool:
        """Whether somebody who may answer has looked at what waits just now, at whichever gateway."""
        return await self._services.store.documents.get(LOOKS, "last") is not None

    async def ask(self, subject: Subject, run: Run) -> Request:
        """Keep a new request."""
        made = self._new(subject, run)
        version = await self._write(made, "pending", made.value)
        return replace(made, version=version or 0)

    def _new(self, subject: Subject, run: Run) -> Request:
        now = datetime.now(UTC)
        value = {
            "kind": subject.kind,
            "target": subject.target,
            "request": self._services.redact(subject.request),
            "digest": subject.digest,
            "intent": self._services.redact(run.intent),
            "execution_id": run.id,
            "agent": run.session.actor,
            "requested_at": now.isoformat(),
            **({"flows": self._services.redact(list(subject.flows))} if subject.flows else {}),
        }
        id, expires_at = f"apr-{secrets.token_hex(8)}", now + timedelta(seconds=self._settings.expires_s)
        return Request(id, "pending", run.session.principal, value, 0, expires_at)

    async def answer(self, request: Request, answer: Answer, *, by: str, reason: str = "", used: bool = False) -> bool:
        """Note what a human said, and with ``used`` that it is acted on at once.

        False when somebody else was faster or it has been answered.
        """
        about = {"answer": answer, "answered_at": datetime.now(UTC).isoformat(), "answered_by": by}
        value = {**request.value, **about, **({"reason": reason} if reason else {})}
        return await self._write(request, "used" if used else answer, value) is not None

    async def use(self, request: Request) -> bool:
        """Spend an answer; False when it was spent already."""
        return await self._write(request, "used", request.value) is not None

    async def _write(self, request: Request, state: State, value: dict[str, Any]) -> int | None:
        used_until = datetime.now(UTC) + timedelta(seconds=self._settings.kept_s)
        return await self._services.store.documents.put(
            COLLECTION,
            request.id,
            value,
            marks=_marks(request, state),
            expires_at=used_until if state == "used" else request.expires_at,
            if_version=request.version,
        )


def _marks(request: Request, state: State) -> dict[str, str]:
    value = request.value
    target = value["target"][:LONGEST_MARK]
    return {"state": state, "principal": request.principal, "digest": value["digest"], "target": target}


def _request(document: Document) -> Request:
    marks: Any = document.marks
    return Request(
        document.key,
        marks["state"],
        marks["principal"],
        dict(document.value),
        document.version,
        document.expires_at,
    )
