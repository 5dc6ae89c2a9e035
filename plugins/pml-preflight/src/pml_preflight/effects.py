"""What steps would do, as far as their tools say: hints of servers, which nobody has checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pml_kit.mcp.effects import hints_of

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry

What: TypeAlias = Literal["reads", "adds", "destroys", "unknown", "nothing"]
"""``adds``: changes something, and destroys nothing. ``unknown`` counts as dangerous."""
WORDS: Mapping[What, str] = {
    "reads": "only reads",
    "adds": "changes something, destroys nothing",
    "destroys": "may destroy",
    "unknown": "effects unknown, taken for dangerous",
    "nothing": "no effects",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What one step would do, by the hints of its tools."""

    what: What
    idempotent: bool | None = None
    """Whether doing it twice is doing it once; None when nobody says."""
    open_world: bool | None = None
    """Whether it reaches beyond its server's own data; None when nobody says."""

    @property
    def dangerous(self) -> bool:
        """Whether it may do what cannot be undone."""
        return self.what in ("destroys", "unknown")

    @property
    def any(self) -> bool:
        """Whether it has effects at all."""
        return self.what not in ("reads", "nothing")


UNKNOWN = Effects(what="unknown")
NOTHING = Effects(what="nothing", idempotent=True, open_world=False)


def of_tool(entry: CatalogEntry | None) -> Effects:
    """By the tool's annotations (MCP, ``ToolAnnotations``)."""
    hints = {} if entry is None else hints_of(entry.definition)
    open_world = _said(hints, "openWorldHint")
    if hints.get("readOnlyHint") is True:
        return Effects(what="reads", idempotent=True, open_world=open_world)
    destroys = _said(hints, "destructiveHint")
    what: What = "unknown" if destroys is None else "destroys" if destroys else "adds"
    return Effects(what=what, idempotent=_said(hints, "idempotentHint"), open_world=open_world)


def worst(several: list[Effects]) -> Effects:
    """The effects of a step that has all of these."""
    if not several:
        return NOTHING
    order: list[What] = ["unknown", "destroys", "adds", "reads", "nothing"]
    return Effects(
        what=min((one.what for one in several), key=order.index),
        idempotent=_all([one.idempotent for one in several]),
        open_world=_any([one.open_world for one in several]),
    )


def _said(hints: Mapping[str, Any], name: str) -> bool | None:
    said = hints.get(name)
    return said if isinstance(said, bool) else None


def _all(said: list[bool | None]) -> bool | None:
    return False if False in said else None if None in said else True


def _any(said: list[bool | None]) -> bool | None:
    return True if True in said else None if None in said else False
