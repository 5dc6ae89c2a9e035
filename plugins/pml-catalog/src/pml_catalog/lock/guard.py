"""Which tools of one server may be had, by what was taken of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from pml_catalog.definitions import HeldError
from pml_catalog.live import make_entry
from pml_hookspecs import CatalogEntry

from .judgement import Judgement, Reason, judge, judge_text
from .lock_file import LockError, LockFile, Locks, ServerLock, digest_of, judged

INSTRUCTIONS = "(instructions)"
"""Stands for the server's instructions among names of its tools, none of which has brackets."""
REMEDY = "pml lock review"
Trust: TypeAlias = Literal["first_use", "review"]
MOST = 20_000
"""Judgements that are kept."""


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool that is not what was taken."""

    tool: str
    judgement: Judgement
    before: Mapping[str, Any] | None
    now: Mapping[str, Any]
    seen_at: str
    """ISO 8601."""

    @property
    def digest(self) -> str:
        """Of what the lock would have of it as it is now."""
        return digest_of({**self.now, "name": self.tool})

    def shown(self) -> dict[str, Any]:
        """For status, logs and ``--json``."""
        verdict = self.judgement.verdict
        reasons = [str(one) for one in self.judgement.reasons]
        return {"tool": self.tool, "verdict": verdict, "reasons": reasons, "new": self.judgement.new}


class Guard:
    """Judges what one server lists. Without a file, only where the server is not trusted at first sight."""

    def __init__(self, server: str, locks: Locks, trust: Trust) -> None:
        """While a file cannot be read, nothing of its servers may be had."""
        self._server, self._locks, self._trust = server, locks, trust
        self._problem, self._locked = locks.problem_of(server), locks.locked(server)
        self._judged: dict[tuple[str, str], Judgement] = {}
        self._entries: dict[tuple[str, str], CatalogEntry] = {}
        self.changes: dict[str, ToolChange] = {}
        """What is otherwise than was taken, or new, of what is listed for all; by the tool's name."""
        self._untold: dict[str, ToolChange] = {}
        self._listed: set[str] = set()
        """What is listed now, for all or for some."""

    def hear(self, instructions: str) -> str:
        """What is handed on of what a server says of its use: what was taken, where that is suspicious now."""
        locked = self._locked or ServerLock()
        if self._problem or not judge_text(locked.instructions, instructions, INSTRUCTIONS).blocks:
            return instructions
        self._untold[INSTRUCTIONS] = _of_instructions(locked, instructions)
        return locked.instructions

    def news(self) -> list[ToolChange]:
        """What was found since this was asked last."""
        news, self._untold = [*self._untold.values()], {}
        return news

    def judge(self, listed: Iterable[CatalogEntry], shown: Iterable[CatalogEntry]) -> list[CatalogEntry]:
        """Note what is otherwise of all that is listed; of what would be shown, what may be."""
        found: dict[str, ToolChange] = {}
        self._listed.clear()
        for entry in listed:
            self._listed.add(entry.name)
            judgement = self.judgement(entry)
            if judgement.verdict == "same":
                continue
            known = self.changes.get(entry.name)
            if known is None or known.judgement is not judgement:
                known = ToolChange(entry.name, judgement, self._taken(entry.name), dict(entry.definition), _moment())
                self._untold[entry.name] = known
            found[entry.name] = known
        self.changes = found
        return self.allowed(shown)

    def allowed(self, entries: Iterable[CatalogEntry]) -> list[CatalogEntry]:
        """What is shown: of a blocked tool as it was taken, of one that is new nothing."""
        shown = []
        for entry in entries:
            judgement, before = self.judgement(entry), self._taken(entry.name)
            if judgement.blocks:
                if before is not None:
                    shown.append(self._entry(before, entry, "blocked"))
            elif judgement.safer_hints and before is not None:
                # Whether people are asked goes by what they took.
                taken = {**entry.definition, "annotations": before.get("annotations", {})}
                shown.append(self._entry(taken, entry, "hints"))
            else:
                shown.append(entry)
        return shown

    def blocks(self, entry: CatalogEntry) -> bool:
        """Whether a tool, as it is listed for some, is not called."""
        self._listed.add(entry.name)
        return self.judgement(entry).blocks

    def judgement(self, entry: CatalogEntry) -> Judgement:
        """What it means how a tool is listed."""
        key = (entry.name, entry.digest)
        if (known := self._judged.get(key)) is None:
            if len(self._judged) >= MOST:
                self._judged.clear()
                self._entries.clear()
            known = self._judged[key] = self._judge(entry.name, entry.definition)
        return known

    def _judge(self, tool: str, definition: Mapping[str, Any]) -> Judgement:
        if self._problem:
            return Judgement("suspicious", (Reason("suspicious", "lock", self._problem),))
        before = self._taken(tool)
        shadowed = self._locks.shadowed(self._server, tool) if before is None else ""
        found = judge(before, definition, shadowed=shadowed)
        if found.new and not found.blocks and self._trust == "review":
            reason = Reason("breaking", "tool", 'nobody has looked at it yet, and its server has trust = "review"')
            return Judgement("breaking", (reason, *found.reasons), new=True)
        return found

    def _taken(self, tool: str) -> Mapping[str, Any] | None:
        return None if self._locked is None else self._locked.tools.get(tool)

    def _entry(self, definition: Mapping[str, Any], entry: CatalogEntry, why: str) -> CatalogEntry:
        key = (f"{why} {entry.name}", entry.digest)
        if (known := self._entries.get(key)) is None:
            known = self._entries[key] = make_entry(entry.server, definition)
        return known

    def check(self, tool: str) -> None:
        """See that a tool may be called.

        Raises:
            HeldError: It may not.
        """
        if self._problem:
            raise HeldError(self._problem, REMEDY)
        change = self.changes.get(tool)
        if change is not None and change.judgement.blocks:
            raise HeldError(why(change.judgement), REMEDY)
        if tool not in self._listed:
            raise HeldError("its server does not list it, so that nobody knows what it is", REMEDY)

    def accept(self, changes: Sequence[ToolChange]) -> None:
        """Take these of :attr:`changes` into the file: for a gateway that is asked to.

        Whoever calls it has shown them to somebody who may decide that. The file is written at once, which blocks for
        as long as that takes; every gateway that uses it takes it up by itself.

        Raises:
            LockError: There is no file to write, or it is damaged.
        """
        known = self._locks.file_of(self._server)
        if known is None:
            raise LockError(self._problem or "there is no file in which the server is configured")
        taken = {change.tool: judged(change.now) for change in changes}

        def change(file: LockFile) -> LockFile:
            locked = file.servers.get(self._server, ServerLock())
            return file.with_server(self._server, ServerLock({**locked.tools, **taken}, locked.instructions))

        LockFile.changed(known.path, change)


def why(judgement: Judgement) -> str:
    """The worst of the reasons, in one sentence."""
    worst = [str(one) for one in judgement.reasons if one.verdict == judgement.verdict][:3]
    return f"it is not what was taken into the lock ({'; '.join(worst)})"


def changes_of(
    server: str, locks: Locks, trust: Trust, entries: Iterable[CatalogEntry], instructions: str
) -> list[ToolChange]:
    """All that is otherwise of a server than was taken, or new; its instructions among them."""
    guard = Guard(server, locks, trust)
    guard.judge(entries, ())
    change = _of_instructions(locks.locked(server) or ServerLock(), instructions)
    return [*guard.changes.values(), *([] if change.judgement.verdict == "same" else [change])]


def _of_instructions(locked: ServerLock, now: str) -> ToolChange:
    judgement = judge_text(locked.instructions, now, INSTRUCTIONS)
    before, after = ({"description": one} for one in (locked.instructions, now))
    return ToolChange(INSTRUCTIONS, judgement, before, after, _moment())


def _moment() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def take(
    locked: ServerLock | None,
    listed: Iterable[CatalogEntry],
    changes: Iterable[ToolChange],
    taken: Callable[[ToolChange], bool],
) -> ServerLock:
    """What counts of a server from now on: what was taken before, and of what is otherwise what ``taken`` says.

    A tool that is not listed any more is forgotten.
    """
    known = {} if locked is None else dict(locked.tools)
    instructions = "" if locked is None else locked.instructions
    for change in filter(taken, changes):
        if change.tool == INSTRUCTIONS:
            instructions = change.now["description"]
        else:
            known[change.tool] = judged(change.now)
    names = {entry.name for entry in listed}
    return ServerLock({name: one for name, one in known.items() if name in names}, instructions)
