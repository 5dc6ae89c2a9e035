"""From settings to an embedder."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services
    from pml_kit.offers import Embedder

MODULES = {"fastembed": "fastembed", "sentence-transformers": "sentence_transformers"}
"""What each runtime is imported as."""


def made(settings: Settings, services: Services) -> Embedder | None:
    """The embedder that the settings ask for; None when they ask for none.

    Raises:
        ValueError: They cannot be followed.
    """
    if (problem := problem_of(settings)) is not None:
        raise ValueError(" ".join(problem))
    if settings.url:
        from .endpoint import Endpoint

        return Endpoint(settings, services.spawn)
    if settings.folder:
        from .local import Local

        return Local(settings, runtime_of(settings))
    return None


def problem_of(settings: Settings) -> tuple[str, str] | None:
    """What is wrong with the settings, and what to do; None when nothing is, as far as can be seen without a try."""
    if settings.url and settings.folder:
        return "[plugins.embeddings] has both url and folder.", "Remove one of them."
    if settings.url:
        return _problem_of_url(settings)
    return _problem_of_folder(settings) if settings.folder else None


def _problem_of_url(settings: Settings) -> tuple[str, str] | None:
    from urllib.parse import urlsplit

    parts = urlsplit(settings.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"[plugins.embeddings] url {_shown(settings.url)!r} is no address.", "Give http://… or https://…."
    if parts.username is not None or parts.password is not None:
        return "[plugins.embeddings] url has a user name or password.", "Put the secret into api_key or headers."
    if not settings.model:
        return "[plugins.embeddings] names no model.", "Set model to a model that the endpoint serves."
    return None


def _shown(url: str) -> str:
    """An address without what may be secret in it."""
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://…@{tail}" if at else url


def _problem_of_folder(settings: Settings) -> tuple[str, str] | None:
    from .folder import Folder

    folder = Folder(Path(settings.folder).expanduser())
    if not folder.path.is_dir():
        remedy = "Put the model there, or correct folder: models are never downloaded."
        return f"There is no folder {str(folder.path)!r} with a model.", remedy
    runtime = runtime_of(settings)
    if find_spec(MODULES[runtime]) is None:
        return f"{runtime} is not installed.", f"Install pml-search-embeddings[{runtime}], or set another runtime."
    return folder.problem(runtime, settings)


def runtime_of(settings: Settings) -> str:
    """What runs the model of the folder."""
    if settings.runtime != "auto":
        return settings.runtime
    from .folder import Folder

    has_onnx = bool(settings.model_file) or Folder(Path(settings.folder).expanduser()).onnx_file() is not None
    return "fastembed" if has_onnx else "sentence-transformers"
