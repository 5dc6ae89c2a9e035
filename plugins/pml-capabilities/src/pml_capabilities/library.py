"""Capabilities in the store, which several gateways may share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pml_hookspecs import replace
from pml_kit.shared.change import Write, change

from .capability import Capability, SuccessfulRun, from_value, learned, to_value
from .normalization import LONGEST_NAME, slug

if TYPE_CHECKING:
    from pml_hookspecs import Document, Documents, Services

COLLECTION = "capabilities.learned"
PAGE = 1000


def library_of(services: Services) -> Library | None:
    """None when there is no store that keeps documents."""
    try:
        return Library(services.store.documents)
    except (RuntimeError, AttributeError):
        return None


class Library:
    """Keeps capabilities as documents, each change with compare-and-swap, so that no count is lost."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    async def get(self, id: str) -> Capability | None:
        """None when there is none."""
        found = await self._documents.get(COLLECTION, id)
        return None if found is None else from_value(id, found.value, found.version)

    async def all(self) -> Sequence[Capability]:
        """Every one, also the retired; those that changed last first."""
        found: list[Capability] = []
        cursor = None
        while True:
            page = await self._documents.find(COLLECTION, limit=PAGE, cursor=cursor)
            found += [from_value(d.key, d.value, d.version) for d in page.items]
            cursor = page.cursor
            if cursor is None:
                return found

    async def learn(self, lesson: SuccessfulRun, *, keep: int) -> Capability:
        """Add ``lesson`` to what is known; of what its owner has, the ``keep`` that changed last stay.

        Raises:
            RuntimeError: Others changed it each time in between.
        """
        before = await self.get(lesson.id)
        name = await self._free_name(lesson) if before is None else before.name
        after = await self._change(lesson.id, lambda known: learned(known, lesson, name))
        if after is None:  # learned() always says what is known
            raise RuntimeError(f"capability {lesson.id} could not be kept")
        if before is None:
            await self._prune(lesson.owner, keep)
        return after

    async def _prune(self, owner: str, keep: int) -> None:
        """Drops the oldest above the limit, which counts for each owner alone."""
        if not owner:
            await self._documents.prune(COLLECTION, keep=keep)
            return
        cursor, seen, gone = None, 0, list[str]()
        while True:
            page = await self._documents.find(COLLECTION, marks={"owner": owner}, limit=PAGE, cursor=cursor)
            gone += [document.key for document in page.items[max(0, keep - seen) :]]
            seen, cursor = seen + len(page.items), page.cursor
            if cursor is None:
                break
        for key in gone:
            await self._documents.delete(COLLECTION, key)

    async def change(self, id: str, edit: Callable[[Capability], Capability]) -> Capability | None:
        """Change what is known; None when it is not known any more.

        Raises:
            RuntimeError: Others changed it each time in between.
        """
        return await self._change(id, lambda known: None if known is None else edit(known))

    async def _change(self, id: str, edit: Callable[[Capability | None], Capability | None]) -> Capability | None:
        def edited(found: Document | None) -> tuple[Capability | None, Write | None]:
            known = None if found is None else from_value(id, found.value, found.version)
            wanted = edit(known)
            if wanted is None or wanted == known:
                return wanted, None
            marks = {"name": wanted.name, "owner": wanted.owner, "state": "retired" if wanted.retired else "active"}
            return wanted, Write(to_value(wanted), marks)

        return await change(self._documents, COLLECTION, id, edited)

    async def add(self, capability: Capability, *, keep: int, shared: bool) -> Capability | None:
        """Keep one that was not learned here, in place of a retired one; None when its code is known already.

        Raises:
            RuntimeError: Others changed it each time in between.
        """
        before = await self.get(capability.id)
        if before is not None and not before.retired:
            return None
        owner = "" if shared else capability.owner
        taken = before is None and await self.has_name(capability.name, owner)
        name = f"{capability.name[:LONGEST_NAME]}_{capability.id[:6]}" if taken else capability.name
        made = await self._change(capability.id, lambda _: replace(capability, name=name))
        await self._prune(owner, keep)
        return made

    async def has_name(self, name: str, owner: str) -> bool:
        """Whether one of ``owner``'s is called so; where that is ``""``, one of anybody's."""
        whose = {"owner": owner} if owner else {}
        return bool((await self._documents.find(COLLECTION, marks={"name": name, **whose}, limit=1)).total)

    async def forget(self, id: str) -> bool:
        """Whether there was one."""
        return await self._documents.delete(COLLECTION, id)

    async def _free_name(self, lesson: SuccessfulRun) -> str:
        name = slug(lesson.intent, f"capability_{lesson.id[:6]}")
        return f"{name}_{lesson.id[:6]}" if await self.has_name(name, lesson.owner) else name


def by_intent(capabilities: Sequence[Capability], intent: str) -> list[tuple[Capability, float]]:
    """Those whose intents are like ``intent``, with how much in ``(0, 1]``, best first; ties by successes, then id."""
    from .similarity import likeness

    scored = [(c, max(likeness(intent, known) for known in c.intents)) for c in capabilities]
    return sorted(((c, score) for c, score in scored if score > 0), key=lambda s: (-s[1], -s[0].successes, s[0].id))
