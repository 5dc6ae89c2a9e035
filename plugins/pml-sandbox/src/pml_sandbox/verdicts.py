"""What sandboxes find in code that they do not run, in the same words for every sandbox."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pml_hookspecs import Failure, Json
from pml_kit.offers import Verdict

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, CodeRun, Session

SYNTAX, TYPE, UNDEFINED, UNSUPPORTED = "code.syntax", "code.type", "code.undefined", "code.unsupported"
LONGEST = 200_000
"""Longer code is not looked at [characters]."""
MOST = 20
"""Things wrong with one piece of code that are told."""
TOO_LONG = f"Code of more than {LONGEST} characters is not looked at."
Checked: TypeAlias = Literal["nothing", "syntax", "types"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing that is wrong with code."""

    code: str
    message: str
    line: int | None = None
    """From 1, as the author of the code counts."""
    column: int | None = None
    """From 1."""
    certain: bool = True
    """Whether the code fails by it, if it comes so far."""

    def failure(self) -> Failure:
        """The mistake as a failure."""
        places: dict[str, Json] = {"line": self.line, "column": self.column}
        return Failure(self.code, self.message, details={name: at for name, at in places.items() if at is not None})


def verdict(checked: Checked, mistakes: Iterable[Mistake] = (), unchecked: str = "") -> Verdict:
    """What was found, in the order of the source."""
    ordered = sorted(mistakes, key=lambda one: (one.line or 0, one.column or 0))
    return Verdict(
        checked=checked,
        problems=[one.failure() for one in ordered if one.certain][:MOST],
        doubts=[one.failure() for one in ordered if not one.certain][:MOST],
        unchecked=unchecked,
    )


def late(checked: Checked, what: str, within_s: float, mistakes: Iterable[Mistake] = ()) -> Verdict:
    """A verdict that says that there was no time for ``what``."""
    return verdict(checked, mistakes, f"{what} not checked within {within_s:g} s.")


def named_tools(task: CodeRun, catalog: Catalog, session: Session) -> Sequence[CatalogEntry]:
    """Tools of the servers that code names, as far as ``session`` may know of them."""
    from .calls import identifier

    return [
        entry
        for entry in catalog
        if not entry.own
        and (entry.server in task.source or identifier(entry.server) in task.source)
        and catalog.allows(entry, session)
    ]
