"""The plan that every engine runs: five tasks one after the other, each of which leaves two lines in a log."""

from __future__ import annotations

import os
import time

TASKS = 5


class Log:
    """Lines ``<monotonic ns> <pid> <plan> <task> b|e``, whole even where a process is killed."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def line(self, plan: str, task: int, what: str) -> None:
        """One line: ``b`` for a beginning, ``e`` for an end."""
        os.write(self._file, f"{time.monotonic_ns()} {os.getpid()} {plan} {task} {what}\n".encode())

    def task(self, plan: str, task: int, took_s: float) -> int:
        """One task."""
        self.line(plan, task, "b")
        time.sleep(took_s)
        self.line(plan, task, "e")
        return task
