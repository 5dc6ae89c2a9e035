from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from xml.etree import ElementTree as ET

import pytest

MODES = """
from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from pml_hookspecs import Selection, setting


@dataclass(frozen=True)
class Settings:
    limit: int = setting(5, "Most tools [tools].", ge=0)


class Good:
    settings_type = Settings

    def __init__(self, settings=None, services=None):
        self.settings = settings or Settings()

    async def found(self, catalog, session):
        hits = await catalog.search(session.intent, limit=self.settings.limit)
        return tuple(e.id for e in catalog if e.meta) + tuple(hit.id for hit in hits)

    async def select(self, catalog, session):
        return Selection(await self.found(catalog, session))


class GivesAList(Good):
    async def select(self, catalog, session):
        return Selection(list(await self.found(catalog, session)))


class MakesThingsUp(Good):
    async def found(self, catalog, session):
        return (*await super().found(catalog, session), "nobody:nothing")


class Repeats(Good):
    async def found(self, catalog, session):
        return await super().found(catalog, session) * 2


class ExplainsWhatItDoesNotShow(Good):
    async def select(self, catalog, session):
        return Selection(await self.found(catalog, session), why={"nobody:nothing": "just so"})


class ExplainsAtLength(Good):
    async def select(self, catalog, session):
        tools = await self.found(catalog, session)
        return Selection(tools, why=dict.fromkeys(tools, "first line\\nsecond line"))


class NeedsAnIntent(Good):
    async def found(self, catalog, session):
        return await super().found(catalog, session) if session.intent else ()


class WritesIntoDefinitions(Good):
    async def select(self, catalog, session):
        for entry in catalog:
            entry.definition["seen"] = True
        return await super().select(catalog, session)


class NeedsSomeTool(Good):
    async def found(self, catalog, session):
        next(e for e in catalog)
        return await super().found(catalog, session)


class RemembersTheLastIntent(Good):
    last = ""

    async def found(self, catalog, session):
        self.last = session.intent or self.last
        return tuple(e.id for e in catalog if not self.last or "read" in e.name and "read" in self.last)


class OrdersByHash(Good):
    async def found(self, catalog, session):
        return tuple(sorted(await super().found(catalog, session), key=hash))


class OrdersBySize(Good):
    async def found(self, catalog, session):
        return tuple(e.id for e in catalog)[:: -1 if len(catalog) > 40 else 1]


class SharesWhatDependsOnTheIntent(Good):
    async def select(self, catalog, session):
        return Selection(await self.found(catalog, session), shared=True)


class SharesWhatDependsOnThePrincipal(Good):
    async def select(self, catalog, session):
        return Selection(tuple(e.id for e in catalog if session.principal == "local" or not e.own), shared=True)


class IsSlow(Good):
    async def found(self, catalog, session):
        if len(catalog) == 687:
            time.sleep(0.06)
        return await super().found(catalog, session)


class ReadsAFileWhenMade(Good):
    def __init__(self, settings=None, services=None):
        super().__init__(settings, services)
        with open(__file__) as file:
            file.read(1)


@dataclass
class Mutable:
    limit: int = setting(5, "Most tools [tools].")


class HasMutableSettings(Good):
    settings_type = Mutable


@dataclass(frozen=True)
class Undescribed:
    limit: int = 5


class DoesNotDescribeItsSettings(Good):
    settings_type = Undescribed


@dataclass(frozen=True)
class Tuples:
    limit: int = setting(5, "Most tools [tools].")
    hidden: tuple[str, ...] = setting(("a",), "Tools not to show.")


class HasSettingsThatAreNotJson(Good):
    settings_type = Tuples


@dataclass(frozen=True)
class Required:
    limit: int


class RequiresASetting(Good):
    settings_type = Required


class TakesNothing:
    async def select(self, catalog, session):
        return Selection(())
"""
HEAD = """
import modes
import pytest
from pml_testing.exposure_mode import ExposureModeContract


class TestRequiresASetting(ExposureModeContract):
    @pytest.fixture
    def mode_type(self):
        return modes.RequiresASetting

    @pytest.fixture
    def settings(self):
        return modes.Required(limit=5)
"""
TEMPLATE = """

class Test{name}(ExposureModeContract):
    @pytest.fixture
    def mode_type(self):
        return modes.{name}
"""
EVERY_SIZE = {
    "test_returns_a_selection",
    "test_every_id_is_in_the_catalog",
    "test_no_tool_is_listed_twice",
    "test_reasons_are_one_line_each_and_for_listed_tools",
    "test_the_same_question_gets_the_same_answer",
}
EXPECTED: dict[str, set[str]] = {
    "Good": set(),
    "GivesAList": {"test_returns_a_selection"},
    "MakesThingsUp": {"test_every_id_is_in_the_catalog"},
    "Repeats": {"test_no_tool_is_listed_twice"},
    "ExplainsWhatItDoesNotShow": {"test_reasons_are_one_line_each_and_for_listed_tools"},
    "ExplainsAtLength": {"test_reasons_are_one_line_each_and_for_listed_tools"},
    "NeedsAnIntent": {"test_is_usable_without_an_intent"},
    "WritesIntoDefinitions": {"test_definitions_are_left_as_they_are"},
    "NeedsSomeTool": EVERY_SIZE,
    "RemembersTheLastIntent": {
        "test_the_same_question_gets_the_same_answer",
        "test_a_new_instance_gives_the_same_answer",
    },
    "OrdersByHash": {"test_another_process_with_another_hash_seed_gives_the_same_answer"},
    "OrdersBySize": {"test_the_order_stays_when_an_unrelated_server_changes"},
    "SharesWhatDependsOnTheIntent": {"test_a_shared_answer_is_the_same_for_everyone"},
    "SharesWhatDependsOnThePrincipal": {"test_a_shared_answer_is_the_same_for_everyone"},
    "IsSlow": {"test_a_large_catalog_is_answered_in_time"},
    "ReadsAFileWhenMade": {"test_is_constructed_from_settings_and_services_without_input_or_output"},
    "HasMutableSettings": {"test_settings_are_a_frozen_dataclass"},
    "DoesNotDescribeItsSettings": {"test_every_setting_has_a_default_and_a_description"},
    "HasSettingsThatAreNotJson": {"test_settings_survive_a_round_trip"},
    "RequiresASetting": {"test_every_setting_has_a_default_and_a_description"},
    "TakesNothing": {"test_is_constructed_from_settings_and_services_without_input_or_output"},
}
"""Mode to the contract tests that fail when called. Those that cannot even construct it are errors and not counted."""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Mode to the tests that failed: one run of the contract over all modes, in a process of its own."""
    folder = tmp_path_factory.mktemp("contract")
    classes = "".join(TEMPLATE.format(name=name) for name in EXPECTED if name != "RequiresASetting")
    (folder / "modes.py").write_text(MODES)
    (folder / "test_modes.py").write_text(HEAD + classes)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q --import-mode=importlib\npythonpath = .\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=run.xml", "test_modes.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    found = defaultdict(set)
    for case in ET.parse(folder / "run.xml").iter("testcase"):
        mode = case.attrib["classname"].rpartition(".Test")[2]
        found[mode] |= {case.attrib["name"].partition("[")[0]} if case.find("failure") is not None else set()
    return found


def test_every_mode_was_tested(failed: dict[str, set[str]]) -> None:
    assert failed.keys() == EXPECTED.keys()


@pytest.mark.parametrize("mode", EXPECTED)
def test_a_wrong_mode_fails_exactly_the_tests_that_name_its_fault(mode: str, failed: dict[str, set[str]]) -> None:
    assert failed[mode] == EXPECTED[mode]
