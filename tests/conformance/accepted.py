"""Differences that are as they should be, each with its reason. All others are mistakes of the gateway."""

from __future__ import annotations

from typing import NamedTuple


class Accepted(NamedTuple):
    """A check that is worse through the gateway, on some routes of one revision."""

    revision: str
    scenario: str
    check: str
    """Its name; empty for all checks of the scenario."""
    routes: tuple[str, ...]
    reason: str


_BOTH = ("stdio", "http")
ACCEPTED: tuple[Accepted, ...] = (
    Accepted(
        "2025-11-25",
        "server-sse-multiple-streams",
        "ServerSSEStreamsFunctional",
        _BOTH,
        "the SDK makes a stream of every answer, PML only of those that something goes before. That is the server's "
        "choice, and the scenario notes that there are no streams to look at.",
    ),
    Accepted(
        "2025-11-25",
        "server-sse-polling",
        "ServerDisconnectResume",
        _BOTH,
        "the server closes the stream between itself and PML, which PML deals with; it has no reason to close the one "
        "between itself and the client. The scenario notes that the answer came on the first stream.",
    ),
)
