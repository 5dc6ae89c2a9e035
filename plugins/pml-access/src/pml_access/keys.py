"""Keys in the store: the hash of each, whose it is, and what it may do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pml_hookspecs import Identity, replace
from pml_kit.shared.change import Write, change

from . import tokens
from .tokens import Token

if TYPE_CHECKING:
    from pml_hookspecs import Document, Services

KEYS, USES = "access.keys", "access.uses"
"""Uses are apart from the keys: what is noted on the request path must not undo a revocation."""
SYSTEM = "system"
"""Principal of keys that see everything, and the scope that lets them."""
LOCAL = "local"
"""Principal of everybody without a key."""
AGENT_PREFIX = "agent:"
PAGE = 500
TIMES = ("created_at", "expires_at", "revoked_at")
LISTS = ("allow", "deny", "scopes")

State = Literal["active", "expired", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key, without what it takes to use it."""

    id: str
    kind: Literal["user", "agent", "system"]
    holder: str
    """The person's or the agent's name; ``""`` of a system's key."""
    name: str = ""
    """What it is for, in its maker's words."""
    digest: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str = ""
    mode: str = ""
    intent: str = ""
    execution_mode: Literal["", "real", "dry_run"] = ""
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    dry_run_only: bool = False

    @property
    def principal(self) -> str:
        """For whom its holder acts."""
        return {"user": self.holder, "agent": f"{AGENT_PREFIX}{self.holder}", "system": SYSTEM}[self.kind]

    def state(self, now: datetime) -> State:
        """Whether it can be used."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    def identity(self) -> Identity:
        """The identity that the key stands for."""
        return Identity(
            principal=self.principal,
            access_key=self.id,
            scopes=frozenset(self.scopes) | ({SYSTEM} if self.kind == "system" else set()),
            agent=self.holder if self.kind == "agent" else "",
            mode=self.mode,
            intent=self.intent,
            execution_mode=self.execution_mode,
            dry_run_only=self.dry_run_only,
            allow=self.allow,
            deny=self.deny,
        )

    def shown(self, last_used_at: datetime | None, now: datetime) -> dict[str, Any]:
        """All but the hash, for people and programs."""
        times = {name: _text(getattr(self, name)) for name in TIMES}
        members = {**asdict(self), **times, "principal": self.principal, "state": self.state(now)}
        del members["digest"]
        return {**members, "last_used_at": _text(last_used_at)}


class Keys:
    """All keys."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def _documents(self) -> Any:
        return self._services.store.documents

    async def create(self, about: Mapping[str, Any], *, by: str) -> tuple[Key, Token]:
        """Make a key; ``about`` are members of :class:`Key`. The token is nowhere else."""
        while True:
            token = tokens.new()
            made = Key(id=token.id, digest=token.digest, created_at=datetime.now(UTC), created_by=by, **about)
            if await change(self._documents, KEYS, made.id, partial(_made, made)):
                return made, token

    async def get(self, id: str) -> Key | None:
        """None when there is none."""
        document = await self._documents.get(KEYS, id)
        return None if document is None else _key(document)

    async def all(self) -> Sequence[Key]:
        """The newest first."""
        found = [_key(document) async for document in every(self._documents, KEYS)]
        return sorted(found, key=lambda key: (key.created_at, key.id), reverse=True)

    async def any(self) -> bool:
        """Whether there is one, or was."""
        return bool((await self._documents.find(KEYS, limit=1)).items)

    async def revoke(self, id: str, *, by: str) -> Key | None:
        """Make it useless for good; None when that was so before.

        Raises:
            LookupError: There is none.
        """

        def revoked(key: Key) -> Key:
            return key if key.revoked_at else replace(key, revoked_at=datetime.now(UTC), revoked_by=by)

        return await self._change(id, revoked)

    async def lock(self, id: str) -> Key | None:
        """Have it rehearse only, for good; None when that was so before.

        Raises:
            LookupError: There is none.
        """
        return await self._change(id, lambda key: replace(key, dry_run_only=True))

    async def _change(self, id: str, edit: Callable[[Key], Key]) -> Key | None:
        """The key as it is after a change; None when that changes nothing."""

        def edited(document: Document | None) -> tuple[Key | None, Write | None]:
            if document is None:
                raise LookupError(id)
            key = _key(document)
            after = edit(key)
            return (None, None) if after == key else (after, _write(after))

        return await change(self._documents, KEYS, id, edited)

    # When they were last used

    def used(self, id: str, at: datetime) -> None:
        """Note a use, soon."""
        self._documents.put_soon(USES, id, {"last_used_at": _text(at)})

    async def last_used(self, id: str) -> datetime | None:
        """None when it never was."""
        document = await self._documents.get(USES, id)
        return None if document is None else _time(document.value["last_used_at"])

    async def uses(self) -> Mapping[str, datetime | None]:
        """When each was last used, of those that were."""
        return {d.key: _time(d.value["last_used_at"]) async for d in every(self._documents, USES)}


async def every(documents: Any, collection: str) -> AsyncIterator[Document]:
    """All documents of a collection."""
    cursor: str | None = None
    while True:
        page = await documents.find(collection, limit=PAGE, cursor=cursor)
        for document in page.items:
            yield document
        cursor = page.cursor
        if cursor is None:
            return


def _made(key: Key, found: Document | None) -> tuple[bool, Write | None]:
    return (True, _write(key)) if found is None else (False, None)


def _write(key: Key) -> Write:
    value = {**asdict(key), **{name: _text(getattr(key, name)) for name in TIMES}}
    return Write(value, {"kind": key.kind, "principal": key.principal})


def _key(document: Document) -> Key:
    members: dict[str, Any] = dict(document.value)
    members.update({name: _time(members[name]) for name in TIMES})
    members.update({name: None if members[name] is None else tuple(members[name]) for name in LISTS})
    return Key(**members)


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
