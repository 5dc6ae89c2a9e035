from __future__ import annotations

import argparse
import asyncio
import io
import json
import subprocess
import sys

import pytest

from pml_search import command, evaluators
from pml_search.plugin import pml_commands
from pml_testing.fakes import FakeCatalog, FakeServices, entry


@pytest.fixture
def search(capsys):
    parser = argparse.ArgumentParser(prog="pml")
    pml_commands(parser.add_subparsers())

    def run(*words, services=None):
        arguments = parser.parse_args(["search", *map(str, words)])
        arguments.services = services
        status = arguments.run(arguments)
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


def test_people_get_a_table(search, catalog_file):
    status, out, err = search("send an email", "--catalog", catalog_file, "--limit", 2)
    first, second = out.splitlines()
    assert (status, err) == (0, "")
    assert first.split()[1:] == ["mail:send_email", *["Send", "an", "email", "to", "one", "or", "more", "recipients."]]
    assert float(first.split()[0]) >= float(second.split()[0])


def test_programs_get_json(search, catalog_file):
    _, out, _ = search("send", "an", "email", "--catalog", catalog_file, "--json", "--limit", 1)
    answer = json.loads(out)
    assert answer["query"] == "send an email"
    assert answer["total_tools"] == 35
    (match,) = answer["matches"]
    assert set(match) == {"id", "server", "score", "description"}


def test_full_detail_has_the_schemas(search, catalog_file):
    words = ("read file", "--catalog", catalog_file, "--limit", 1, "--detail", "full")
    _, out, _ = search(*words, "--json")
    (match,) = json.loads(out)["matches"]
    assert match["inputSchema"]["required"] == ["path"]
    assert match["annotations"] == {"readOnlyHint": True}
    _, out, _ = search(*words)
    assert 'outputSchema: {"type": "object"' in out


def test_an_explanation_says_which_evidence_gave_what(search, catalog_file):
    words = ("Datei losschicken und lesen", "--catalog", catalog_file, "--limit", 3, "--explain")
    _, out, _ = search(*words, "--json")
    answer = json.loads(out)
    assert "file" in answer["explain"]["read_as"]
    for match in answer["matches"]:
        assert set(match["explain"]) >= {"score", "fit", "probability", "words", "cosine", "server", "structure"}
    found = {match["id"]: match["explain"] for match in answer["matches"]}
    assert {"word": "file", "as": "file"}.items() <= found["files:read_file"]["words"][0].items()
    assert "name" in found["files:read_file"]["words"][0]["in"]
    _, out, _ = search(*words)
    assert out.startswith("read as: ")
    assert "cosine" in out


def test_a_search_can_be_kept_to_a_server_and_an_effect(search, catalog_file):
    _, out, _ = search("issue", "--catalog", catalog_file, "--server", "forge", "--json")
    assert {match["server"] for match in json.loads(out)["matches"]} == {"forge"}
    _, out, _ = search("file", "--catalog", catalog_file, "--effect", "read", "--json", "--limit", 50)
    reading = {match["id"] for match in json.loads(out)["matches"]}
    _, out, _ = search("file", "--catalog", catalog_file, "--effect", "write", "--json", "--limit", 50)
    writing = {match["id"] for match in json.loads(out)["matches"]}
    assert "files:read_file" in reading
    assert "files:delete_file" in writing
    assert len(reading) + len(writing) == 35
    assert not reading & writing


def test_the_least_score_leaves_the_rest_out_and_nothing_found_is_said(search, catalog_file):
    status, out, _ = search("water my plants", "--catalog", catalog_file, "--min-score", "0.5")
    assert status == 1
    assert out == "Nothing found in 35 tools. Use other or fewer words.\n"


def test_the_gateways_own_catalog_is_searched_when_it_is_given(search):
    catalog = FakeCatalog([entry("pml:search_tools", "Find tools"), entry("mail:send", "Send an email")])
    status, out, _ = search("find tools email", "--json", services=FakeServices(catalog=catalog))
    assert (status, [match["id"] for match in json.loads(out)["matches"]]) == (0, ["mail:send"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "say what the tool should do"),
        (["read", "--catalog", "no/such/file"], "no/such/file: cannot be read: No such file or directory"),
        (["read", "--jsonl", "x"], "leave out QUERY and --catalog"),
        (["--jsonl", "no/such/file"], "cannot be read"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(search, words, message):
    status, out, err = search(*words)
    assert (status, out) == (2, "")
    assert message in err


def test_without_a_catalog_it_takes_the_gateways_own_and_says_so_when_that_is_empty(search, capsys):
    assert search("read")[0] is None
    arguments = argparse.Namespace(query=["read"], catalog=None, jsonl=None)
    assert asyncio.run(command.run_with(arguments, FakeServices(catalog=FakeCatalog(())))) == 2
    assert "the gateway has not seen any yet" in capsys.readouterr().err


def test_an_unknown_server_is_told_with_the_nearest(search, catalog_file):
    status, _, err = search("issue", "--catalog", catalog_file, "--server", "forges")
    assert status == 2
    assert "did you mean 'forge'?" in err


@pytest.mark.parametrize("words", [["--limit", "0"], ["--limit", "x"], ["--min-score", "2"], ["--effect", "none"]])
def test_bad_options_are_refused(search, words, capsys):
    with pytest.raises(SystemExit) as stopped:
        search("read", *words)
    assert stopped.value.code == 2


def test_bad_lines_of_a_catalog_are_left_out_and_named(search, tmp_path):
    good = {"id": "a:read", "server": "a", "name": "read", "description": "Read a file", "input_schema": {}}
    lines = [json.dumps(good), "{", "[]", json.dumps({"id": 1}), "", json.dumps(good), "\xff"]
    file = tmp_path / "catalog.jsonl"
    file.write_bytes("\n".join(lines).encode("latin1"))
    status, out, err = search("read a file", "--catalog", file)
    assert status == 0
    assert "a:read" in out
    assert [line.split(":")[1] for line in err.splitlines()] == ["2", "3", "4", "6", "7"]
    file.write_text("{\n")
    status, _, err = search("read a file", "--catalog", file)
    assert status == 2
    assert "no line of it is a tool" in err


def test_a_terminal_that_knows_few_letters_gets_others_replaced(catalog_file, tmp_path):
    file = tmp_path / "catalog.jsonl"
    tool = {"id": "ä:lesen", "server": "ä", "name": "lesen", "description": "Liest eine Datei\x1b[31m…"}
    file.write_text(json.dumps(tool))
    code = (
        "import argparse; from pml_search.command import add; p = argparse.ArgumentParser(); add(p.add_subparsers());"
        f"a = p.parse_args(['search', 'lesen', '--catalog', {str(file)!r}]); raise SystemExit(a.run(a))"
    )
    command = [sys.executable, "-X", "utf8=0", "-c", code]
    shown = subprocess.run(command, check=False, capture_output=True, env={"PYTHONIOENCODING": "ascii"})
    assert shown.returncode == 0, shown.stderr
    assert b"?:lesen" in shown.stdout
    assert b"\x1b" not in shown.stdout


def answered(ranker, *lines):
    out, errors = io.StringIO(), io.StringIO()
    evaluators.answer(ranker, io.BytesIO(b"".join(line + b"\n" for line in lines)), out, errors)
    return [json.loads(line) for line in out.getvalue().splitlines()], errors.getvalue().splitlines()


def test_each_line_of_an_evaluator_is_answered_with_one_line(ranker):
    asked = [
        json.dumps({"qid": n, "query": query, "k": 3}).encode() for n, query in enumerate(["read a file", "", "mail"])
    ]
    answers, errors = answered(ranker, *asked)
    assert errors == []
    assert [answer["qid"] for answer in answers] == [0, 1, 2]
    assert answers[0]["ids"][0] == "files:read_file"
    assert [len(answer["ids"]) for answer in answers] == [3, 0, 3]
    for answer in answers:
        assert len(answer["scores"]) == len(answer["ids"])
        assert sorted(answer["scores"], reverse=True) == answer["scores"]


def test_bad_lines_are_skipped_with_an_error_object(ranker):
    bad = [b"{", b"[]", b'{"query": "x"}', b'{"qid": 1, "query": 2}', b'{"qid": 1, "query": "x", "k": 0}', b"\xff"]
    answers, errors = answered(ranker, *bad, b"", b'{"qid": "good", "query": "read a file"}')
    assert [answer["qid"] for answer in answers] == ["good"]
    assert len(answers[0]["ids"]) == 20
    assert [json.loads(line)["line"] for line in errors] == [1, 2, 3, 4, 5, 6]


def test_an_answer_comes_before_the_next_question(catalog_file):
    code = (
        "import argparse; from pml_search.command import add; p = argparse.ArgumentParser(); add(p.add_subparsers());"
        f"a = p.parse_args(['search', '--jsonl', {str(catalog_file)!r}]); raise SystemExit(a.run(a))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for n in range(3):
            process.stdin.write(json.dumps({"qid": n, "query": "read a file", "k": 1}).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert (answer["qid"], answer["ids"]) == (n, ["files:read_file"])
        process.stdin.close()
        assert process.wait(10) == 0
