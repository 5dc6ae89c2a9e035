"""Which of a server's tools may be had at all, as its table says: whatever the mode, whoever calls, and from where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar, Protocol

from pml_core.mcp.naming import NO_TOOL
from pml_hookspecs import setting

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRules:
    """``[servers.<name>] tools``: patterns of :mod:`fnmatch` on the server's own names for its tools."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    allow: tuple[str, ...] | None = setting(None, "Tools that may be had; every tool if not set, none if empty.")
    deny: tuple[str, ...] = setting((), "Tools that may not be had, also of those that are allowed.")

    def __bool__(self) -> bool:
        """Whether they forbid anything."""
        return self.allow is not None or bool(self.deny)

    def allows(self, tool: str) -> bool:
        """Whether a tool, by its server's own name for it, may be had."""
        allowed = self.allow is None or any(fnmatchcase(tool, pattern) for pattern in self.allow)
        return allowed and not any(fnmatchcase(tool, pattern) for pattern in self.deny)

    @classmethod
    def of(cls, table: ToolRules | Mapping[str, object]) -> ToolRules:
        """From a table whose values are known to be of the right types."""
        if isinstance(table, ToolRules):
            return table
        return cls(**{name: tuple(v) if isinstance(v, (list, tuple)) else v for name, v in table.items()})  # type: ignore[arg-type]


class HasToolRules(Protocol):
    """A server's table."""

    @property
    def tools(self) -> ToolRules:
        """Its rules."""
        ...


def refusal(
    servers: Callable[[], Mapping[str, HasToolRules]], catalog: Catalog
) -> Callable[[CatalogEntry], str | None]:
    """Says of an entry which setting refuses it, None for none, by the ``servers`` that are configured now."""

    def refused(entry: CatalogEntry) -> str | None:
        settings = servers().get(entry.server)
        if settings is None or not settings.tools or settings.tools.allows(entry.name):
            return None
        # Resources, prompts and methods are no business of these rules.
        if entry.name.startswith(NO_TOOL) and catalog.get(entry.id) is None:
            return None
        return f"[servers.{entry.server}] tools"

    return refused
