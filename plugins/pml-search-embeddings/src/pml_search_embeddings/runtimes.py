"""The libraries that run models. Imported here and nowhere else, without the right to download anything."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .folder import Folder
    from .settings import Settings

Encode = Callable[[Sequence[str], bool], Any]
"""Texts, and whether they are queries, to an array of one row each."""
_numbers = itertools.count(1)


def offline() -> None:
    """Have huggingface_hub ask nobody, whichever library uses it.

    Its switches are constants of its module. The environment variables behind them would be inherited by every server
    that the gateway starts.
    """
    constants: Any = importlib.import_module("huggingface_hub.constants")
    constants.HF_HUB_OFFLINE = True
    constants.HF_HUB_DISABLE_TELEMETRY = True


def fastembed(folder: Folder, settings: Settings) -> Encode:
    """An ONNX model.

    Raises:
        Exception: Any that the library raises for files it cannot use.
    """
    offline()
    library: Any = importlib.import_module("fastembed")
    description: Any = importlib.import_module("fastembed.common.model_description")
    pooling = settings.pooling if settings.pooling != "auto" else folder.pooling()
    kinds = description.PoolingType
    kind = {"mean": kinds.MEAN, "cls": kinds.CLS, "none": kinds.DISABLED}.get(pooling or "")
    if kind is None:
        kind = kinds.LAST_TOKEN
    # fastembed runs models that it knows by name; this one gets a name, and a source that is not looked at.
    name = f"pml/{folder.path.name}-{next(_numbers)}"
    file = settings.model_file or folder.onnx_file() or ""
    source = description.ModelSource(url=folder.path.absolute().as_uri())
    library.TextEmbedding.add_custom_model(
        name, pooling=kind, normalization=False, sources=source, dim=0, model_file=file
    )
    model = library.TextEmbedding(
        name,
        specific_model_path=str(folder.path),
        local_files_only=True,
        providers=["CPUExecutionProvider"],
        threads=settings.threads or None,
    )
    query_prefix = settings.query_prefix or folder.prefix(query=True)
    document_prefix = settings.document_prefix or folder.prefix(query=False)

    def encode(texts: Sequence[str], query: bool) -> Any:  # noqa: FBT001 - see Encode
        prefix = query_prefix if query else document_prefix
        return list(model.embed([prefix + text for text in texts], batch_size=settings.batch))

    return encode


def sentence_transformers(folder: Folder, settings: Settings) -> Encode:
    """A model of sentence-transformers, on the CPU; code that a model brings along is not run.

    Raises:
        Exception: Any that the library raises for files it cannot use.
    """
    offline()
    library: Any = importlib.import_module("sentence_transformers")
    if settings.threads:
        importlib.import_module("torch").set_num_threads(settings.threads)
    model = library.SentenceTransformer(str(folder.path), device="cpu", local_files_only=True, trust_remote_code=False)

    def encode(texts: Sequence[str], query: bool) -> Any:  # noqa: FBT001 - see Encode
        prefix = settings.query_prefix if query else settings.document_prefix
        how = {"prompt": prefix} if prefix else {}
        ask = model.encode_query if query else model.encode_document
        return ask(list(texts), batch_size=settings.batch, show_progress_bar=False, **how)

    return encode
