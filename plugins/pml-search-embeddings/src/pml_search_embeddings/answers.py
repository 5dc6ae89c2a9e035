"""Read what an endpoint answers, which may be anything."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from .errors import RefusedError

LONGEST_QUOTE = 200


def vectors(content: bytes, count: int, size: int | None, url: str) -> list[array[float]]:
    """The vectors of an answer, of unit length, in the order of the texts.

    Args:
        content: Body of the answer.
        count: How many texts were sent.
        size: How many numbers each vector had until now; None when there was none yet.
        url: Whose answer it is, for messages.

    Raises:
        RefusedError: It is not that many vectors of one size.
    """
    try:
        data = json.loads(content)["data"]
        found = {row["index"]: _unit(row["embedding"]) for row in data}
    except (ValueError, TypeError, KeyError, OverflowError) as exc:
        raise RefusedError(f"{url} answers something else than vectors ({type(exc).__name__}: {exc})") from None
    if len(data) != count or sorted(found) != list(range(count)):
        raise RefusedError(f"{url} answers {len(data)} vectors for {count} texts; lower batch, or check the service")
    sizes = {len(vector) for vector in found.values()} | ({size} if size is not None else set())
    if len(sizes) != 1 or 0 in sizes:
        told = ", ".join(str(one) for one in sorted(sizes))
        raise RefusedError(f"{url} answers vectors of different sizes ({told}); does it serve several models?")
    return [found[number] for number in range(count)]


def _unit(numbers: Any) -> array[float]:
    if not isinstance(numbers, list):
        raise TypeError("an embedding is not a list of numbers")
    length = math.sqrt(math.fsum(number * number for number in numbers))
    if not math.isfinite(length):
        raise ValueError("a number is not finite")
    return array("f", (number / (length or 1.0) for number in numbers))


def retry_after_s(value: str | None) -> float | None:
    """How long to wait [s], from a ``Retry-After`` header: seconds or a date; None when it says nothing."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
        except ValueError:
            return None
        until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
        seconds = (until - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


def said_by(text: str, secrets: Sequence[str]) -> str:
    """The message in the body of a refusal, in one line, short, and without the secrets."""
    try:
        said = json.loads(text)
        error = said.get("error", said)
        text = error.get("message", text) if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError):
        pass
    for secret in secrets:
        text = text.replace(secret, "********") if secret else text
    line = " ".join("".join(char if char.isprintable() else " " for char in str(text)).split())
    return line if len(line) <= LONGEST_QUOTE else f"{line[:LONGEST_QUOTE]}…"
