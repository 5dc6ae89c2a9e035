"""Which tools may be had at all, whatever the mode: what the tables of servers say, and the filters of plugins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pml_catalog.naming import NO_TOOL
from pml_hookspecs import GATEWAY_SERVER, setting
from pml_kit.offers import NamedTools

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, Session, ToolFilter


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


def named_by_servers(servers: Mapping[str, HasToolRules]) -> Iterator[NamedTools]:
    """What the tables of servers name."""
    for name, settings in servers.items():
        for key, patterns in (("allow", settings.tools.allow or ()), ("deny", settings.tools.deny)):
            yield NamedTools(
                f"servers.{name}.tools.{key}", [f"{name}:{pattern}" for pattern in patterns], ids_only=True
            )


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


class Filters:
    """All tool filters as one. A tool is kept by ``True`` alone: all else that a filter does counts as "drop"."""

    def __init__(
        self,
        filters: Iterable[tuple[str, ToolFilter]],
        log: Any,
        refused: Callable[[CatalogEntry], str | None] = lambda _entry: None,
    ) -> None:
        """``filters`` are with the plugins that contribute them; ``refused`` names the setting that drops an entry."""
        self._log, self._refused = log, refused
        self._told: set[str] = set()
        self.use(filters)

    @property
    def shared(self) -> bool:
        """Whether they keep the same for every session."""
        return all(getattr(keeps, "shared", False) for _, keeps in self._filters)

    def __iter__(self) -> Iterator[tuple[str, ToolFilter]]:
        return iter(self._filters)

    def use(self, filters: Iterable[tuple[str, ToolFilter]]) -> None:
        """Have these from now on; whoever keeps what was filtered has to begin again."""
        self._filters = tuple(filters)
        self._hiding = tuple(pair for pair in self._filters if getattr(pair[1], "hides", False))

    def refusing(self, entry: CatalogEntry, session: Session) -> str | None:
        """Name of the setting, or the first plugin, that drops ``entry``; None when all keep it."""
        if (setting := self._refused(entry)) is not None:
            return setting
        dropping = self._dropping(entry, session)
        return None if dropping is None else dropping[0]

    def _dropping(self, entry: CatalogEntry, session: Session) -> tuple[str, ToolFilter] | None:
        for plugin, keeps in self._filters:
            try:
                kept = keeps(entry, session)
            except Exception:
                self._log.exception("tool filter failed; the tool is dropped", plugin=plugin, tool=entry.id)
                return plugin, keeps
            if kept is not True:
                self._tell(plugin, kept)
                return plugin, keeps
        return None

    def why(self, entry: CatalogEntry, session: Session) -> str:
        """Who drops ``entry`` for ``session``, and why as far as they say; ``""`` where it is kept."""
        if (setting := self._refused(entry)) is not None:
            return f"{setting} does not let anybody have it"
        if (dropping := self._dropping(entry, session)) is None:
            return ""
        plugin, keeps = dropping
        try:
            return f"{plugin}: {keeps.why(entry, session)}" if hasattr(keeps, "why") else f"{plugin} drops it"
        except Exception:
            self._log.exception("a tool filter failed to say why it drops a tool", plugin=plugin, tool=entry.id)
            return f"{plugin} drops it"

    def _tell(self, plugin: str, kept: object) -> None:
        """Say once of a plugin that its filter gives neither True nor False."""
        if inspect.iscoroutine(kept):
            kept.close()
        if kept is not False and plugin not in self._told:
            self._told.add(plugin)
            self._log.error(
                "a tool filter gives neither True nor False; what it judges is dropped",
                plugin=plugin,
                given=type(kept).__name__,
            )

    def hides(self, entry: CatalogEntry, session: Session) -> bool:
        """Whether ``session`` may not even know that there is ``entry``; one that fails hides it.

        The names of the gateway's own tools are no secret.
        """
        if entry.server == GATEWAY_SERVER:
            return False
        try:
            for plugin, keeps in self._hiding:
                if (kept := keeps(entry, session)) is not True:
                    self._tell(plugin, kept)
                    return True
        except Exception:  # it is logged where the tool is dropped
            return True
        return False
