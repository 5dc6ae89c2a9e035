from __future__ import annotations

import importlib
import json
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_hookspecs import InvalidArguments
from pml_measure.counting import counter, estimate

SAMPLES = {
    # Tokens of o200k_base, counted with the real thing.
    '{"name":"read_file","description":"Read the file"}': 12,
}


@pytest.mark.parametrize(("text", "tokens"), SAMPLES.items())
def test_the_estimate_is_near_what_the_tokenizer_counts(text: str, tokens: int) -> None:
    assert abs(estimate(text) - tokens) <= 2


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("read", 1), ("read file", 2), ("readFile", 2), ("internationalization", 3), ("123456", 2), ("{}", 1)],
)
def test_words_numbers_and_signs_are_counted(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


@given(st.text(max_size=200), st.text(max_size=50))
def test_more_text_is_never_fewer_tokens_by_more_than_what_joins(first: str, second: str) -> None:
    assert estimate(first) >= 0
    assert estimate(f"{first} {second}") >= estimate(first) - 1


def test_without_a_vocabulary_auto_is_the_estimate_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    without_splintr(monkeypatch)
    found = counter("auto")
    assert (found.name, found.exact, found.count("read file")) == ("estimate", False, 2)
    assert "estimated, within some 3 %" in found.about
    assert found.as_json() == {"name": "estimate", "exact": False, "error": 0.031}


def test_a_family_without_its_vocabulary_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    without_splintr(monkeypatch)
    with pytest.raises(InvalidArguments, match=r"install pml-measure\[tokenizers\]"):
        counter("gemma")


def without_splintr(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)


def test_with_vocabularies_the_familys_own_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tokenizer:
        def __init__(self, name: str) -> None:
            self.name = name

        @classmethod
        def from_pretrained(cls, name: str) -> Tokenizer:
            return cls(name)

        def encode(self, text: str) -> list[int]:
            return [len(self.name)] * len(text)

    monkeypatch.setattr(importlib, "import_module", lambda name: types.SimpleNamespace(Tokenizer=Tokenizer))
    found = counter("auto")
    assert (found.name, found.exact, found.count(json.dumps({}))) == ("openai", True, 2)
    assert found.about == "Tokens of o200k_base (openai)."
    assert counter("llama").as_json() == {"name": "llama", "exact": True, "error": None}
    assert not counter("estimate").exact
