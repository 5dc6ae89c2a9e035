"""What the fixture ``frozen_clock`` gives: time that stands still until the test moves it on."""

from __future__ import annotations

import copyreg
import datetime as dt
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from types import ModuleType
from typing import Any

from .fakes import EPOCH

REAL = datetime


class FrozenClock:
    """What time it is, for everything that asks ``datetime.now()`` or ``time.time()``.

    The event loop's clock goes on, or nothing that waits would ever end; :meth:`advance` moves it as well, so that
    timers which have become due fire.
    """

    def __init__(self) -> None:
        self.now = EPOCH
        """UTC."""
        self.ahead_s = 0.0
        """How far the event loop's clock has been moved [s]."""

    def advance(self, seconds: float = 0.0, **more: float) -> datetime:
        """Let time go by; ``more`` are what :class:`datetime.timedelta` takes, such as ``days``. What time it is then.

        Raises:
            ValueError: It would go backwards; see :meth:`move_to`.
        """
        by = timedelta(seconds=seconds, **more)
        if by < timedelta(0):
            raise ValueError(f"time cannot go back by {-by}; move_to sets the clock to any time")
        self.now += by
        self.ahead_s += by.total_seconds()
        return self.now

    def move_to(self, when: datetime) -> None:
        """Set the clock, forwards or backwards, as an administrator does: no timer fires.

        Raises:
            ValueError: ``when`` says no time zone.
        """
        if when.tzinfo is None:
            raise ValueError("when must say its time zone, such as datetime(2026, 1, 1, tzinfo=UTC)")
        self.now = when.astimezone(UTC)


def _frozen_type(clock: FrozenClock) -> type[datetime]:
    """A stand-in for the class ``datetime``: makes real ones, and takes them for its own."""

    class Type(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, REAL)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, REAL)

    class Frozen(datetime, metaclass=Type):
        def __new__(cls, *args: Any, **named: Any) -> Any:
            return REAL(*args, **named)

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            here = clock.now.astimezone(tz)
            return here if tz is not None else here.replace(tzinfo=None)

        @classmethod
        def utcnow(cls) -> Any:
            return clock.now.replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return cls.now()

    return Frozen


def _made(*state: Any) -> datetime:
    return REAL(*state)


def _reduced(value: datetime) -> tuple[Any, ...]:
    """How a time is pickled while its class goes under a name that is taken."""
    return _made, value.__reduce__()[1]


def _put(old: type, new: type, modules: list[ModuleType]) -> None:
    """Have every module that refers to ``old`` refer to ``new``."""
    for module in modules:
        for name, value in list(vars(module).items()):
            if value is old:
                setattr(module, name, new)


def _concerned(extra: tuple[ModuleType, ...]) -> list[ModuleType]:
    """Modules of the gateway, of plugins, and those given."""
    from pml_core.plugins.registry import discover

    ours = {record.target.partition(":")[0].partition(".")[0] for record in discover()}
    ours |= {"pml_core", "pml_hookspecs", "pml_testing"}
    found = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] in ours and module]
    return [module for module in (*found, *extra) if module.__name__ != __name__]


@contextmanager
def frozen(*modules: ModuleType) -> Iterator[FrozenClock]:
    """Time stands still inside, for the gateway, installed plugins, ``modules``, and what is imported meanwhile."""
    clock = FrozenClock()
    stand_in = _frozen_type(clock)
    real = {name: getattr(time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns")}
    _put(REAL, stand_in, [dt, *_concerned(modules)])
    time.time = lambda: clock.now.timestamp()  # noqa: PLW0108 - the time is asked for at each call
    time.time_ns = lambda: int(clock.now.timestamp() * 1_000_000) * 1000
    # The event loop asks it at each turn.
    time.monotonic = lambda: float(real["monotonic"]()) + clock.ahead_s
    time.monotonic_ns = lambda: int(real["monotonic_ns"]()) + int(clock.ahead_s * 1e9)
    copyreg.pickle(REAL, _reduced)
    try:
        yield clock
    finally:
        copyreg.dispatch_table.pop(REAL)
        for name, function in real.items():
            setattr(time, name, function)
        _put(stand_in, REAL, [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)])
