"""The contracts of filters, meta-tools and the search catch what they are there to catch, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from xml.etree import ElementTree as ET

import pytest

PLUGINS = """
from __future__ import annotations

import asyncio
import time

from pml_hookspecs import InvalidArguments, Match, MetaTool, ToolCall, ToolFailed

ASKED = []


class GoodFilter:
    def __call__(self, entry, session):
        return not entry.name.startswith("delete")


class SaysNothing(GoodFilter):
    def __call__(self, entry, session):
        return super().__call__(entry, session) or None


class Counts(GoodFilter):
    def __init__(self):
        self.asked = 0

    def __call__(self, entry, session):
        self.asked += 1
        return self.asked % 7 != 0


class IsNotShared(GoodFilter):
    shared = True

    def __call__(self, entry, session):
        return "system" in session.scopes


class MarksWithText(GoodFilter):
    hides = "yes"


class NeedsAnnotations(GoodFilter):
    def __call__(self, entry, session):
        return not entry.definition["annotations"].get("destructiveHint")


class WritesIntoDefinitions(GoodFilter):
    def __call__(self, entry, session):
        if isinstance(entry.definition, dict):
            entry.definition["seen"] = True
        return super().__call__(entry, session)


class IsAsync:
    async def __call__(self, entry, session):
        return True


class IsSlow(GoodFilter):
    def __call__(self, entry, session):
        until = time.perf_counter() + 100e-6
        while time.perf_counter() < until:
            pass
        return super().__call__(entry, session)


DEFINITION = {
    "name": "greet",
    "description": "Greet somebody.",
    "inputSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "words": {"type": "array"}},
        "required": ["name"],
    },
}


def read(arguments):
    if not isinstance(arguments.get("name"), str) or not isinstance(arguments.get("words", []), list):
        raise InvalidArguments("greet: 'name' is a text, 'words' a list.")
    return arguments["name"], list(arguments.get("words", []))


async def greet(arguments, run):
    name, words = read(arguments)
    return {"said": " ".join(["hello", name, *map(str, words)])}


def made(call=greet, **members):
    definition = {**DEFINITION, **members.pop("definition", {})}
    return MetaTool(definition=definition, call=call, **members)


async def raises(arguments, run):
    return {"said": arguments["name"].upper()}


async def fails_silently(arguments, run):
    if not isinstance(arguments.get("name"), str):
        raise ToolFailed("", {})
    return "hello"


async def sorts_in_place(arguments, run):
    _, words = read(arguments)
    if words:
        arguments["words"].sort()
    return "hello"


async def leaks(arguments, run):
    read(arguments)
    ASKED.append(asyncio.ensure_future(asyncio.sleep(3600)))
    return "hello"


async def gives_no_json(arguments, run):
    read(arguments)
    return {"found": object()}


def stands(arguments):
    name, _ = read(arguments)
    return ToolCall(id="greet", tool="people:greet", arguments={"name": name})


def stands_for_a_dict(arguments):
    read(arguments)
    return {"tool": "people:greet"}


def changes_its_mind(session):
    ASKED.append(session)
    return len(ASKED) % 2 == 0


TOOLS = {
    "GoodTool": lambda: made(),
    "GoodTask": lambda: MetaTool(definition=DEFINITION, task=stands),
    "Raises": lambda: made(raises),
    "FailsSilently": lambda: made(fails_silently),
    "SortsInPlace": lambda: made(sorts_in_place),
    "LeaksATask": lambda: made(leaks),
    "GivesNoJson": lambda: made(gives_no_json),
    "StandsForADict": lambda: MetaTool(definition=DEFINITION, task=stands_for_a_dict),
    "SaysNothingOfItself": lambda: made(definition={"description": ""}),
    "HasAnOddName": lambda: made(definition={"name": "greet people"}),
    "HasOddHints": lambda: made(definition={"annotations": {"readOnlyHint": "yes"}}),
    "ChangesItsMind": lambda: made(listed=changes_its_mind),
}


class GoodIndex:
    def __init__(self):
        self.words = {}

    async def build(self, entries, revision):
        self.words = {one.id: set(f"{one.name} {one.description}".lower().replace("_", " ").split()) for one in entries}

    async def search(self, query, *, limit, min_score, among=None, session=None):
        asked = set(query.lower().split())
        return self.best(self.scored(asked, among) if asked else [], limit, min_score)

    def scored(self, asked, among):
        known = [(id, words) for id, words in self.words.items() if among is None or id in among]
        return [Match(id, len(asked & words) / len(asked)) for id, words in known if asked & words]

    def best(self, found, limit, min_score):
        return sorted((m for m in found if m.score >= min_score), key=lambda m: (-m.score, m.id))[:limit]


class GivesTooMany(GoodIndex):
    def best(self, found, limit, min_score):
        return super().best(found, 100, min_score)


class GivesTheBad(GoodIndex):
    def best(self, found, limit, min_score):
        return super().best(found, limit, 0.0)


class IsUnordered(GoodIndex):
    def best(self, found, limit, min_score):
        return list(reversed(super().best(found, limit, min_score)))


class ScoresInPercent(GoodIndex):
    def scored(self, asked, among):
        return [Match(m.id, 100 * m.score) for m in super().scored(asked, among)]


class FindsTheHidden(GoodIndex):
    def scored(self, asked, among):
        return super().scored(asked, None)


class CountsTheHidden(GoodIndex):
    def scored(self, asked, among):
        return [Match(m.id, m.score / (1 + len(self.words))) for m in super().scored(asked, among)]


class FindsAllForNothing(GoodIndex):
    async def search(self, query, *, limit, min_score, among=None, session=None):
        if not query.strip():
            return [Match(id, 0.0) for id in self.words][:limit]
        return await super().search(query, limit=limit, min_score=min_score, among=among)


class Encodes(GoodIndex):
    async def search(self, query, *, limit, min_score, among=None, session=None):
        query.encode()
        return await super().search(query, limit=limit, min_score=min_score, among=among)


class Adds(GoodIndex):
    async def build(self, entries, revision):
        before = self.words
        await super().build(entries, revision)
        self.words = before | self.words


class IsEmptyWhileBuilt(GoodIndex):
    async def build(self, entries, revision):
        self.words = {}
        await asyncio.sleep(0.01)
        await super().build(entries, revision)

    async def search(self, query, *, limit, min_score, among=None, session=None):
        await asyncio.sleep(0)
        return await super().search(query, limit=limit, min_score=min_score, among=among)


class NeedsToBeBuilt(GoodIndex):
    def __init__(self):
        pass


class TakesNoSession(GoodIndex):
    async def search(self, query, *, limit, min_score, among=None):
        return await super().search(query, limit=limit, min_score=min_score, among=among)
"""

HEAD = """
import plugins
import pytest

from pml_testing.hook_contracts.filter import FilterContract
from pml_testing.hook_contracts.meta_tool import MetaToolContract
from pml_testing.hook_contracts.search import SearchContract
"""

FILTER = """

class Test{name}(FilterContract):
    @pytest.fixture
    def tool_filter(self):
        return plugins.{name}()
"""
TOOL = """

class Test{name}Tool(MetaToolContract):
    @pytest.fixture
    def tool(self):
        return plugins.TOOLS["{name}"]()

    @pytest.fixture
    def good(self):
        return {{"name": "Ada", "words": ["b", "a"]}}
"""
INDEX = """

class Test{name}(SearchContract):
    @pytest.fixture
    def make_index(self):
        return plugins.{name}
"""

FILTERS = {
    "GoodFilter": set(),
    "SaysNothing": {"test_says_true_or_false_of_every_tool"},
    "Counts": {"test_says_the_same_again_whatever_was_asked_between"},
    "IsNotShared": {"test_a_shared_filter_keeps_the_same_for_everybody"},
    "MarksWithText": {"test_is_a_filter_as_the_gateway_takes_it"},
    "WritesIntoDefinitions": {"test_definitions_are_left_as_they_are"},
    "IsSlow": {"test_takes_at_most_50_us"},
}
ANSWERED, SAID = "test_good_arguments_are_answered", "test_what_does_not_fit_is_said_and_nothing_else_raised"
READ = "test_its_definition_can_be_read_by_clients_and_models"
TOOLS = {
    "GoodTool": set(),
    "GoodTask": set(),
    "Raises": {SAID},
    "FailsSilently": {SAID},
    "SortsInPlace": {"test_arguments_are_left_as_they_are"},
    "LeaksATask": {"test_leaves_no_task_behind"},
    "GivesNoJson": {ANSWERED},
    "StandsForADict": {ANSWERED},
    "SaysNothingOfItself": {READ},
    "HasAnOddName": {READ},
    "HasOddHints": {READ},
    "ChangesItsMind": {"test_says_the_same_to_the_same_client"},
}
BOUNDS = "test_matches_are_of_the_catalog_best_first_and_within_their_bounds"
INDEXES = {
    "GoodIndex": set(),
    "GivesTooMany": {BOUNDS},
    "GivesTheBad": {BOUNDS},
    "IsUnordered": {BOUNDS, "test_finds_a_tool_by_its_name"},
    "ScoresInPercent": {BOUNDS},
    "FindsTheHidden": {
        "test_only_what_may_be_found_is_found",
        "test_what_may_not_be_found_leaves_no_trace_in_scores_and_order",
    },
    "CountsTheHidden": {"test_what_may_not_be_found_leaves_no_trace_in_scores_and_order"},
    "FindsAllForNothing": {"test_an_empty_query_finds_nothing"},
    "Encodes": {"test_any_query_is_answered"},
    "Adds": {"test_what_is_built_replaces_what_was_there"},
    "IsEmptyWhileBuilt": {"test_searches_go_on_while_it_is_built"},
    "NeedsToBeBuilt": {"test_finds_nothing_before_there_is_anything"},
}
FAILS_IN_SEVERAL = {
    "NeedsAnnotations": "test_says_true_or_false_of_every_tool",
    "IsAsync": "test_is_a_filter_as_the_gateway_takes_it",
    "TakesNoSession": "test_is_an_index_as_the_gateway_takes_it",
}
"""What fails wherever it is used, and the test that says why."""


def code():
    parts = [FILTER.format(name=name) for name in (*FILTERS, "NeedsAnnotations", "IsAsync")]
    parts += [TOOL.format(name=name) for name in TOOLS]
    return HEAD + "".join([*parts, *(INDEX.format(name=name) for name in (*INDEXES, "TakesNoSession"))])


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Plugin to the tests that failed: one run of the contracts over all, in a process of its own."""
    folder = tmp_path_factory.mktemp("contract")
    (folder / "plugins.py").write_text(PLUGINS)
    (folder / "test_plugins.py").write_text(code())
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q --import-mode=importlib\npythonpath = .\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=run.xml", "test_plugins.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    found = defaultdict(set)
    for case in ET.parse(folder / "run.xml").iter("testcase"):
        assert case.find("error") is None, done.stdout
        plugin = case.attrib["classname"].rpartition(".Test")[2]
        found[plugin] |= {case.attrib["name"].partition("[")[0]} if case.find("failure") is not None else set()
    return found


@pytest.mark.parametrize("plugin", [*FILTERS, *INDEXES])
def test_a_wrong_one_fails_exactly_the_tests_that_name_its_fault(plugin, failed):
    assert failed[plugin] == {**FILTERS, **INDEXES}[plugin]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_wrong_tool_fails_exactly_the_tests_that_name_its_fault(tool, failed):
    assert failed[f"{tool}Tool"] == TOOLS[tool]


@pytest.mark.parametrize("plugin", FAILS_IN_SEVERAL)
def test_what_cannot_be_used_at_all_is_told_why(plugin, failed):
    assert FAILS_IN_SEVERAL[plugin] in failed[plugin]
