"""Sums of how often and how long, by labels, in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter

NAME = "pml_task_duration_seconds"
HEAD = f"# HELP {NAME} Tasks that ended, and how long they took together.\n# TYPE {NAME} summary\n"
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
MOST, OTHER = 2000, "other"
"""So many sets of labels are told apart; tasks with any more of them are counted as ``other``."""


class Sums:
    """Grows with the number of different labels, up to a bound: clients can make up names of tools."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._total_ns: Counter[tuple[str, str, str]] = Counter()

    def add(self, task: str, tool: str, status: str, duration_ns: int) -> None:
        """Count one."""
        key = (task, tool, status)
        if key not in self._counts and len(self._counts) >= MOST:
            key = (OTHER, OTHER, status)
        self._counts[key] += 1
        self._total_ns[key] += duration_ns

    @property
    def count(self) -> int:
        """How many were added."""
        return self._counts.total()

    def text(self) -> str:
        """The file."""
        return HEAD + "".join(map(self._lines, sorted(self._counts)))

    def _lines(self, key: tuple[str, str, str]) -> str:
        pairs = zip(("task", "tool", "status"), key, strict=True)
        labels = ",".join(f'{name}="{value.translate(ESCAPES)}"' for name, value in pairs)
        return f"{NAME}_sum{{{labels}}} {self._total_ns[key] / 1e9}\n{NAME}_count{{{labels}}} {self._counts[key]}\n"
