"""``describe_code_tools``: types of some tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CatalogEntry, InvalidArguments
from pml_kit.offers import ToolNote, note_of
from pml_kit.offers.presentation import is_hidden

from .run_code import mistakes_in

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services, Session
    from pml_sandbox.stubs import PythonStubs, TypeScriptStubs

LIMIT, MOST = 10, 50
_KNOWN = ("query", "tools", "language", "limit")


class DescribeCodeTools:
    """Answers with stubs of the tools that were asked for and that the caller may have."""

    def __init__(self, services: Services, language: str) -> None:
        """Take the catalog, and the language of code that does not say."""
        self._services, self._language = services, language
        self._stubs: dict[bool, TypeScriptStubs | PythonStubs] = {}

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        """``{"stubs": text, "tools": [ids]}``.

        Also ``unknown`` with names that stand for nothing, and ``left_out`` with how many more tools there are than may
        be described at once.

        Raises:
            InvalidArguments: Says everything that is wrong with them.
        """
        query, names, language, limit = self._read(arguments)
        found: dict[str, CatalogEntry] = {}
        unknown = []
        for name in names:
            entries = self._named(name, run.session)
            found |= {entry.id: entry for entry in entries}
            if not entries:
                unknown.append(name)
        catalog = self._services.catalog
        if query:
            for match in await catalog.search(query, limit=limit or LIMIT, session=run.session):
                if (entry := catalog.get(match.id)) is not None and catalog.allows(entry, run.session):
                    found[entry.id] = entry
        most = MOST if limit is None else limit
        chosen = list(found.values())[:most]

        def seen(entry: CatalogEntry) -> ToolNote | None:
            return note_of(self._services, entry, run.session)

        writer = self._writer(language)
        for entry in chosen:  # each in a turn of the loop: hostile schemas are bounded work, fifty are not little
            writer.of(entry)
            await asyncio.sleep(0)
        answer: dict[str, Any] = {
            "stubs": writer.write(chosen, seen) if chosen else "",
            "tools": [entry.id for entry in chosen],
        }
        if unknown:
            answer["unknown"] = unknown
        if len(found) > most:
            answer["left_out"] = len(found) - most
        return answer

    def _writer(self, language: str) -> TypeScriptStubs | PythonStubs:
        from pml_sandbox.stubs import PythonStubs, TypeScriptStubs

        python = language == "python"
        if python not in self._stubs:
            self._stubs[python] = PythonStubs() if python else TypeScriptStubs()
        return self._stubs[python]

    def _named(self, name: str, session: Session) -> Sequence[CatalogEntry]:
        catalog = self._services.catalog
        server, star, rest = name.partition(":*")
        if star and not rest:
            entries = [entry for entry in catalog if entry.server == server and not is_hidden(entry)]
        else:
            entry = catalog.resolve(name, session)
            entries = [] if entry is None else [entry]
        return [entry for entry in entries if catalog.allows(entry, session)]

    def _read(self, arguments: Mapping[str, Any]) -> tuple[str, Sequence[str], str, int | None]:
        mistakes = mistakes_in(arguments, _KNOWN)
        query, names = arguments.get("query", ""), arguments.get("tools", [])
        language, limit = arguments.get("language", self._language), arguments.get("limit")
        if not isinstance(query, str):
            mistakes.append("query: must be a string")
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            mistakes.append("tools: must be an array of names")
        if language not in ("typescript", "javascript", "python"):
            mistakes.append("language: must be typescript, javascript or python")
        if "limit" in arguments and (type(limit) is not int or not 1 <= limit <= MOST):
            mistakes.append(f"limit: must be 1 to {MOST}")
        if not query and not names:
            mistakes.append('give query, such as "read files", or tools, such as ["files:read"]')
        if mistakes:
            raise InvalidArguments("describe_code_tools cannot answer: " + "; ".join(mistakes))
        return query, names, language, limit
