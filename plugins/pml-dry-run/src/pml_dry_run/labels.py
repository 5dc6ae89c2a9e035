"""Labels: what is simulated says so itself, wherever it goes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pml_hookspecs import RawObject, encode

if TYPE_CHECKING:
    from pml_hookspecs import Task

META = "pml/simulated"
"""Member of a simulated result's ``_meta`` that says what it is."""
ESCAPED_META = re.compile(rb"\\u00(?:5[fF]|6[15dD]|74)").search
"""A letter of ``_meta`` that is written as an escape, as any may be in the name of a member."""
WOULD_DIFFER = "pml/would_differ"
"""Member of a result's ``_meta``: the simulated steps after which it might be another."""
Source: TypeAlias = Literal["recorded", "example", "schema", "inferred", "placeholder", "journal", "none"]
"""Where a simulated answer comes from, the most believable first; ``journal``: from what the rehearsal itself would
have changed; ``none``: there is no answer."""


def label(source: Source, task: Task, target: str, **more: Any) -> dict[str, Any]:
    """What a simulated answer says about itself.

    Args:
        source: Where it comes from.
        task: What it answers.
        target: What would have been called.
        **more: More to say; members that are None or empty are left out.
    """
    told = {"source": source, "mocked": source != "recorded", "tool": target, "task_id": task.id, "status": "completed"}
    return told | {name: value for name, value in more.items() if value not in (None, "", [], {})}


def labelled(result: Mapping[str, Any], meta: Mapping[str, Any]) -> RawObject:
    """``result`` with members added to its ``_meta``, all else byte by byte as it was.

    They come first, so that they are also in what is kept of an overlong result.
    """
    raw = RawObject.of(result).raw.strip()
    if b'"_meta"' not in raw and not ESCAPED_META(raw):
        rest = raw[1:].lstrip()
        return RawObject(b'{"_meta":' + encode(meta) + (b"" if rest[:1] == b"}" else b",") + rest)
    own = result.get("_meta")
    others = {name: member for name, member in result.items() if name != "_meta"}
    return RawObject.of({"_meta": {**(own if isinstance(own, Mapping) else {}), **meta}, **others})


def in_error(error: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON-RPC error with its label, which stands in ``data``: errors have no ``_meta``."""
    data = error.get("data")
    labelled_data = {**data, META: about} if isinstance(data, Mapping) else {META: about}
    if data is not None and not isinstance(data, Mapping):
        labelled_data["data"] = data
    return {"code": error["code"], "message": error["message"], "data": labelled_data}
