"""Lines of ``pml plugins doctor``."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pml_hookspecs import Check

from .embedder_choice import problem_of, runtime_of
from .errors import EmbeddingError
from .folder import Folder

if TYPE_CHECKING:
    from .settings import Settings

PROBE_S = 5.0
TITLE = "embedder"


def checks(settings: Settings) -> Iterator[Check]:
    """What is configured; an endpoint is asked for one vector, a local model is not loaded."""
    if (problem := problem_of(settings)) is not None:
        yield Check(TITLE, ok=False, detail=problem[0], remedy=problem[1])
    elif settings.url:
        yield from _endpoint(settings)
    elif settings.folder:
        folder = Folder(Path(settings.folder).expanduser())
        about = f"{runtime_of(settings)}, {folder.path} ({folder.size_bytes() / 1e6:.1f} MB), loaded when first used"
        yield Check(TITLE, ok=True, detail=about)
    else:
        detail = "none configured, the search does without; folder or url in [plugins.embeddings] sets one, and "
        yield Check(TITLE, ok=True, detail=f"{detail}pml eval --compare-embedder tells what it adds")


def _endpoint(settings: Settings) -> Iterator[Check]:
    parts = urlsplit(settings.url)
    secret = bool(settings.api_key or settings.headers)
    if parts.scheme == "http" and secret and not _is_here(parts.hostname or ""):
        detail = f"the key goes to {parts.netloc} unencrypted"
        yield Check("encryption", ok=False, detail=detail, remedy="Use https.")
    once = replace(settings, timeout_s=PROBE_S, query_timeout_s=PROBE_S, attempts=1)
    began = time.perf_counter()
    try:
        size = _in_a_thread(_asked(once))
    except EmbeddingError as exc:
        remedy = "Start the service, or correct [plugins.embeddings]; until then the search does without."
        yield Check(TITLE, ok=False, detail=str(exc), remedy=remedy)
        return
    took_ms = 1000 * (time.perf_counter() - began)
    yield Check(TITLE, ok=True, detail=f"{settings.model} at {parts.netloc}: {size} numbers a text, {took_ms:.0f} ms")


async def _asked(settings: Settings) -> int:
    """How many numbers the endpoint's vectors have."""
    from .endpoint import Endpoint

    tasks: list[asyncio.Task[None]] = []

    def spawn(func: Any, *args: Any, name: str) -> None:
        tasks.append(asyncio.create_task(func(*args), name=name))

    try:
        (vector,) = await Endpoint(settings, spawn).embed(["list the files of a folder"], query=True)
        return len(vector)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _in_a_thread(question: Coroutine[Any, Any, int]) -> int:
    """The answer, waited for: checks are plain functions, called while a loop runs."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, question).result()


def _is_here(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
