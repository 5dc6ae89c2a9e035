"""``[plugins.inspection]``."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar, Literal, TypeAlias

from pml_hookspecs import setting

OfDefinitions: TypeAlias = Literal["off", "mark", "strip", "quarantine"]
OfResults: TypeAlias = Literal["off", "mark", "strip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One of ``servers``: what is otherwise for it."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    definitions: OfDefinitions | None = setting(None, "As for all servers if not set.")
    results: OfResults | None = setting(None, "As for all servers if not set.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is done about what is found."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    definitions: OfDefinitions = setting(
        "strip",
        "About definitions: 'off', 'mark' (in `_meta`, the log and `pml inspect`), 'strip' (marked, and without "
        "characters that nobody sees or a terminal obeys), 'quarantine' (neither listed nor called).",
    )
    results: OfResults = setting(
        "mark", "About results: 'off', 'mark' (in `_meta`, also in history), 'strip' (and without such characters)."
    )
    servers: dict[str, Server] = setting(dict, "What is otherwise for a server, by its name.")
    accepted: tuple[str, ...] = setting(
        (), "Tools about whose definitions nothing is done, as patterns such as 'shop:list_*': somebody has read them."
    )
    longest_description: int = setting(
        16_384, "A longer description of a tool is found [characters]; 0 for none.", ge=0
    )

    def of_definitions(self, tool: str, server: str) -> OfDefinitions:
        """What is done about the definition of ``tool``, by its id."""
        if any(fnmatchcase(tool, pattern) for pattern in self.accepted):
            return "off"
        own = self.servers.get(server)
        return own.definitions if own is not None and own.definitions is not None else self.definitions

    def of_results(self, server: str) -> OfResults:
        """What is done about the results of a server."""
        own = self.servers.get(server)
        return own.results if own is not None and own.results is not None else self.results

    @property
    def quarantines(self) -> bool:
        """Whether any tool may be withheld."""
        return "quarantine" in (self.definitions, *(server.definitions for server in self.servers.values()))

    @property
    def reads_results(self) -> bool:
        """Whether results of any server are looked at."""
        levels = (self.results, *(server.results for server in self.servers.values()))
        return any(level not in (None, "off") for level in levels)
