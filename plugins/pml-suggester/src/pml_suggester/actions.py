"""What a tool does that changes something, by its name, and whether an intent asks for that very act."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
ACTS = frozenset(
    word
    for line in (
        "add append apply archive assign branch cancel change checkout clear click clone close commit copy create",
        "delete deploy drop edit empty erase execute fill import insert install kill label lock make mark merge modify",
        "move overwrite patch pay post publish purge push put rebase remove rename replace reply reset restore revert",
        "run save send set share stage start stash stop store submit sync tag transfer trash unassign undo uninstall",
        "unlabel unlock unset update upload upsert wipe write",
    )
    for word in line.split()
)
"""Verbs in names of tools that change something."""
SAME = (
    frozenset({"add", "append", "insert"}),
    frozenset({"change", "edit", "modify", "update"}),
    frozenset({"create", "generate", "make"}),
    frozenset({"delete", "erase", "remove"}),
    frozenset({"label", "mark", "tag"}),
    frozenset({"mail", "send"}),
    frozenset({"move", "rename"}),
    frozenset({"execute", "run"}),
    frozenset({"save", "store", "write"}),
)
"""Verbs that name the same act."""


def changes(entry: CatalogEntry) -> str:
    """The act by which the tool changes something, the first word of its name that is one; ``""`` for one that reads.

    A tool that says that it only reads is believed. One that says that it destroys has an act, whatever its name.
    """
    hints = entry.definition.get("annotations")
    said: Mapping[str, object] = hints if isinstance(hints, Mapping) else {}
    if said.get("readOnlyHint") is True:
        return ""
    words = [word.lower() for word in WORD.findall(entry.name)]
    act = next((word for word in words if word in ACTS), "")
    return act or (words[0] if words and said.get("destructiveHint") is True else "")


def is_asked_for(entry: CatalogEntry, text: str) -> bool:
    """Whether ``text`` names the act of a tool that changes something; true of tools that read."""
    act = changes(entry)
    if not act:
        return True
    names = next((same for same in SAME if act in same), frozenset({act}))
    return any(word.lower().startswith(name) for word in WORD.findall(text) for name in names)
