"""Which tests of the contract have to do with what a wrong store does otherwise than the good one.

Copied beside the stores, where the contract is run: first over the good one, then over the wrong ones.
"""

from __future__ import annotations

import functools
import inspect
import json
from pathlib import Path

import pytest
from good_documents import GoodDocuments
from good_history import GoodHistory
from wrong_stores import Good, GoodSecrets

CALLED = Path(__file__).with_name("called.json")
"""Test to the functions of the good store that it calls."""
UNWATCHED = "test_what_was_put_survives_a_kill"
"""Its store is in a process of its own."""


class CallRecorder:
    """Mixed into the contract of the good store: writes down what each test calls."""

    called: dict[str, list[str]] = {}  # noqa: RUF012 - of all tests

    @pytest.fixture(autouse=True)
    def _watched(self, request, monkeypatch):
        names = set()

        def noting(function):
            @functools.wraps(function)
            def noted(*args, **kwargs):
                names.add(function.__qualname__)
                return function(*args, **kwargs)

            return noted

        for kind in (Good, GoodHistory, GoodSecrets, GoodDocuments):
            for name, member in [*vars(kind).items()]:
                if inspect.isfunction(member):
                    monkeypatch.setattr(kind, name, noting(member))
        yield
        self.called.setdefault(request.node.originalname, []).extend(names)

    @pytest.fixture(autouse=True, scope="class")
    def _written(self):
        yield
        CALLED.write_text(json.dumps(self.called), encoding="utf-8")


def differences(kind, good):
    """Names of the functions of ``good`` that ``kind`` has otherwise; None for another value."""
    for parent in kind.__mro__[: kind.__mro__.index(good)]:
        for name, member in vars(parent).items():
            right = getattr(good, name, None)
            if isinstance(member, type) and right is not None:
                yield from differences(member, right)
            elif right is not None and (inspect.isfunction(member) or not name.startswith("__")):
                yield getattr(right, "__qualname__", None)


def pytest_collection_modifyitems(config, items):
    """A test that calls nothing which a store does otherwise shows of it what it shows of the good one."""
    called = json.loads(CALLED.read_text(encoding="utf-8"))
    wrong = {kind: {*differences(kind, Good)} for kind in {item.cls.kind for item in items}}

    def unconcerned(item):
        names = wrong[item.cls.kind]
        seen = item.originalname != UNWATCHED and None not in names
        return seen and names.isdisjoint(called[item.originalname])

    left_out = [item for item in items if unconcerned(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not unconcerned(item)]
