"""Documents as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pml_hookspecs import Document, RawObject, encode

LONGEST_KEY, MOST_MARKS, LARGEST_PAGE = 512, 8, 1000
TIMES = ("created_at", "changed_at", "expires_at")


def lives(document: Document) -> bool:
    """Whether it has not expired."""
    return document.expires_at is None or document.expires_at > datetime.now(UTC)


def to_plain(
    collection: str,
    key: str,
    value: Mapping[str, Any],
    before: Document | None,
    *,
    changed_at: datetime,
    marks: Mapping[str, str] | None = None,
    expires_at: datetime | None = None,
) -> dict[str, Any]:
    """What takes the place of ``before``, as JSON.

    Raises:
        ValueError: It cannot be kept.
    """
    if len(key) > LONGEST_KEY or len(marks or {}) > MOST_MARKS:
        raise ValueError(f"a key has at most {LONGEST_KEY} characters, a document at most {MOST_MARKS} marks")
    if expires_at is not None and expires_at.tzinfo is None:
        raise ValueError("expires_at has no time zone; give a UTC time")
    times = (before.created_at if before else changed_at, changed_at, expires_at)
    told: dict[str, Any] = {"collection": collection, "key": key, "value": value, "marks": marks or {}}
    told["version"] = before.version + 1 if before else 1
    return told | {name: at and at.isoformat() for name, at in zip(TIMES, times, strict=True)}


def from_plain(value: dict[str, Any]) -> tuple[str, Document]:
    """The collection and the document of which :func:`to_plain` made ``value``."""
    times: dict[str, Any] = {name: at and datetime.fromisoformat(at) for name in TIMES for at in [value.pop(name)]}
    collection, value["value"] = value.pop("collection"), RawObject(encode(value["value"]))
    return collection, Document(**value, **times)
