from __future__ import annotations

import argparse
import asyncio
import json

import pytest

from pml_audit import plugin
from pml_audit.heads import Heads
from pml_audit.trail import Trail, note
from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import InvalidArguments
from pml_testing.fakes import FakeServices


@pytest.fixture
def services(folder):
    return FakeServices("audit", store=MemoryStore())


@pytest.fixture
def pml(services):
    def run(*words):
        parser = argparse.ArgumentParser()
        plugin.pml_commands(parser.add_subparsers())
        arguments = parser.parse_args(["audit", *words])
        return asyncio.run(arguments.run_with(arguments, services))

    return run


@pytest.fixture
def filled(trail):
    trail.append([note("denied", principal="alice", target="fs:drop", message="no \x1b[31m[bold]way[/bold]")])
    trail.append([note("query", principal="bob", target="pml:list_recent_executions", arguments={"hours": 2})])
    trail.append([note("key.used", principal="alice", endpoint="default")])
    return trail


def test_the_last_rows_are_listed_the_newest_first(pml, filled, capsys):
    assert pml("list", "--json") == 0
    assert [row["n"] for row in json.loads(capsys.readouterr().out)] == [4, 3, 2, 1]
    assert pml("list", "--json", "--limit", "1") == 0
    assert [row["kind"] for row in json.loads(capsys.readouterr().out)] == ["key.used"]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["--kind", "denied"], [2]),
        (["--kind", "audit.*"], [1]),
        (["--principal", "alice"], [4, 2]),
        (["--since", "1h"], [4, 3, 2, 1]),
        (["--since", "2999-01-01"], []),
        (["--kind", "denied", "--principal", "bob"], []),
    ],
)
def test_lists_are_narrowed(pml, filled, capsys, words, numbers):
    assert pml("list", "--json", *words) == 0
    assert [row["n"] for row in json.loads(capsys.readouterr().out)] == numbers


def test_a_table_for_people_obeys_nothing_that_clients_write(pml, filled, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert pml("list") == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[bold]way" in out
    assert "fs:drop" in out


def test_an_empty_audit_says_so(pml, capsys):
    assert pml("list") == 0
    assert pml("verify") == 0
    out = capsys.readouterr().out
    assert "There are no such rows." in out
    assert "There are no rows yet" in out


def test_verify_of_a_whole_audit_gives_0(pml, filled, capsys, folder):
    assert pml("verify") == 0
    assert f"All 4 rows in {folder} are as they were written" in capsys.readouterr().out
    assert pml("verify", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["rows"], told["first_broken"]) == (True, 4, None)


def test_verify_of_a_tampered_audit_gives_1_and_the_first_broken_row(pml, filled, capsys, folder):
    path = folder / "audit.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"bob"', b'"eve"'))
    assert pml("verify") == 1
    out = capsys.readouterr().out
    assert f"Broken: {path}, line 3: row 3 was changed" in out
    assert "2 rows before it are as they were written" in out
    assert pml("verify", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["first_broken"]["file"], told["first_broken"]["line"]) == (str(path), 3)


def test_verify_asks_the_store_how_far_the_rows_go(pml, filled, services, capsys, folder):
    asyncio.run(Heads(services, folder).keep(filled.tip))
    assert pml("verify") == 0
    for path in (folder / "audit.jsonl", folder / "audit.head"):
        path.unlink()
    assert pml("verify") == 1
    assert "rows 1 to 4 are missing at the end; the store knows of them" in capsys.readouterr().out


def test_verify_tells_of_half_a_row_and_gives_0(pml, filled, capsys, folder):
    with (folder / "audit.jsonl").open("ab") as file:
        file.write(b'{"half')
    assert pml("verify") == 0
    assert "Note: " in capsys.readouterr().out


def test_an_export_is_the_rows_byte_for_byte(pml, filled, capsys, folder, tmp_path):
    output = tmp_path / "out.jsonl"
    assert pml("export", "--output", str(output)) == 0
    assert output.read_bytes() == (folder / "audit.jsonl").read_bytes()
    assert "4 rows" in capsys.readouterr().err
    with pytest.raises(InvalidArguments, match="is there already"):
        pml("export", "--output", str(output))
    with pytest.raises(InvalidArguments, match="No such file"):
        pml("export", "--output", str(tmp_path / "nowhere" / "x"))
    assert pml("export", "--kind", "denied") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["principal"] == "alice"


def test_an_export_as_json_says_how_far_the_rows_go(pml, filled, capsys):
    assert pml("export", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["audit"]["ok"] is True
    assert told["audit"]["last"] == {"n": 4, "hash": filled.tip.hash}
    assert [row["n"] for row in told["rows"]] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["list", "--limit", "0"], "--limit must be 1 to"),
        (["list", "--since", "soon"], "--since 'soon': give an age such as 30d"),
    ],
)
def test_mistakes_are_told(pml, filled, words, message):
    with pytest.raises(InvalidArguments, match=message):
        pml(*words)


def doctor(services):
    async def examined():
        (line,) = plugin.pml_checks(services)
        return await line

    return asyncio.run(examined())


def cut(folder, count):
    """Take the last rows away, and have the head say that there never were any."""
    path = folder / "audit.jsonl"
    left = path.read_bytes().splitlines(keepends=True)[:-count]
    path.write_bytes(b"".join(left))
    last = json.loads(left[-1])
    head = {"n": last["n"], "hash": last["hash"], "size": sum(map(len, left))}
    (folder / "audit.head").write_text(json.dumps(head))


@pytest.mark.attack("The audit stands up", "cut the last rows off, rewrite audit.head to fit, and ask the doctor")
def test_the_doctor_and_exports_find_what_was_cut_off_together_with_its_head(pml, filled, services, capsys, folder):
    asyncio.run(Heads(services, folder).keep(filled.tip))
    assert doctor(services).ok
    cut(folder, 2)
    check = doctor(services)
    assert not check.ok
    assert "rows 3 to 4 are missing at the end; the store knows of them" in check.detail
    assert pml("export", "--json") == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["audit"]["ok"] is False
    assert "rows 3 to 4 are missing" in told.err
    assert pml("export") == 1
    assert pml("verify") == 1


@pytest.mark.attack("The audit stands up", "cut rows off, move the folder, or give the host another name")
@pytest.mark.parametrize("moved", [True, False])
def test_rows_that_are_missing_are_missed_wherever_the_folder_is(
    pml, filled, services, capsys, folder, monkeypatch, moved
):
    asyncio.run(Heads(services, folder).keep(filled.tip))
    cut(folder, 2)
    if moved:
        home = folder.parent.with_name("elsewhere")
        folder.parent.rename(home)
        monkeypatch.setenv("PML_HOME", str(home))
    else:
        monkeypatch.setattr("socket.gethostname", lambda: "another")
    assert pml("verify") == 1
    assert "rows 3 to 4 are missing at the end; the store knows of them" in capsys.readouterr().out


@pytest.mark.attack("The audit stands up", "write the whole audit anew, with an id of its own, in another folder")
def test_an_audit_that_the_store_does_not_know_is_not_called_whole(pml, filled, services, capsys, folder, monkeypatch):
    asyncio.run(Heads(services, folder).keep(filled.tip))
    other = folder.parent.with_name("other")
    Trail(other / "audit", file_bytes=10_000_000, sync=False).append([note("denied", principal="nobody")])
    monkeypatch.setenv("PML_HOME", str(other))
    assert pml("verify") == 1
    assert "the store knows other audits, and not this one" in capsys.readouterr().out
    assert not doctor(services).ok


def test_a_folder_that_was_moved_as_it_is_verifies(pml, filled, services, folder, monkeypatch):
    asyncio.run(Heads(services, folder).keep(filled.tip))
    folder.parent.rename(folder.parent.with_name("elsewhere"))
    monkeypatch.setenv("PML_HOME", str(folder.parent.with_name("elsewhere")))
    assert pml("verify") == 0


def test_a_store_that_knows_no_audit_is_told(pml, filled, capsys):
    assert pml("verify") == 0
    assert "The store knows of no audit" in capsys.readouterr().out


def test_the_doctor_says_whether_the_audit_is_whole(services, filled, folder):
    check = doctor(services)
    assert check.ok
    path = folder / "audit.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"bob"', b'"eve"'))
    check = doctor(services)
    assert not check.ok
    assert "line 3" in check.detail
