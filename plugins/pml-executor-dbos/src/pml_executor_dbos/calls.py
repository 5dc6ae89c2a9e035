"""Calls that code makes, of which each has to find on the next pass what came of it on this one."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pml_hookspecs import Task, ToolCall, Workflow, encode

if TYPE_CHECKING:
    from .steps import TaskRow

NUMBER = "#"
MOST_CALLS = 1_000_000
"""No code makes more."""


def digest_of(task: ToolCall) -> str:
    """Changes with what is called and with what arguments, in whatever order these come."""
    arguments = json.dumps(json.loads(encode(task.arguments)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{task.tool}\n{arguments}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def around(path: str) -> Iterator[str]:
    """Paths of everything that the task at ``path`` is part of."""
    end = path.find("/")
    while end >= 0:
        yield path[:end]
        end = path.find("/", end + 1)


class CallMatcher:
    """Matches each call of code with the row that it had on an earlier pass.

    Calls that code makes side by side come in another order once results are there at once, so they are known by what
    they call and with what, and by number only among equals.
    """

    def __init__(self, rows: Iterable[TaskRow]) -> None:
        """``rows`` of the run so far."""
        self._digests = {row.path: row.digest for row in rows if row.digest}
        self._known: dict[tuple[str, str], deque[str]] = defaultdict(deque)
        for path in sorted(self._digests, key=_order):
            self._known[_base(path), self._digests[path]].append(path)
        self._code: set[str] = set()
        self._found: set[str] = set()

    def code_of(self, path: str) -> str | None:
        """Path of the code, or whatever else is no workflow, that the task at ``path`` is part of; None without."""
        return next((above for above in around(path) if above in self._code), None)

    def find(self, path: str, task: Task) -> tuple[str | None, str]:
        """Under which path and with which digest ``task`` is kept that was asked for at ``path``.

        Returns:
            None for the path when another call was made there. No digest for what is no call of code.
        """
        called = isinstance(task, ToolCall) and self.code_of(path) is not None
        if not isinstance(task, Workflow):
            self._code.add(path)
        if not called or not isinstance(task, ToolCall):
            return path, ""
        digest = digest_of(task)
        if before := self._known.get((_base(path), digest)):
            self._found.add(before[0])
            return before.popleft(), digest
        if self._digests.get(path, digest) == digest:
            return path, digest
        return (self._free(path) if path in self._found and _base(path) != path else None), digest

    def _free(self, path: str) -> str:
        """A place for a call that comes where another was, which has come already under another number."""
        base, _, number = path.rpartition(NUMBER)
        free = int(number) + MOST_CALLS
        while f"{base}{NUMBER}{free}" in self._digests:
            free += MOST_CALLS
        return f"{base}{NUMBER}{free}"


def _base(path: str) -> str:
    base, _, number = path.rpartition(NUMBER)
    return base if number.isdecimal() else path


def _order(path: str) -> tuple[int, str]:
    number = path.rpartition(NUMBER)[2]
    return (int(number) if number.isdecimal() else 0, path)
