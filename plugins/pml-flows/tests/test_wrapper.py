"""The wrapper, where nothing flows; with a gateway around it, ``tests/integration/test_flows.py``."""

from __future__ import annotations

import pytest

from pml_flows.plugin import FlowWrapper, wrapper_of
from pml_flows.plugin import pml_offers as offers
from pml_flows.plugin import pml_wrap_executor as wrappers
from pml_flows.settings import Settings
from pml_hookspecs import CodeRun, ToolCall, ToolId, Workflow
from pml_kit.offers import CONNECTIONS
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry
from pml_testing.wrapper import WrapperContract

TASKS = [
    ToolCall(id="call", tool=ToolId("s:t")),
    CodeRun(id="code", language="python", source="1"),
    Workflow(id="plan", tasks=()),
]


class Words:
    """Of servers."""

    def __init__(self, **words):
        self._words = words

    def words(self):
        return self._words


def services(settings=None, **words):
    made = FakeServices(catalog=FakeCatalog([entry("s:t", "Does it.")]), settings=settings)
    made.offer(CONNECTIONS, Words(**words))
    return made


class TestFlowWrapper(WrapperContract):
    @pytest.fixture(params=[{}, {"s": "untrusted"}], ids=["trusted", "untrusted"])
    def wrapper(self, request):
        return FlowWrapper(services(**request.param))

    @pytest.fixture
    def tasks(self):
        return TASKS


def test_nothing_is_loaded_or_changed_where_every_server_is_trusted():
    wrapper, heard = FlowWrapper(services(s="trusted")), []
    for task in TASKS:
        wrapper(task, FakeRun(), lambda given, run: heard.append(given))
    assert [given is task for given, task in zip(heard, TASKS, strict=True)] == [True] * 3
    assert wrapper._follower is None
    assert wrapper.of("x") == ()


def test_off_is_off():
    made = services(Settings(action="off"))
    assert list(wrappers(made)) == []
    assert [offer.service for offer in offers(made)] == [wrapper_of(made)]
