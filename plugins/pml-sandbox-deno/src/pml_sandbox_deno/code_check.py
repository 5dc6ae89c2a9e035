"""What can be told of code before it runs: parsed always, and its types checked as far as there is time."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_sandbox import outcomes
from pml_sandbox.spawner import Spawner
from pml_sandbox.stubs import TypeScriptStubs
from pml_sandbox.verdicts import MOST, TYPE, UNDEFINED, Mistake, late, named_tools, verdict

from .checker import Checker, TypeMistake, source_of
from .parser import Parser

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, CodeRun, Json, Session
    from pml_kit.offers import Verdict
    from pml_sandbox.outcomes import CodeOutcome

MOST_KNOWN = 1000
"""Sources whose types were checked and need not be again."""
LEAST_S = 0.5
"""With less time left, no check of types is begun [s]."""
UNSAFE = "Types are not checked here: Deno's check reads files that the code names, and no wall stands around it."
UNKNOWN_NAMES = frozenset({"TS2304", "TS2552", "TS18004"})
MAYBE_THERE = frozenset({"TS2339", "TS2551", "TS2353", "TS2561"})
"""A member that no type names: schemas mostly do not rule others out."""
RUNS_ALL_THE_SAME = frozenset({"TS1235"})
"""Namespaces stand at the top of modules only, and code in a function; Deno minds neither."""
_WIDENED = re.compile(r"Type '(?:string|number|boolean)' is not assignable to type '[^'\n]*(?:\"|\d|true|false)")
"""A text where one of several is wanted: variables forget which one they have."""
_MADE_UP_LATER = re.compile(r"on type '\{\}'|on type 'object'")
"""``const found = {}; found.total = 1`` runs."""


@dataclass(eq=False)
class _QueuedSource:
    task: CodeRun
    session: Session
    entries: Sequence[CatalogEntry]
    found: asyncio.Future[Sequence[Mistake] | None]


class _RecentChecks(OrderedDict[bytes, Sequence[Any]]):
    """What was found, by what was checked."""

    def put(self, key: bytes, found: Sequence[Any]) -> None:
        """Keep it, and forget what was kept first."""
        self[key] = found
        if len(self) > MOST_KNOWN:
            self.popitem(last=False)


class CodeCheck:
    """Looks at code for a gateway. Sources that come while others are checked are checked together after that."""

    def __init__(self, program: Path, catalog: Catalog) -> None:
        """Take Deno's program, and the tools."""
        self._catalog, self._stubs, self._loose_stubs = catalog, TypeScriptStubs(), TypeScriptStubs(lenient=True)
        self._spawner = Spawner()
        self._parser = Parser(program, self._spawner)
        self._checker = Checker(program, self._spawner)
        self._turn, self._strict_turn = asyncio.Lock(), asyncio.Lock()
        self._waiting: list[_QueuedSource] = []
        self._fitting, self._known = _RecentChecks(), _RecentChecks()

    async def close(self) -> None:
        """End its processes and remove its files."""
        await self._parser.gone()
        await self._spawner.close()
        self._checker.close()

    async def type_mistakes(self, task: CodeRun) -> CodeOutcome | None:
        """What is wrong with code that is to run, as its ending; None for nothing. JavaScript has no types to check."""
        if task.language != "typescript":
            return None
        entries = [entry for entry in self._catalog if not entry.own and entry.server in task.source]
        declared = self._stubs.write(entries)
        if (key := _key(declared, task)) in self._fitting:
            return None
        async with self._strict_turn:
            told = await self._checker.found(declared, [task], strict=True)
        if told is None:
            return None
        if found := told[0]:
            return _ending(found[:MOST])
        self._fitting.put(key, ())
        return None

    async def verdict(self, task: CodeRun, session: Session, within_s: float, *, walled: bool) -> Verdict:
        """What can be told of ``task`` for ``session`` in ``within_s`` [s].

        Args:
            task: In TypeScript or JavaScript.
            session: Who asks.
            within_s: What is left of it after parsing is for the types.
            walled: Whether a wall keeps the check of types from reading files.

        Raises:
            OSError: The parser cannot be started.
        """
        end_s = asyncio.get_running_loop().time() + within_s
        try:
            async with asyncio.timeout(within_s):
                mistake = await self._parser.mistake(task)
        except TimeoutError:
            return late("nothing", "The code was", within_s)
        # JavaScript has no types to check.
        if mistake is not None or task.language != "typescript":
            return verdict("syntax", [] if mistake is None else [mistake])
        if not walled:
            return verdict("syntax", unchecked=UNSAFE)
        left_s = end_s - asyncio.get_running_loop().time()
        found = None if left_s < LEAST_S else await self._types(task, session, left_s)
        return late("syntax", "Types were", within_s) if found is None else verdict("types", found)

    async def _types(self, task: CodeRun, session: Session, most_s: float) -> Sequence[Mistake] | None:
        """None when there was no time."""
        entries = named_tools(task, self._catalog, session) if task.tools != () else ()
        key = _key(self._loose_stubs.write(entries), task)
        if key in self._known:
            return self._known[key]
        mine = _QueuedSource(task, session, entries, asyncio.get_running_loop().create_future())
        self._waiting.append(mine)
        try:
            async with asyncio.timeout(most_s), self._turn:
                if not mine.found.done():
                    await self._together(mine, most_s)
                found = await mine.found
        except TimeoutError:
            return None
        finally:
            if mine in self._waiting:
                self._waiting.remove(mine)
        if found is not None:
            self._known.put(key, found)
        return found

    async def _together(self, mine: _QueuedSource, most_s: float) -> None:
        """Check all that waits for the same session: most of the time of a check is the compiler's own start."""
        batch = [one for one in self._waiting if one.session.key == mine.session.key]
        entries: Mapping[str, CatalogEntry] = {entry.id: entry for one in batch for entry in one.entries}
        declared = self._loose_stubs.write(entries.values())
        told = await self._checker.found(declared, [one.task for one in batch], strict=False, most_s=most_s)
        if told is None:
            # Others may have more time.
            mine.found.set_result(None)
            return
        for one, found in zip(batch, told, strict=True):
            if not one.found.done():
                one.found.set_result([made for each in found if (made := _mistake(each))])


def _key(declared: str, task: CodeRun) -> bytes:
    return hashlib.sha256(f"{declared}\0{source_of(task)}".encode(errors="surrogatepass")).digest()


def _ending(found: Sequence[TypeMistake]) -> CodeOutcome:
    told: list[dict[str, Json]]
    told = [{"line": one.line, "column": one.column, "code": one.code, "message": one.message} for one in found]
    shown = "; ".join(f"line {one.line}: {one.message}" for one in found)
    return outcomes.failed(outcomes.INVALID, f"The code was not run, its types do not fit: {shown}", mistakes=told)


def _mistake(found: TypeMistake) -> Mistake | None:
    if found.code in RUNS_ALL_THE_SAME or _WIDENED.search(found.text):
        return None
    if found.code in MAYBE_THERE and _MADE_UP_LATER.search(found.message):
        return None
    certain = found.code not in MAYBE_THERE
    code = UNDEFINED if found.code in UNKNOWN_NAMES else TYPE
    return Mistake(code=code, message=found.message, line=found.line, column=found.column, certain=certain)
