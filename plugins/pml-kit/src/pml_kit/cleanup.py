"""Finish what must be finished, cancelled or not."""

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from contextlib import AbstractContextManager


async def finish_despite_cancel(work: Coroutine[Any, Any, None], *, name: str) -> None:
    """Run ``work``, which must be bounded, to its end; a cancellation that comes meanwhile is raised afterwards.

    Raises:
        asyncio.CancelledError: The caller was cancelled meanwhile.
        Exception: Whatever ``work`` raises.
    """
    task = asyncio.get_running_loop().create_task(work, name=name)
    cancelled: asyncio.CancelledError | None = None
    with _shield():
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


def _shield() -> AbstractContextManager[object]:
    # anyio cancels again in every turn of the loop, so without its shield this would spin until the end. Where nobody
    # imported it, nobody cancels so; and a gateway that ends without a free descriptor could not import it any more.
    if "anyio" not in sys.modules:
        return nullcontext()
    from anyio import CancelScope

    return CancelScope(shield=True)
