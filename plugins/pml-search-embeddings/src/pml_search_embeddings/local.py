"""A model in a folder of this machine, run in a thread."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import EmbeddingError
from .folder import Folder

if TYPE_CHECKING:
    from .runtimes import Encode
    from .settings import Settings


class Local:
    """Runs a model with fastembed or sentence-transformers. Implements :class:`pml_kit.offers.Embedder`.

    The library and the model are loaded by the first :meth:`embed`. One batch is embedded at a time, and a search need
    only wait for the batch under way, not for a whole catalog.
    """

    def __init__(self, settings: Settings, runtime: str) -> None:
        self._settings, self._runtime = settings, runtime
        self._folder = Folder(Path(settings.folder).expanduser())
        self._encode: Encode | None = None
        self._failed = ""
        self._lock = asyncio.Lock()

    @cached_property
    def name(self) -> str:
        """Runtime, folder, and a digest of all else that changes the vectors."""
        chosen = self._settings
        about = (self._folder.mark(), chosen.model_file, chosen.pooling, chosen.query_prefix, chosen.document_prefix)
        digest = hashlib.sha256(repr((*about, chosen.most_characters)).encode()).hexdigest()[:16]
        return f"{self._runtime}:{self._folder.path.name}:{digest}"

    async def embed(self, texts: Sequence[str], *, query: bool) -> Any:
        """An array of shape ``(len(texts), size)``; rows of unit length, in the order of ``texts``.

        Raises:
            EmbeddingError: The library or the model cannot be used. Once loading failed it is not tried again.
        """
        import numpy as np

        cut = [text[: self._settings.most_characters] for text in texts]
        # Texts of like length together: a batch is as slow as its longest text.
        order = sorted(range(len(cut)), key=lambda n: len(cut[n]))
        rows: list[Any] = [None] * len(cut)
        for start in range(0, len(order), self._settings.batch):
            numbers = order[start : start + self._settings.batch]
            async with self._lock:
                found = await asyncio.to_thread(self._batch, [cut[n] for n in numbers], query)
            for number, row in zip(numbers, found, strict=True):
                rows[number] = row
        return np.stack(rows) if rows else np.zeros((0, 0), dtype=np.float32)

    def _batch(self, texts: list[str], query: bool) -> Any:  # noqa: FBT001 - handed on to a thread
        """Load the model if it is not yet; embed."""
        if self._failed:
            raise EmbeddingError(self._failed)
        if self._encode is None:
            try:
                self._encode = self._loaded()
            except Exception as exc:
                said = f"{type(exc).__name__}: {exc}"
                self._failed = f"the model in {str(self._folder.path)!r} cannot be loaded by {self._runtime}: {said}"
                raise EmbeddingError(self._failed) from exc
        try:
            return unit(self._encode(texts, query), len(texts))
        except EmbeddingError:
            raise
        except Exception as exc:
            where = f"the model in {str(self._folder.path)!r}"
            raise EmbeddingError(f"{where} failed on {len(texts)} texts: {type(exc).__name__}: {exc}") from exc

    def _loaded(self) -> Encode:
        if (problem := self._folder.problem(self._runtime, self._settings)) is not None:
            raise EmbeddingError(" ".join(problem))
        from . import runtimes

        load = runtimes.fastembed if self._runtime == "fastembed" else runtimes.sentence_transformers
        return load(self._folder, self._settings)


def unit(found: Any, count: int) -> Any:
    """Rows of unit length as 32-bit numbers; a row of zeros stays one.

    Raises:
        EmbeddingError: It is not one row of finite numbers for each text.
    """
    import numpy as np

    rows = np.asarray(found, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[0] != count or rows.shape[1] == 0:  # noqa: PLR2004 - texts by numbers
        raise EmbeddingError(f"the model gave vectors of shape {rows.shape} for {count} texts; is pooling set right?")
    if not np.isfinite(rows).all():
        raise EmbeddingError("the model gave vectors with numbers that are not finite; is the model file complete?")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)
