"""What is provided, and what the doctor says, for each way to configure it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pml_hookspecs import Check
from pml_search_embeddings import embedder_choice, plugin
from pml_search_embeddings.endpoint import Endpoint
from pml_search_embeddings.local import Local
from pml_search_embeddings.settings import Settings
from pml_testing.fakes import FakeServices


def embedders(**settings: Any) -> list[Any]:
    return [one.service for one in plugin.pml_offers(FakeServices(settings=Settings(**settings)))]


def checked(**settings: Any) -> list[Check]:
    return list(plugin.pml_checks(FakeServices(settings=Settings(**settings))))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As complete as can be told without loading it."""
    made = tmp_path / "model"
    (made / "1_Pooling").mkdir(parents=True)
    for name in ("model.onnx", "tokenizer.json", "tokenizer_config.json", "config.json"):
        (made / name).write_text("{}")
    (made / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    return made


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of modules that are; both runtimes at first."""
    names = {"fastembed", "sentence_transformers"}
    monkeypatch.setattr(
        embedder_choice, "find_spec", lambda name: importlib.util.find_spec("json") if name in names else None
    )
    return names


def test_without_configuration_nothing_is_provided_and_the_doctor_says_so() -> None:
    assert embedders() == []
    assert list(plugin.pml_offers(FakeServices())) == [], "no settings object at all"
    (line,) = checked()
    assert line.ok
    assert "none configured" in line.detail
    assert "pml eval --compare-embedder" in line.detail


def test_a_folder_or_an_address_gives_one_embedder(folder: Path, installed: set[str]) -> None:
    (local,) = embedders(folder=str(folder))
    assert isinstance(local, Local)
    (asking,) = embedders(url="http://127.0.0.1:1/v1", model="m")
    assert isinstance(asking, Endpoint)
    (line,) = checked(folder=str(folder))
    assert line.ok
    assert line.detail.startswith(f"fastembed, {folder} (0.0 MB), loaded when first used")


@pytest.mark.parametrize(
    ("settings", "said", "remedy"),
    [
        ({"folder": "{folder}", "url": "http://h", "model": "m"}, "both url and folder", "Remove one"),
        ({"url": "h:1/v1", "model": "m"}, "'h:1/v1' is no address", "http://"),
        ({"url": "http://h/v1"}, "names no model", "Set model"),
        ({"url": "http://me:pass@h/v1", "model": "m"}, "user name or password", "api_key"),
        ({"folder": "{folder}/none"}, "no folder", "never downloaded"),
        ({"folder": "{folder}", "model_file": "other.onnx"}, "has no other.onnx", "nothing is downloaded"),
        ({"folder": "{folder}/1_Pooling", "runtime": "fastembed"}, "has no ONNX file", "nothing is downloaded"),
        ({"folder": "{folder}/.."}, "has no modules.json or config.json", "nothing is downloaded"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start_and_by_the_doctor(
    folder: Path, installed: set[str], settings: dict[str, str], said: str, remedy: str
) -> None:
    given = {name: value.format(folder=folder) for name, value in settings.items()}
    with pytest.raises(ValueError, match=said) as caught:
        embedders(**given)
    assert remedy in str(caught.value)
    assert "pass@" not in str(caught.value)
    (line,) = checked(**given)
    assert not line.ok
    assert said in line.detail
    assert remedy in line.remedy


def test_a_library_that_is_not_installed_is_named_with_its_extra(folder: Path, installed: set[str]) -> None:
    installed.clear()
    (line,) = checked(folder=str(folder))
    assert (line.ok, line.detail) == (False, "fastembed is not installed.")
    assert "pml-search-embeddings[fastembed]" in line.remedy
    (line,) = checked(folder=str(folder), runtime="sentence-transformers")
    assert "pml-search-embeddings[sentence-transformers]" in line.remedy


def test_pooling_that_the_folder_does_not_tell_has_to_be_set(folder: Path, installed: set[str]) -> None:
    (folder / "1_Pooling" / "config.json").unlink()
    with pytest.raises(ValueError, match="does not say how tokens are pooled"):
        embedders(folder=str(folder))
    assert len(embedders(folder=str(folder), pooling="cls")) == 1
    assert len(embedders(folder=str(folder), runtime="sentence-transformers")) == 1


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_lasttoken": True}, "last_token"),
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode": "max"}, None),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, None),
        ([], None),
    ],
)
def test_pooling_is_read_in_its_old_and_its_new_form(folder: Path, said: Any, wanted: str | None) -> None:
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(said))
    assert choosing_folder(folder).pooling() == wanted


def choosing_folder(path: Path) -> Any:
    from pml_search_embeddings.folder import Folder

    return Folder(path)


def test_a_folder_without_onnx_is_for_sentence_transformers(folder: Path) -> None:
    (folder / "model.onnx").rename(folder / "odd-name.onnx")
    assert embedder_choice.runtime_of(Settings(folder=str(folder))) == "fastembed"
    (folder / "odd-name.onnx").unlink()
    assert embedder_choice.runtime_of(Settings(folder=str(folder))) == "sentence-transformers"


def test_the_name_of_a_model_changes_with_its_files_and_settings(folder: Path) -> None:
    def name(**given: Any) -> str:
        return Local(Settings(folder=str(folder), **given), "fastembed").name

    first = name()
    assert name() == name(batch=2) == first
    assert len({first, name(pooling="cls"), name(query_prefix="q: "), name(most_characters=100)}) == 4
    (folder / "model.onnx").write_text("{ }")
    assert name() != first


def test_the_doctor_asks_an_endpoint_for_one_vector(service: Any) -> None:
    (line,) = checked(url=service.url, model="m")
    assert line.ok
    assert "m at 127.0.0.1:" in line.detail
    assert "3 numbers a text" in line.detail
    assert [len(body["input"]) for body in service.asked] == [1]


async def in_a_loop(**settings: Any) -> list[Check]:
    return checked(**settings)


def test_the_doctor_can_ask_while_a_loop_runs_and_says_what_fails(service: Any) -> None:
    service.replies = [lambda _service, _body: (401, {}, {"error": "who are you"})]
    (line,) = asyncio.run(in_a_loop(url=service.url, model="m", api_key="k"))
    assert not line.ok
    assert "answers 401: who are you; check api_key" in line.detail
    assert "search does without" in line.remedy


def test_a_key_that_would_travel_unencrypted_is_pointed_out() -> None:
    lines = checked(url="http://embeddings.invalid/v1", model="m", api_key="k")
    assert [line.title for line in lines] == ["encryption", "embedder"]
    assert not any(line.ok for line in lines)
    assert "k" not in lines[0].detail.split()


IMPORT = "import sys, pml_search_embeddings.plugin as p, types; {then}; print(*sys.modules)"
HEAVY = {"fastembed", "sentence_transformers", "onnxruntime", "torch", "numpy", "httpx2", "huggingface_hub", "asyncio"}


@pytest.mark.parametrize("then", ["0", "list(p.pml_offers(types.SimpleNamespace(settings=None)))"])
def test_nothing_heavy_is_imported_before_a_text_is_embedded(then: str) -> None:
    command = [sys.executable, "-c", IMPORT.format(then=then)]
    done = subprocess.run(command, capture_output=True, check=True, encoding="utf-8", env=os.environ, timeout=60)
    assert not HEAVY & set(done.stdout.split())
