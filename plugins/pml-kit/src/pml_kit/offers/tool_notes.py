"""What calls of a tool have shown of it, beside what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pml_hookspecs import Key

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Services, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolNote:
    """What somebody's own calls of a tool have shown: observed, and promised by nobody.

    Has no value of any result, and of arguments only what tells nothing of anybody; names of members are plain words of
    bounded length, since models read them.
    """

    returns: str = ""
    """What results are made of, as a type of TypeScript: ``{items: {id: number, name?: string}[]}``. ``""`` where
    the tool declares it, or nobody knows."""
    result: Mapping[str, Any] | None = None
    """The same as a JSON Schema, with more of it. What it does not name may be there."""
    arguments: Mapping[str, Any] | None = None
    """Of a call that worked, with ``<...>`` in place of values that are somebody's: ``{"path": "<absolute path>"}``."""
    advice: str = ""
    """What mended a frequent mistake, such as ``"failed 3 times until: 'path', not 'file'"``."""
    before: str = ""
    """Of that mistake, the name of the parameter that calls had which failed; ``""`` where it is none."""
    after: str = ""
    """The name of the one that calls had which worked; ``""`` where it is none."""

    def members(self, *, example: bool = True) -> dict[str, Any]:
        """What is shown of it, as JSON; with ``example``, the arguments as well. Empty when there is nothing."""
        shown = {"advice": self.advice, "returns": self.returns, "arguments": self.arguments if example else None}
        return {name: member for name, member in shown.items() if member}

    def is_mistake(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments is like those that failed, by the names of its parameters."""
        if not self.advice:
            return False
        return self.before in arguments if self.before else bool(self.after) and self.after not in arguments


class ToolNotes(Protocol):
    """Knows what calls have shown of tools."""

    def of(self, entry: CatalogEntry, session: Session) -> ToolNote | None:
        """What calls of a tool, as it is defined now, have shown to whoever has ``session``.

        Answers at once, of what is in memory. None where nothing is known, and of tools that the session may not have.
        """
        ...


TOOL_NOTES: Key[ToolNotes] = Key("tool_notes", ToolNotes)


def note_of(services: Services, entry: CatalogEntry, session: Session) -> ToolNote | None:
    """As :meth:`ToolNotes.of` of whoever offers it; None where nobody does, or it fails, which is logged."""
    if (notes := services.find(TOOL_NOTES)) is None:
        return None
    try:
        return notes.of(entry, session)
    except Exception as exc:  # a tool is shown, and a plan examined, without a note
        services.log.warning("what calls of a tool have shown is not known", tool=entry.id, error=str(exc))
        return None
