"""Gateways on one store say when they are configured differently, and keep no secret of theirs in the store."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from pml_background import configuration_comparison
from pml_background.configuration_comparison import CONFIGURATIONS, ConfigurationComparison, sections_of
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import encode

pytestmark = pytest.mark.anyio
TOKENS = {"ann": "ann-token", "ben": {"token": "ben-token", "scopes": ["approve"]}}


def configuration(**tables):
    return SimpleNamespace(tables=tables, servers={"git": {"command": "git-mcp"}}, gateway={"max_tools": 3})


class Log:
    def __init__(self):
        self.said = []

    def warning(self, event, **fields):
        self.said.append((event, fields))

    def info(self, event, **fields):
        self.said.append((event, fields))


class Gateways:
    """Two on one store."""

    def __init__(self, monkeypatch):
        self.store, self._patch = MemoryStore(), monkeypatch
        self.logs = {name: Log() for name in "ab"}
        self._made = {name: ConfigurationComparison(self.store.documents, log) for name, log in self.logs.items()}

    async def look(self, name, said):
        self._patch.setattr(configuration_comparison, "gateway_name", lambda: name)
        await self._made[name].look(said)

    def sections(self, name):
        return [fields.get("sections") for _, fields in self.logs[name].said]


@pytest.fixture
def gateways(monkeypatch):
    return Gateways(monkeypatch)


async def test_alike_they_say_nothing(gateways):
    for name in "abab":
        await gateways.look(name, configuration(http={"tokens": TOKENS}))
    assert gateways.logs["a"].said == gateways.logs["b"].said == []


async def test_a_token_taken_out_of_one_file_is_said_once_at_each_and_taken_back(gateways):
    for name in "ab":
        await gateways.look(name, configuration(http={"tokens": TOKENS}))
    fewer = configuration(http={"tokens": {"ann": "ann-token"}})
    for name, said in (("a", fewer), ("b", configuration(http={"tokens": TOKENS})), ("a", fewer)):
        await gateways.look(name, said)
    assert gateways.sections("a") == gateways.sections("b") == [["plugins.http"]]
    await gateways.look("b", fewer)
    assert gateways.sections("b") == [["plugins.http"], None]


@pytest.mark.parametrize(
    "other",
    [
        configuration(),
        configuration(catalog={"blacklist": ["git:push"]}),
        SimpleNamespace(**{**vars(configuration(catalog={"blacklist": []})), "gateway": {"max_tools": 4}}),
    ],
)
async def test_any_section_counts(gateways, other):
    await gateways.look("a", configuration(catalog={"blacklist": []}))
    await gateways.look("b", other)
    assert gateways.sections("b") in ([["plugins.catalog"]], [["gateway"]])


async def test_limits_that_each_counts_alone_are_said(gateways):
    rules = {"rules": {"r": {"rate": "2/hour"}}}
    await gateways.look("a", configuration(limits=rules))
    assert gateways.logs["a"].said == []
    await gateways.look("b", configuration(limits=rules))
    assert "by itself" in gateways.logs["b"].said[-1][0]


async def test_no_secret_decides_a_digest_and_none_is_kept(gateways):
    changed = {"ann": "another", "ben": {"token": "new", "scopes": ["approve"]}}
    mine = configuration(http={"tokens": TOKENS}, postgres={"url": "postgresql://u:pw@one/db"})
    theirs = configuration(http={"tokens": changed}, postgres={"url": "postgresql://u:other@one/db"})
    assert sections_of(mine) == sections_of(theirs)
    await gateways.look("a", mine)
    (kept,) = (await gateways.store.documents.find(CONFIGURATIONS)).items
    assert "token" not in json.dumps(json.loads(encode(kept.value)))
