"""Values for simulated answers, derived from the arguments of the call: the same call gives the same values."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS_OF_YEAR = 365 * 24 * 3600
LONGEST_NAME = 200
"""Longest name whose spellings are compared [characters]."""


def normal(name: str) -> str:
    """``userId``, ``user_id`` and ``user-id`` are one name; one that is longer than anybody writes stays as it is."""
    if len(name) > LONGEST_NAME:
        return name
    return "".join(char for char in name.lower() if char.isalnum())


class ArgumentEcho:
    """The arguments of a call, and values that follow from them: equal calls give equal values, others give others."""

    def __init__(self, seed: bytes, arguments: Mapping[str, Any]) -> None:
        """``seed`` is made of tool and arguments."""
        self._seed = seed
        self._arguments = {normal(name): value for name, value in arguments.items()}

    def argument(self, name: str) -> tuple[Any, ...]:
        """The argument of that name, in any spelling; empty when there is none."""
        found = normal(name)
        return (self._arguments[found],) if found in self._arguments else ()

    def number(self, path: Sequence[str]) -> int:
        """A number for one place in the answer, 0 to 2**64 - 1."""
        text = "\0".join(path).encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(self._seed + text, digest_size=8).digest())

    def one_of(self, path: Sequence[str], values: Sequence[Any]) -> list[Any]:
        """``values`` in an order of this place's own."""
        at = self.number(path) % len(values) if values else 0
        return [*values[at:], *values[:at]]

    def integer(self, path: Sequence[str]) -> int:
        """One that its name may stand for."""
        kind, number = normal(_name(path)), self.number(path)
        if kind.endswith(("id", "number")):
            return 1000 + number % 9000
        if kind.endswith("year"):
            return 2026
        if kind.endswith(("timestamp", "ms")):
            return int((FIRST_DAY.timestamp() + number % SECONDS_OF_YEAR) * 1000)
        return 1 + number % 20

    def text(self, path: Sequence[str], format: str) -> str:
        """One in ``format``, or one that its name may stand for; says that it is simulated where it can."""
        name, number = _name(path), self.number(path)
        plain = normal(name)
        make = _BY_FORMAT.get(format) or next((m for end, m in _BY_NAME if plain.endswith(end)), None)
        if make is not None:
            return make(number)
        return f"Simulated {name.replace('_', ' ')} {number % 10_000}" if name else "simulated"


def _name(path: Sequence[str]) -> str:
    """The member that a place is, or the array is that it is in; ``""`` for the whole."""
    return next((name for name in reversed(path) if not name.isdigit()), "")


def _moment(number: int) -> str:
    return (FIRST_DAY + timedelta(seconds=number % SECONDS_OF_YEAR)).isoformat().replace("+00:00", "Z")


def _short(number: int) -> str:
    return f"{number & 0xFFFFFF:06x}"


_BY_FORMAT: Mapping[str, Callable[[int], str]] = {
    "date": lambda number: _moment(number)[:10],
    "date-time": _moment,
    "email": lambda number: f"simulated-{_short(number)}@example.com",
    "hostname": lambda number: f"simulated-{_short(number)}.example.com",
    "ipv4": lambda number: f"192.0.2.{1 + number % 254}",
    "ipv6": lambda number: f"2001:db8::{1 + number % 0xFFFE:x}",
    "time": lambda number: _moment(number)[11:],
    "uri": lambda number: f"https://example.com/simulated/{_short(number)}",
    "uuid": lambda number: str(uuid.UUID(int=number * 0x9E3779B97F4A7C15 % 2**128, version=4)),
}
"""Addresses and names are from the ranges kept for documentation (RFC 2606, 3849, 5737)."""
_BY_NAME: Sequence[tuple[tuple[str, ...], Callable[[int], str]]] = (
    (("email",), _BY_FORMAT["email"]),
    (("createdat", "updatedat", "timestamp", "datetime"), _moment),
    (("date", "day"), _BY_FORMAT["date"]),
    (("url", "uri", "href", "link"), _BY_FORMAT["uri"]),
    (("path", "file", "filename"), lambda number: f"/simulated/{_short(number)}.txt"),
    (("sha", "hash", "digest"), lambda number: hashlib.sha256(str(number).encode()).hexdigest()),
    (("id", "key", "token", "cursor"), lambda number: f"simulated-{_short(number)}"),
)


def echoed(value: Any, arguments: Mapping[str, Any]) -> list[str]:
    """JSON Pointers of members of an answer that repeat an argument of their name; not looked for inside arrays."""
    by_name = {normal(name): argument for name, argument in arguments.items()}
    found: list[str] = []

    def look(at: Any, pointer: str) -> None:
        for name, member in at.items() if isinstance(at, Mapping) else ():
            here = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            if normal(name) in by_name and member == by_name[normal(name)] and member is not None:
                found.append(here)
            else:
                look(member, here)

    look(value, "")
    return found
