"""What is kept of a session beside its folder, where code cannot reach it: ids, order, owner, tools. As JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .notebook import Cell, Notebook, Session

VERSION = 1


def to_json(session: Session) -> bytes:
    """The record of ``session``: all but what its files say."""
    notebook = session.notebook
    record = {
        "version": VERSION,
        "id": session.id,
        "owner": session.owner,
        "tools": session.tools,
        "created_at": session.created_at,
        "changed_at": session.changed_at,
        "language": notebook.language,
        "tsconfig": notebook.tsconfig,
        "cells": [_cell_to_plain(cell) for cell in notebook.cells],
    }
    return json.dumps(record, ensure_ascii=False, indent=1).encode()


def _cell_to_plain(cell: Cell) -> dict[str, Any]:
    about: dict[str, Any] = {"id": cell.id, "kind": cell.kind}
    if not cell.filename:
        return {**about, "text": cell.text}
    return {**about, "filename": cell.filename, "language": cell.language}


def from_json(data: bytes) -> Session:
    """The session of a record; the texts of its files are empty.

    Raises:
        ValueError: It is damaged, or from a later version.
    """
    try:
        record = json.loads(data)
        if record["version"] != VERSION:
            raise ValueError(f"it is of version {record['version']}, this plugin knows {VERSION}")
        notebook = Notebook(
            language=record["language"],
            cells=tuple(_cell_from_plain(cell) for cell in record["cells"]),
            tsconfig=record["tsconfig"],
        )
        return Session(
            id=record["id"],
            owner=record["owner"],
            notebook=notebook,
            tools=tuple(record["tools"]),
            created_at=record["created_at"],
            changed_at=record["changed_at"],
        )
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"it is damaged: {exc}") from exc


def _cell_from_plain(plain: Mapping[str, Any]) -> Cell:
    return Cell(
        id=plain["id"],
        kind=plain["kind"],
        text=plain.get("text", ""),
        filename=plain.get("filename", ""),
        language=plain.get("language"),
    )
