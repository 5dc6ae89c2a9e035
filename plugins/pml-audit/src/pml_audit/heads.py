"""How far each trail goes, kept in the store: away from the files, and under the trail's own id."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_kit.pages import every_document

from .files import Files
from .rows import START, InvalidRowError, Tip, read
from .verify import ChainBreak, Report, Snapshot, verify

if TYPE_CHECKING:
    from pml_hookspecs import Services

HEADS = "audit.heads"
PAGE = 1000
WHERE = "the store"
STRANGE = (
    "the store knows other audits, and not this one: it was begun or written anew, or this is not the store of the "
    "gateway that wrote it"
)
UNKNOWN = "The store knows of no audit: whether the newest rows are missing, only audit.head beside them tells."


class StoredHead(NamedTuple):
    """What the store knows of the trail in a folder."""

    tip: Tip = START
    """How far its rows went; ``START`` when nothing is known."""
    problem: str = ""
    """Why the trail in the folder is none that the store knows; ``""`` when it is, or the store knows none at all."""
    is_first: bool = False
    """Whether the store knows no trail at all."""


class Heads:
    """The heads of all trails, from where one folder stands."""

    def __init__(self, services: Services, folder: Path) -> None:
        self._services, self._folder = services, folder
        self._place = {"host": socket.gethostname(), "folder": os.path.realpath(folder)}
        self._written = START

    async def known(self) -> StoredHead:
        """What is known of the trail in the folder.

        By the id that its first row has: it may have been moved, and the host may have another name. Where that id is
        not known, by the place: what was there before has been taken away.
        """
        heads = [head async for head in every_document(self._documents, HEADS, page=PAGE)]
        id = await asyncio.to_thread(trail_id, self._folder)
        if (own := next((head for head in heads if head.key == id), None)) is not None:
            return StoredHead(_tip(own.value))
        here = [_tip(head.value) for head in heads if all(head.value.get(n) == v for n, v in self._place.items())]
        if not heads and (earlier := await self._earlier()) != START:
            here = [earlier]
        if here:
            return StoredHead(max(here))
        return StoredHead(problem=STRANGE if heads and id else "", is_first=not heads)

    async def keep(self, tip: Tip) -> None:
        """Keep ``tip`` unless a later one of this trail is kept. Of several gateways that try at once, one does."""
        if tip.n <= self._written.n:
            return
        id = await asyncio.to_thread(trail_id, self._folder)
        found = await self._documents.get(HEADS, id) if id else None
        if id and (found is None or _tip(found.value).n < tip.n):
            value = {**tip._asdict(), **self._place}
            if await self._documents.put(HEADS, id, value, if_version=found.version if found else 0) is None:
                return
        self._written = tip

    async def _earlier(self) -> Tip:
        """What gateways kept that knew a trail by its place only."""
        text = await self._services.store.secrets.get("audit", f"head {self._place['host']}:{self._place['folder']}")
        return _tip(json.loads(text)) if text else START

    @property
    def _documents(self) -> Any:
        return self._services.store.documents


def trail_id(folder: Path) -> str:
    """The id that the first row has; ``""`` where there is no row, or none that is as it was written."""
    files = Files(folder).all()
    if not files:
        return ""
    with files[0].open("rb") as file:
        try:
            return str(read(file.readline().removesuffix(b"\n")).get("trail", ""))
        except InvalidRowError:
            return ""


def has_row(folder: Path, tip: Tip) -> bool:
    """Whether the row that ``tip`` names is there; reads the one file that it has to be in."""
    with Snapshot(Files(folder)) as snapshot:
        found = (row["hash"] for row in snapshot.rows(snapshot.lines_around(tip.n)) if row["n"] == tip.n)
        return next(found, None) == tip.hash


async def verified(services: Services, folder: Path, kept: Sequence[tuple[str, Tip]] = ()) -> Report:
    """Look at every row, at what the store knows of them, and at what is ``kept`` elsewhere, each with where.

    Raises:
        OSError: The files cannot be read.
    """
    known = await Heads(services, folder).known()
    report = await asyncio.to_thread(verify, folder, [*kept, *([(WHERE, known.tip)] if known.tip.n else [])])
    if report.broken is None and known.problem:
        report.broken = ChainBreak(str(Files(folder).all()[0]), 1, known.problem)
    if known.is_first and report.rows:
        report.notes.append(UNKNOWN)
    return report


def _tip(value: Mapping[str, Any]) -> Tip:
    return Tip(int(value["n"]), str(value["hash"]))
