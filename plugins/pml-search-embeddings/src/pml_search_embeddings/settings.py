"""The settings, ``[plugins.embeddings]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.embeddings]``. Without a folder and without a URL there is no embedder."""

    folder: str = setting("", "Folder on this machine that holds a model. Nothing is ever downloaded.")
    runtime: Literal["auto", "fastembed", "sentence-transformers"] = setting(
        "auto", "What runs the model of the folder; auto: fastembed if the folder holds an ONNX file."
    )
    model_file: str = setting("", "ONNX file within the folder; looked for when empty.")
    pooling: Literal["auto", "mean", "cls", "last_token", "none"] = setting(
        "auto", "How fastembed makes one vector of a text's tokens; auto: as 1_Pooling/config.json of the folder says."
    )
    threads: int = setting(0, "Most threads of a local model; 0 for as many as the library likes.", ge=0, le=256)
    url: str = setting("", "OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1.")
    model: str = setting("", "Name of the endpoint's model.")
    api_key: str = setting("", "Sent to the endpoint as a bearer token; use ${NAME}.", secret=True)
    headers: dict[str, str] = setting(dict, "Further headers for the endpoint.", secret=True)
    dimensions: int = setting(0, "Size of the vectors to ask the endpoint for; 0 for the model's own.", ge=0, le=65536)
    batch: int = setting(32, "Texts that are embedded at once [texts].", ge=1, le=2048)
    parallel: int = setting(4, "Most requests to the endpoint at once.", ge=1, le=64)
    timeout_s: float = setting(30.0, "Longest wait for the endpoint's answer to one request [s].", ge=0.1, le=600)
    query_timeout_s: float = setting(
        2.0,
        "Longest that a search waits for the vector of its query from the endpoint, all attempts in it [s].",
        ge=0.05,
    )
    attempts: int = setting(4, "How often a request to the endpoint is tried.", ge=1, le=20)
    pause_s: float = setting(
        30.0, "How long nothing is asked of an endpoint that has just failed: searches do without it at once [s].", ge=0
    )
    query_prefix: str = setting("", "Put before each query; empty for what the model's folder says.")
    document_prefix: str = setting("", "Put before each tool's text; empty for what the model's folder says.")
    most_characters: int = setting(8000, "Longer texts are cut [characters].", ge=16)
