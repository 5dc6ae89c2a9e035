"""Lets processes in a jail give way to everybody else who wants a processor. No wall: nothing fails without it."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

NICE = 5
"""By how much nicer than whoever starts it: a third of what an ordinary process gets where both want a processor."""
AGAIN_S = 0.11
"""The kernel lets others than root set one group in a tenth of a second [s]."""


def give_way() -> None:
    """For this very process, and all that it starts. Linux.

    It also ousts nobody from a processor by waking up. No jailed process can take that back: the calls for it are
    refused.
    """
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with suppress(OSError):
        os.nice(NICE)


def group_gives_way(process: int | str) -> bool:
    """For the session that ``process`` leads, where the kernel shares processors out among sessions first.

    There, niceness counts between processes of one session only, and a session has a niceness of its own.

    Args:
        process: Its id, or ``self``.

    Returns:
        False when it has to be tried again, :data:`AGAIN_S` later.
    """
    try:
        group = os.open(f"/proc/{process}/autogroup", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        os.write(group, b"%d" % NICE)
    except OSError as exc:
        return exc.errno != errno.EAGAIN
    finally:
        os.close(group)
    return True
