"""How much one server may send to clients of its own accord: questions, notifications, and their sizes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from pml_hookspecs import RawObject, RpcError
from pml_kit.mcp.protocol import PROGRESS
from pml_mcp.wire.client import Client

TOO_MUCH = -31998
"""JSON-RPC code of our own, as :data:`pml_mcp.wire.client.NO_CLIENT`: a server asks clients more than it may."""
NOTIFICATION_BYTES, QUESTION_BYTES = 2**20, 2**24
"""Largest params of a notification, and of a question, which may carry pictures for a model."""
OPEN_QUESTIONS = 32
"""Most questions of one server that wait for one client's answers."""
QUESTIONS, QUESTIONS_PER_S = 200, 5.0
"""Questions of one server to one client: how many at once, and how many for good."""
NOTIFICATIONS, NOTIFICATIONS_PER_S = 1000, 200.0
"""Notifications over one connection to a server, for each client that it works for: at once, and for good."""
UNIT_BYTES = 2**14
"""A notification counts as one more for every so many bytes."""
SAID_EVERY_S = 60.0
"""The log tells of it again after this long."""


class Bucket:
    """A token bucket."""

    __slots__ = ("_left", "_size", "_updated_s")

    def __init__(self, size: float) -> None:
        self._size = self._left = size
        self._updated_s = time.monotonic()

    def take(self, cost: float, per_s: float) -> bool:
        """Whether ``cost`` is there; it is taken out then. Filled again at ``per_s`` a second."""
        now_s = time.monotonic()
        self._left = min(self._size, self._left + (now_s - self._updated_s) * per_s)
        self._updated_s = now_s
        if self._left < cost:
            return False
        self._left -= cost
        return True


class Quota:
    """The bounds of one server; what is above them reaches no client, and is counted."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.refused = 0
        """Questions refused and notifications dropped since the gateway started."""
        self._open: dict[object, int] = {}
        self._questions: WeakKeyDictionary[object, Bucket] = WeakKeyDictionary()
        self._notifications: WeakKeyDictionary[object, Bucket] = WeakKeyDictionary()
        self._silent_until_s = 0.0

    @contextmanager
    def question(self, client: Client, method: str, params: RawObject) -> Iterator[None]:
        """While the block runs, a question waits for the client's answer.

        Raises:
            RpcError: It is too long, too many wait already, or too many came in too short a time.
        """
        person, size_bytes = client.conversation, len(params.raw)
        waiting = self._open.get(person, 0)
        if size_bytes > QUESTION_BYTES:
            self._refuse(method, f"its params have {size_bytes} bytes, more than {QUESTION_BYTES}")
        if waiting >= OPEN_QUESTIONS:
            self._refuse(method, f"{waiting} questions of this server wait for the client's answers")
        if not _bucket(self._questions, person, QUESTIONS).take(1, QUESTIONS_PER_S):
            self._refuse(method, f"this server has asked the client more than {QUESTIONS_PER_S:g} times a second")
        self._open[person] = waiting + 1
        try:
            yield
        finally:
            self._open[person] -= 1
            if not self._open[person]:
                del self._open[person]

    def allows(self, connection: object, clients: int, method: str, params: RawObject) -> bool:
        """Whether a notification may go on to clients.

        Args:
            connection: Over which it came.
            clients: How many the server works for right now.
        """
        size_bytes = len(params.raw)
        if size_bytes > NOTIFICATION_BYTES:
            self._count(method, f"its params have {size_bytes} bytes, more than {NOTIFICATION_BYTES}")
            return False
        if method == PROGRESS:  # the client asked for it, and gets what is newest when it is slow
            return True
        bucket = _bucket(self._notifications, connection, NOTIFICATIONS)
        if bucket.take(1 + size_bytes // UNIT_BYTES, NOTIFICATIONS_PER_S * max(1, clients)):
            return True
        self._count(method, f"more than {NOTIFICATIONS_PER_S:g} a second came for each client")
        return False

    def _refuse(self, method: str, why: str) -> NoReturn:
        self._count(method, why)
        raise RpcError(TOO_MUCH, f"The gateway does not hand on {method}: {why}.")

    def _count(self, method: str, why: str) -> None:
        self.refused += 1
        if time.monotonic() >= self._silent_until_s:
            self._silent_until_s = time.monotonic() + SAID_EVERY_S
            self._log.warning("a server sends clients too much", method=method, reason=why, refused=self.refused)


def _bucket(buckets: WeakKeyDictionary[object, Bucket], key: object, size: int) -> Bucket:
    bucket = buckets.get(key)
    if bucket is None:
        bucket = buckets[key] = Bucket(size)
    return bucket
