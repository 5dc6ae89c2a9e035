"""Models that really run, by whichever of the libraries is installed, and that nothing reaches for the network."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pml_search_embeddings.errors import EmbeddingError
from pml_search_embeddings.local import Local, unit
from pml_search_embeddings.settings import Settings

HERE = Path(__file__).parent
NEEDS = {"fastembed": ("fastembed", "onnx"), "sentence-transformers": ("sentence_transformers",)}

pytestmark = [
    pytest.mark.anyio,
    # Of the libraries, about each other.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::PendingDeprecationWarning"
    ),
]


def depends_on(runtime: str) -> pytest.MarkDecorator:
    missing = [name for name in NEEDS[runtime] if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{' and '.join(missing)} not installed: {runtime} cannot run here")


real = pytest.mark.parametrize("runtime", [pytest.param(name, marks=depends_on(name)) for name in NEEDS])


@pytest.fixture(scope="session")
def models() -> Any:
    spec = importlib.util.spec_from_file_location("tiny_models", HERE / "models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def local(tmp_path: Path, models: Any) -> Callable[..., Local]:
    def make(runtime: str, **given: Any) -> Local:
        folder = tmp_path / "model"
        if not folder.exists():
            (models.onnx_model if runtime == "fastembed" else models.static_model)(folder)
        return Local(Settings(folder=str(folder), **given), runtime)

    return make


@real
async def test_texts_of_like_meaning_have_like_vectors_of_unit_length(local: Any, runtime: str) -> None:
    model = local(runtime)
    texts = ["delete file", "Remove document", "send message", "deliver mail"]
    found = await model.embed(texts, query=False)
    assert (found.shape, found.dtype) == ((4, 16), np.float32)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    alike = found @ found.T
    assert alike[0, 1] > 0.9
    assert alike[2, 3] > 0.9
    assert alike[0, 2] < 0.5


@real
async def test_queries_and_documents_get_the_prompts_of_the_model_or_those_of_the_settings(
    local: Any, runtime: str
) -> None:
    model = local(runtime)
    query, document = await model.embed(["delete"], query=True), await model.embed(["delete"], query=False)
    # The fifth number stands for "query:", the sixth for "text:".
    assert query[0, 4] > 0.5 > document[0, 4]
    assert document[0, 5] > 0.5 > query[0, 5]
    other = await local(runtime, query_prefix="file ").embed(["delete"], query=True)
    assert other[0, 1] > 0.5 > abs(other[0, 4])


@real
async def test_many_texts_keep_their_order_over_batches(local: Any, runtime: str, models: Any) -> None:
    words = [models.MEANINGS[n % 4][0] + " file" * (n % 7) for n in range(60)]
    together = await local(runtime, batch=7).embed(words, query=False)
    model = local(runtime, batch=1)
    alone = np.concatenate([await model.embed([word], query=False) for word in words[:8]])
    assert together.shape == (60, 16)
    assert np.allclose(together[:8], alone, atol=1e-5)


@real
async def test_a_text_that_is_too_long_is_cut(local: Any, runtime: str) -> None:
    long, cut = await local(runtime, most_characters=16).embed(
        ["file file file f" + "send " * 900_000, ""], query=False
    )
    assert long[1] > 0.5
    assert abs(long[2]) < 0.1
    assert np.isfinite(cut).all()


@depends_on("fastembed")
async def test_a_file_that_pools_itself_is_taken_as_it_is(tmp_path: Path, models: Any) -> None:
    folder = models.onnx_model(tmp_path / "m", pooled=True)
    found = await Local(Settings(folder=str(folder), pooling="none"), "fastembed").embed(
        ["delete", "send"], query=False
    )
    assert found.shape == (2, 16)
    wrong = Local(Settings(folder=str(folder), pooling="mean"), "fastembed")
    with pytest.raises(EmbeddingError, match="failed on 1 texts"):
        await wrong.embed(["delete"], query=False)


@depends_on("fastembed")
async def test_numbers_that_are_none_are_not_taken_for_vectors(tmp_path: Path, models: Any) -> None:
    folder = models.onnx_model(tmp_path / "m", broken=True)
    with pytest.raises(EmbeddingError, match="not finite"):
        await Local(Settings(folder=str(folder)), "fastembed").embed(["delete"], query=False)


@real
async def test_a_model_that_cannot_be_loaded_is_said_once_and_for_all(local: Any, runtime: str, tmp_path: Path) -> None:
    model = local(runtime)
    for path in (tmp_path / "model").rglob("*"):
        if path.suffix in (".onnx", ".safetensors"):
            path.write_bytes(b"this is no model")
    with pytest.raises(EmbeddingError, match=f"cannot be loaded by {runtime}") as first:
        await model.embed(["delete"], query=False)
    with pytest.raises(EmbeddingError) as second:
        await model.embed(["delete"], query=False)
    assert str(first.value) == str(second.value)


async def test_a_folder_that_has_gone_is_a_clear_message(tmp_path: Path) -> None:
    for runtime in NEEDS:
        with pytest.raises(EmbeddingError, match=r"has no .*nothing is downloaded"):
            await Local(Settings(folder=str(tmp_path / "gone")), runtime).embed(["x"], query=True)


async def test_a_search_waits_for_one_batch_not_for_a_whole_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[int, bool]] = []
    may_go_on, started = threading.Event(), threading.Event()

    def encode(texts: Any, query: Any) -> Any:
        begun.append((len(texts), query))
        started.set()
        may_go_on.wait(5)
        return np.ones((len(texts), 2))

    model = Local(Settings(folder="x", batch=2), "fastembed")
    monkeypatch.setattr(model, "_loaded", lambda: encode)
    catalog = asyncio.ensure_future(model.embed(["a"] * 10, query=False))
    await asyncio.to_thread(started.wait, 5)
    search = asyncio.ensure_future(model.embed(["q"], query=True))
    await asyncio.sleep(0)
    may_go_on.set()
    await asyncio.gather(search, catalog)
    assert begun.index((1, True)) == 1
    assert len(begun) == 6


@pytest.mark.parametrize("found", [np.ones(3), np.ones((2, 3)), np.ones((1, 0)), np.ones((1, 2, 3))])
def test_what_is_not_one_row_a_text_is_refused(found: Any) -> None:
    with pytest.raises(EmbeddingError, match="shape"):
        unit(found, 1)


WATCHED = """
import asyncio, json, os, sys
calls = []
def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        calls.append(f"{event} {args[1:]}")
        raise OSError("no network here")
sys.addaudithook(watch)
from pml_search_embeddings.errors import EmbeddingError
from pml_search_embeddings.local import Local
from pml_search_embeddings.settings import Settings
before = dict(os.environ)
said = []
for folder in sys.argv[2:]:
    try:
        said.append(str(asyncio.run(Local(Settings(folder=folder), sys.argv[1]).embed(["delete"], query=True)).shape))
    except EmbeddingError as exc:
        said.append(str(exc))
changed = sorted(k for k in dict(os.environ) if k.startswith("HF_") and k not in before)
print(json.dumps({"calls": calls, "said": said, "changed": changed}))
"""


@real
def test_neither_a_good_nor_an_incomplete_model_reaches_for_the_network(
    tmp_path: Path, models: Any, runtime: str
) -> None:
    good, lacking, elsewhere = tmp_path / "good", tmp_path / "lacking", tmp_path / "elsewhere"
    make = models.onnx_model if runtime == "fastembed" else models.static_model
    make(good)
    make(lacking)
    for name in ("tokenizer.json", "0_StaticEmbedding/tokenizer.json"):
        (lacking / name).unlink(missing_ok=True)
    elsewhere.mkdir()
    (elsewhere / "config.json").write_text(json.dumps({"_name_or_path": "org/model", "model_type": "bert"}))
    command = [sys.executable, "-c", WATCHED, runtime, *map(str, (good, lacking, elsewhere, "sentence-transformers/x"))]
    env = {k: v for k, v in os.environ.items() if not k.startswith("HF_")} | {"HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, check=False, encoding="utf-8", env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["calls"] == []
    assert told["changed"] == [], "servers would inherit it"
    assert told["said"][0] == "(1, 16)"
    assert all("model" in said and len(said) < 2000 for said in told["said"][1:])
    assert "nothing is downloaded" in told["said"][3]
