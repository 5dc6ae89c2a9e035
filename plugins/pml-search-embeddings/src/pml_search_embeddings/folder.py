"""What a model's folder says of itself: its files, its pooling, its prompts. The layout of sentence-transformers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .settings import Settings

ONNX_FILES = ("onnx/model.onnx", "model.onnx", "model_optimized.onnx", "onnx/model_quantized.onnx")
"""Where models are usually, best first; then any other."""
POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last_token",
}
NAMES = {"cls": "cls", "mean": "mean", "lasttoken": "last_token"}
"""Newer files have ``pooling_mode: "mean"`` instead of one switch for each."""
QUERY_PROMPTS, DOCUMENT_PROMPTS = ("query", "s2p_query"), ("document", "passage", "corpus")


class Folder:
    """A folder with a model."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def onnx_file(self) -> str | None:
        """The ONNX file, relative; None when there is none."""
        usual = next((name for name in ONNX_FILES if (self.path / name).is_file()), None)
        if usual is not None or not self.path.is_dir():
            return usual
        found = sorted(path for place in (self.path, self.path / "onnx") for path in place.glob("*.onnx"))
        return found[0].relative_to(self.path).as_posix() if found else None

    def problem(self, runtime: str, settings: Settings) -> tuple[str, str] | None:
        """What the folder lacks for the runtime, and what to do."""
        missing = self._missing(runtime, settings)
        if missing is not None:
            remedy = "Copy the whole model folder as it was published: nothing is downloaded."
            return f"The model folder {str(self.path)!r} has no {missing}.", remedy
        if runtime == "fastembed" and settings.pooling == "auto" and self.pooling() is None:
            remedy = (
                "Set pooling to what the model's card says: mean, cls, last_token, or none for sentence embeddings."
            )
            return f"The model folder {str(self.path)!r} does not say how tokens are pooled.", remedy
        return None

    def _missing(self, runtime: str, settings: Settings) -> str | None:
        if runtime == "fastembed":
            wanted = settings.model_file or self.onnx_file()
            if wanted is None:
                return "ONNX file"
            needed = (wanted, "tokenizer.json", "tokenizer_config.json")
            return next((name for name in needed if not (self.path / name).is_file()), None)
        known = ("modules.json", "config.json")
        return None if any((self.path / name).is_file() for name in known) else " or ".join(known)

    def pooling(self) -> str | None:
        """How tokens are pooled; None when the folder does not say, or says something that fastembed cannot do."""
        said = self._json("1_Pooling/config.json")
        mode = said.get("pooling_mode")
        modes = [NAMES.get(mode)] if isinstance(mode, str) else []
        modes += [name for key, name in POOLINGS.items() if said.get(key) is True]
        return modes[0] if len(modes) == 1 else None

    def prefix(self, *, query: bool) -> str:
        """What the model wants before each text; ``""`` for nothing."""
        prompts = self._json("config_sentence_transformers.json").get("prompts")
        if not isinstance(prompts, Mapping):
            return ""
        names = QUERY_PROMPTS if query else DOCUMENT_PROMPTS
        return next((prompts[name] for name in names if isinstance(prompts.get(name), str)), "")

    def mark(self) -> str:
        """Changes when a file of the model does; reads no contents."""
        digest = hashlib.sha256(str(self.path).encode())
        for path in sorted(path for path in self.path.rglob("*") if path.is_file()):
            about = path.stat()
            digest.update(f"{path.relative_to(self.path)}\0{about.st_size}\0{about.st_mtime_ns}\n".encode())
        return digest.hexdigest()[:16]

    def size_bytes(self) -> int:
        """Size of all files together."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())

    def _json(self, name: str) -> Mapping[str, Any]:
        """An object; empty when there is no such file, or it holds something else."""
        try:
            said = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return said if isinstance(said, Mapping) else {}
