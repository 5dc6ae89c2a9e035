"""Requests for approval as they are kept: who asked for what, what a human said, and whether it was used."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from pml_kit.pages import every_document

if TYPE_CHECKING:
    from pml_hookspecs import Document, Run, Services

    from .settings import Settings
    from .subject import Subject

COLLECTION = "approvals.requests"
State = Literal["pending", "approved", "denied", "used"]
PAGE, TOO_MANY = 1000, 2


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    id: str
    state: State
    principal: str
    value: dict[str, Any]
    """What is kept, secrets taken out: ``kind``, ``target``, ``request``, ``digest``, ``intent``, ``execution_id``,
    ``agent``, ``requested_at``; and once answered ``answered_at``, ``answered_by``, ``reason``."""
    version: int
    expires_at: datetime | None


class Requests:
    """All requests, in the gateway's store."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services, self._settings = services, settings

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

    async def ask(self, subject: Subject, run: Run, *, state: State = "pending", by: str = "") -> Request:
        """Keep a new request, or with another state what a human said at once."""
        made = self._new(subject, run, state, by)
        await self._write(made, state, made.value)
        return made

    def ask_soon(self, subject: Subject, run: Run) -> Request:
        """Keep a new request without waiting until it is kept, for whoever is being cancelled."""
        made = self._new(subject, run, "pending", "")
        self._services.store.documents.put_soon(
            COLLECTION, made.id, made.value, marks=_marks(made, made.state), expires_at=made.expires_at
        )
        return made

    def _new(self, subject: Subject, run: Run, state: State, by: str) -> Request:
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
        }
        if state != "pending":
            value |= {"answered_at": now.isoformat(), "answered_by": by}
        id = f"apr-{secrets.token_hex(8)}"
        return Request(id, state, run.session.principal, value, 0, now + timedelta(seconds=self._settings.expires_s))

    async def answer(self, request: Request, state: State, *, by: str, reason: str = "") -> bool:
        """Note what a human said; False when somebody else was faster or it has been answered."""
        value = {**request.value, "answered_at": datetime.now(UTC).isoformat(), "answered_by": by}
        return await self._write(request, state, {**value, "reason": reason} if reason else value)

    async def use(self, request: Request) -> bool:
        """Spend an approval; False when it was spent already."""
        return await self._write(request, "used", request.value)

    async def _write(self, request: Request, state: State, value: dict[str, Any]) -> bool:
        version = await self._services.store.documents.put(
            COLLECTION,
            request.id,
            value,
            marks=_marks(request, state),
            expires_at=request.expires_at,
            if_version=request.version,
        )
        return version is not None


def _marks(request: Request, state: State) -> dict[str, str]:
    return {"state": state, "principal": request.principal, "digest": request.value["digest"]}


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
