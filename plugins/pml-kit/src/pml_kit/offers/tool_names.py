"""Names of tools that stand somewhere, each of which should fit one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pml_hookspecs import Key


@dataclass(frozen=True, slots=True)
class NamedTools:
    """Tools that somebody names in a configuration or in the store, each of which should be there."""

    where: str
    """Such as ``plugins.hybrid.whitelisted_tools``."""
    names: Sequence[str]
    """Names as clients or the catalog have them, or patterns of :mod:`fnmatch` over them."""
    ids_only: bool = False
    """Whether only ``server:tool`` counts here, and not ``server__tool`` or the tool's own name."""

    def __post_init__(self) -> None:
        """See that there are several names.

        Raises:
            ValueError: They are one text.
        """
        if isinstance(self.names, str):
            raise ValueError(f"the names of {self.where} are one text; make them a list")  # noqa: TRY004


class ToolNames(Protocol):
    """Says which tools are named by what a plugin keeps: a name that fits nothing is told to the operator."""

    async def __call__(self) -> Sequence[NamedTools]:
        """The names as of now.

        Asked when the gateway has started, by ``pml config check`` and by ``pml plugins doctor``; the latter two start
        no servers and no lifespans. Names of servers whose tools are not known are not judged. Raising is noted, and
        the names of this plugin are not judged.
        """
        ...


TOOL_NAMES: Key[ToolNames] = Key("tool_names", ToolNames, several="all")


def is_said(line: str, others: Iterable[str]) -> bool:
    """Whether something else was said already of the name that a line about a name that fits nothing is about."""
    about = line.partition("' ")[0] + "'"
    return any(other.startswith(about) for other in others)
