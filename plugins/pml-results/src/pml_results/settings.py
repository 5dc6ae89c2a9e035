"""``[plugins.results]``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar, Literal, TypeAlias

from pml_hookspecs import Session, setting, split_tool_id

Way: TypeAlias = Literal["tables", "html", "base64"]
"""How an answer is written with fewer tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How large an answer may be, and how long what is larger is kept."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    budget_tokens: int = setting(
        8000,
        "An answer that is longer is stored, and a preview of about this length is given instead [tokens]. 0: none is.",
        ge=0,
    )
    unbounded_modes: tuple[str, ...] = setting(
        ("full_proxy",), "Modes in which clients get what the server sent, unless a budget names them more closely."
    )
    endpoints: Mapping[str, int] = setting(dict, "Budgets of endpoints, by name [tokens].")
    keys: Mapping[str, int] = setting(dict, "Budgets of keys, by pattern of their ids or of whose they are [tokens].")
    servers: Mapping[str, int] = setting(dict, "Budgets of servers' answers, by pattern [tokens].")
    tools: Mapping[str, int] = setting(dict, "Budgets of tools' answers, by pattern of their ids [tokens].")
    declared: Literal["whole", "refuse"] = setting(
        "whole",
        "What a client gets whose tool declares an outputSchema, which no preview fits: the whole answer, or an error "
        "that says where it is.",
    )
    keep_hours: float = setting(24.0, "How long a stored answer can be read [h].", ge=0.01)
    keep_bytes: int = setting(256 * 2**20, "Most that is stored for a principal; the oldest goes first [bytes].", ge=1)
    listed: bool = setting(False, "Whether read_result is listed, for modes that list no call_tool.")
    compact: Mapping[str, tuple[Way, ...]] = setting(
        dict,
        "What is written with fewer tokens, by pattern of tools' ids: tables of uniform arrays, HTML as text, "
        "base64 out. Each is labelled.",
    )

    def __post_init__(self) -> None:
        """Refuse what types cannot.

        Raises:
            ValueError: Names every mistake.
        """
        problems = list(self._problems())
        if problems:
            raise ValueError("; ".join(problems))

    def _problems(self) -> Iterator[str]:
        for name in ("endpoints", "keys", "servers", "tools"):
            for pattern, tokens in getattr(self, name).items():
                if tokens < 0:
                    yield f"{name}.{pattern} is {tokens}; it must be 0 (no budget) or more"

    @property
    def least_budget(self) -> int:
        """Of all that are set, so that what is no longer fits each of them [tokens]; 0 without any."""
        parts = (self.tools, self.servers, self.keys, self.endpoints)
        said = [self.budget_tokens, *(tokens for part in parts for tokens in part.values())]
        return min((tokens for tokens in said if tokens), default=0)

    def budget(self, tool: str, session: Session) -> int:
        """Of an answer of ``tool`` to ``session`` [tokens]; 0 for none. The closest that is said counts.

        A tool's comes before its server's, that before the key's, that before the endpoint's, and all before the
        gateway's.
        """
        server = split_tool_id(tool)[0]
        for patterns, name in (
            (self.tools, tool),
            (self.servers, server),
            (self.keys, session.access_key),
            (self.keys, session.principal),
        ):
            found = _fitting(patterns, name)
            if found is not None:
                return found
        if session.endpoint in self.endpoints:
            return self.endpoints[session.endpoint]
        return 0 if session.mode in self.unbounded_modes else self.budget_tokens

    def bounds(self, session: Session) -> bool:
        """Whether any answer to ``session`` may be too large."""
        return any((*self.tools.values(), *self.servers.values())) or self.budget("", session) > 0

    def compactions(self, tool: str) -> tuple[Way, ...]:
        """What is done to an answer of ``tool``, in order."""
        return next((done for pattern, done in self.compact.items() if fnmatchcase(tool, pattern)), ())


def _fitting(patterns: Mapping[str, int], name: str) -> int | None:
    """The name itself, else the first pattern that fits; None where none does."""
    if name in patterns:
        return patterns[name]
    return next((tokens for pattern, tokens in patterns.items() if fnmatchcase(name, pattern)), None)
