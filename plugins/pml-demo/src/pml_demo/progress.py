"""What the demo is doing, while it does it: on standard error, so that standard output holds the result only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


class Steps:
    """Shows each step with the time it takes: live on a terminal, elsewhere as a line when it begins and ends."""

    def __init__(self, console: Console, *, live: bool) -> None:
        """``live`` redraws the steps in place and removes them at the end."""
        self._console, self._live = console, live
        self._progress: Progress | None = None
        self.took_s: dict[str, float] = {}
        """Seconds each step took, by its text, in the order they ended."""

    def __enter__(self) -> Self:
        if self._live:
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn())
            self._progress = Progress(*columns, console=self._console, transient=True)
            self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Time and show what the block does; several may run at once."""
        began = time.monotonic()
        shown = None if self._progress is None else self._progress.add_task(text, total=1)
        if self._progress is None:
            self._say(f"{text} …")
        try:
            yield
        except BaseException:
            self._ended(shown, f"{text}: stopped")
            raise
        self.took_s[text] = round(time.monotonic() - began, 2)
        self._ended(shown, f"{text}: {self.took_s[text]:.1f} s", done=1)

    def _ended(self, shown: TaskID | None, line: str, *, done: int = 0) -> None:
        if self._progress is None or shown is None:
            self._say(line)
        elif done:
            self._progress.advance(shown, done)
        else:
            self._progress.update(shown, description=line)
            self._progress.stop_task(shown)

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
