"""What is kept of a session beside its folder, where code cannot reach it: ids, order, owner, tools. As JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from .notebook import Cell, Notebook, Session

VERSION = 1


def to_json(session: Session) -> bytes:
    """The record of ``session``: all but what its files say."""
    about = asdict(session)
    notebook = about.pop("notebook")
    cells = [_without_file(cell) for cell in notebook["cells"]]
    return json.dumps({"version": VERSION, **about, **notebook, "cells": cells}, ensure_ascii=False, indent=1).encode()


def _without_file(cell: dict[str, Any]) -> dict[str, Any]:
    elsewhere = {"problem", "text" if cell["filename"] else ""}
    return {name: value for name, value in cell.items() if value and name not in elsewhere}


def from_json(data: bytes) -> Session:
    """The session of a record; the texts of its files are empty.

    Raises:
        ValueError: It is damaged, or from a later version.
    """
    try:
        record = json.loads(data)
        if (version := record.pop("version")) != VERSION:
            raise ValueError(f"it is of version {version}, this plugin knows {VERSION}")
        notebook = Notebook(
            cells=tuple(Cell(**{"text": "", **cell}) for cell in record.pop("cells")),
            language=record.pop("language"),
            tsconfig=record.pop("tsconfig"),
        )
        return Session(notebook=notebook, tools=tuple(record.pop("tools")), **record)
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"it is damaged: {exc}") from exc
