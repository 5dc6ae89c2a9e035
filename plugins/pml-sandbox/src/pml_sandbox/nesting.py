"""How deep code is that other code waits for, in whatever sandboxes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MOST_NESTED = 3
"""Code within code within code; each waits for the one inside and keeps a process meanwhile."""
_depth: ContextVar[int] = ContextVar("pml_sandbox_depth", default=0)


def depth() -> int:
    """How many pieces of code wait for the one that is to run here; 0 for none."""
    return _depth.get()


@contextmanager
def deeper() -> Iterator[None]:
    """What is dispatched inside is one deeper."""
    token = _depth.set(_depth.get() + 1)
    try:
        yield
    finally:
        _depth.reset(token)
