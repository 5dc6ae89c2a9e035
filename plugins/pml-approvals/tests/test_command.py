from __future__ import annotations

import argparse
import asyncio
import json

import pytest

from pml_approvals import plugin
from pml_approvals.requests import Requests
from pml_approvals.settings import Settings
from pml_approvals.subject import Subject
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import InvalidArguments
from pml_testing.fakes import FakeRun, FakeServices


@pytest.fixture
def services():
    return FakeServices("approvals", store=MemoryStore())


@pytest.fixture
def pml(services):
    def run(*words):
        parser = argparse.ArgumentParser()
        plugin.pml_commands(parser.add_subparsers())
        arguments = parser.parse_args(["approvals", *words])
        return asyncio.run(arguments.run_with(arguments, services))

    return run


def asked(services, **request):
    subject = Subject("tool", "db:drop", request, "digest")
    return asyncio.run(Requests(services, Settings()).ask(subject, FakeRun(intent="tidy \x1b[31mup")))


def test_an_empty_list_says_so(pml, capsys):
    assert pml("list") == 0
    assert capsys.readouterr().out == "Nothing waits for a human.\n"


def test_a_request_is_listed_shown_approved_and_then_answered(pml, services, capsys):
    request = asked(services, table="x")
    assert pml("list", "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["id"], listed["state"], listed["request"]) == (request.id, "pending", {"table": "x"})
    assert pml("show", request.id) == 0
    assert json.loads(capsys.readouterr().out)["target"] == "db:drop"
    assert pml("approve", request.id) == 0
    assert "is approved" in capsys.readouterr().out
    with pytest.raises(InvalidArguments, match="is approved already"):
        pml("deny", request.id)
    assert pml("list") == 0
    assert "Nothing waits" in capsys.readouterr().out
    assert pml("list", "--all", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["answered_by"]


def test_a_table_for_people_obeys_nothing_that_agents_write(pml, services, capsys):
    asked(services, text="[bold]no markup[/bold]")
    assert pml("list") == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "db:drop" in out


def test_a_denial_keeps_its_reason(pml, services, capsys):
    request = asked(services)
    assert pml("deny", request.id, "--reason", "no", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"id": request.id, "state": "denied"}
    kept = asyncio.run(Requests(services, Settings()).get(request.id))
    assert kept.value["reason"] == "no"


@pytest.mark.parametrize(
    ("words", "message"),
    [(["show", "apr-0"], "There is no request 'apr-0'"), (["list", "--limit", "0"], "--limit must be 1 to 1000")],
)
def test_mistakes_are_told(pml, words, message):
    with pytest.raises(InvalidArguments, match=message):
        pml(*words)


@pytest.mark.parametrize("columns", ["80", "40"])
def test_ids_are_whole_in_any_terminal(pml, services, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    made = [asked(services, text="words " * 20) for _ in range(3)]
    assert pml("list") == 0
    out = capsys.readouterr().out
    assert all(request.id in out for request in made)


def test_the_beginning_of_an_id_will_do_where_only_one_begins_so(pml, services, capsys, monkeypatch):
    for id in ("abc", "ac", "acd"):
        monkeypatch.setattr("secrets.token_hex", lambda _size, made=id: made)
        asked(services)
    for typed, meant in (("apr-ab", "apr-abc"), ("apr-ac", "apr-ac"), ("apr-acd", "apr-acd")):
        assert pml("approve", typed, "--json") == 0
        assert json.loads(capsys.readouterr().out)["id"] == meant
    with pytest.raises(InvalidArguments, match="More than one request begins with 'apr-a'"):
        pml("deny", "apr-a")
    with pytest.raises(InvalidArguments, match="There is no request ''"):
        pml("deny", "")
