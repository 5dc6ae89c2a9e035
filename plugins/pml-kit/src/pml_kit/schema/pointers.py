"""Where references within a document lead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote


def target_of(root: Any, reference: str) -> Any:
    """What a reference within a document points at; None where there is nothing.

    Whatever stands before the ``#`` is taken for the document's own address, so that work is counted rather than
    missed. Anchors are not looked up.
    """
    _, _, pointer = reference.partition("#")
    at = root
    for step in pointer.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(at, Mapping):
            at = at.get(key)
        elif isinstance(at, list) and key.isascii() and key.isdigit() and len(key) < len("1000000"):
            at = at[int(key)] if int(key) < len(at) else None
        else:
            return None
    return at
