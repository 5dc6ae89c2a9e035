"""The writer pauses while somebody reads: a client waits for an answer, nobody for what is recorded."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class WriterBackoff:
    """Lets the one thread that writes pause while readers say that they read.

    Both need the processor and the interpreter, and a batch takes many times as long as most answers. So the writer
    waits amid a batch, wherever that can be left for a while, until nobody reads. It is patient for a short time only:
    what is recorded may not stay in memory for long.
    """

    def __init__(self) -> None:
        """Nobody reads, and the writer has no patience."""
        self._reading = 0
        self._free = threading.Event()
        self._left_s = 0.0
        self.waited_s = 0.0
        """How long the writer waited amid the last batch."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """The event loop waits for an answer meanwhile."""
        self._reading += 1
        self._free.clear()
        try:
            yield
        finally:
            self._reading -= 1
            if not self._reading:
                self._free.set()

    def hurry(self) -> None:
        """Somebody waits for the batch: a task that it should be durable, or another process that it should be over."""
        self._left_s = 0.0
        self._free.set()

    def begin(self, patience_s: float) -> None:
        """A batch, in which the writer waits for no longer than this in all [s]."""
        self._left_s, self.waited_s = patience_s, 0.0

    def give_way(self) -> None:
        """Wait while somebody reads. Called by the writer, which holds nothing that a reader needs."""
        if self._reading and self._left_s > 0.0:
            began = time.monotonic()
            self._free.wait(self._left_s)
            waited_s = time.monotonic() - began
            self._left_s -= waited_s
            self.waited_s += waited_s
