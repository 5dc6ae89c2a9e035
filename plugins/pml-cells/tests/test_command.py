"""``pml notebook``, with a real sandbox."""

from __future__ import annotations

import argparse
import json

import pytest

import pml_cells.plugin
from pml_core.cli import main

SRCMD = """\
<!-- srcbook:{"language":"typescript"} -->

# Sums

###### package.json

```json
{}
```

Words.

###### sum.ts

```typescript
export const sum = (all: number[]) => all.reduce((a, b) => a + b, 0);
```

###### main.ts

```typescript
import { sum } from "./sum.ts";
console.log("sum:", sum([1, 2]));
```
"""


@pytest.fixture
def pml(tmp_path, monkeypatch, capsys):
    """Runs ``pml``; the exit status and what it said."""
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def ran(*words: str) -> tuple[int, str, str]:
        try:
            status = main(list(words))
        except SystemExit as exc:
            status = int(exc.code or 0)
        return (status, *capsys.readouterr())

    return ran


def test_a_notebook_is_imported_run_shown_exported_and_deleted(pml, tmp_path) -> None:
    (tmp_path / "sums.src.md").write_text(SRCMD)
    status, out, _ = pml("notebook", "import", "sums.src.md")
    assert status == 0
    id_ = out.strip()
    assert (tmp_path / "home" / "notebooks" / id_ / "src" / "sum.ts").exists()
    status, out, err = pml("notebook", "run", id_)
    assert status == 0, err
    assert "main.ts | sum: 3" in out
    assert "sum.ts" in out
    status, out, _ = pml("notebook", "run", id_, "--cell", "main.ts", "--json")
    (told,) = json.loads(out)
    assert (status, told["filename"], told["stdout"], told["exitCode"]) == (0, "main.ts", "sum: 3\n", 0)
    assert "Sums" in pml("notebook", "list")[1]
    assert json.loads(pml("notebook", "list", "--json")[1])[0]["sessionId"] == id_
    assert "main.ts" in pml("notebook", "show", id_)[1]
    assert f"npm install --prefix {tmp_path / 'home' / 'notebooks'} NAME" in pml("notebook", "show", id_)[1]
    assert json.loads(pml("notebook", "show", id_, "--json")[1])["cells"][2]["text"] == "Words."
    assert pml("notebook", "export", id_)[1] == SRCMD
    assert pml("notebook", "export", id_, "out.src.md")[0] == 0
    assert (tmp_path / "out.src.md").read_text() == SRCMD
    assert pml("notebook", "export", id_, "out.src.md")[0] == 2
    assert pml("notebook", "export", id_, "out.src.md", "--force")[0] == 0
    folder = tmp_path / "home" / "notebooks" / id_
    copy = pml("notebook", "import", str(folder))[1].strip()
    assert pml("notebook", "export", copy)[1] == SRCMD
    assert pml("notebook", "delete", id_)[0] == 0
    assert not folder.exists()
    status, _, err = pml("notebook", "show", id_)
    assert status == 2
    assert "SESSION_NOT_FOUND" in err


def test_a_run_stops_at_the_first_cell_that_fails_or_goes_on(pml, tmp_path) -> None:
    cells = {"a.ts": "console.log('\\x1b[31mred')", "b.ts": "Deno.exit(4)", "c.ts": "console.log('last')"}
    text = '<!-- srcbook:{"language":"typescript"} -->\n# T\n'
    text += "".join(f"###### {name}\n```ts\n{source}\n```\n" for name, source in cells.items())
    (tmp_path / "t.src.md").write_text(text)
    id_ = pml("notebook", "import", "t.src.md")[1].strip()
    status, out, _ = pml("notebook", "run", id_, "--json")
    assert status == 1
    assert [(told["filename"], told["exitCode"]) for told in json.loads(out)] == [("a.ts", 0), ("b.ts", 4)]
    status, out, _ = pml("notebook", "run", id_, "--keep-going")
    assert status == 1
    assert "c.ts | last" in out
    assert "\x1b[31m" not in out


def test_a_cell_that_does_not_end_is_stopped_when_its_time_is_over(pml, tmp_path) -> None:
    text = '<!-- srcbook:{"language":"typescript"} -->\n# T\n###### a.ts\n```ts\nwhile (true);\n```\n'
    (tmp_path / "t.src.md").write_text(text)
    id_ = pml("notebook", "import", "t.src.md")[1].strip()
    status, out, _ = pml("notebook", "run", id_, "--timeout", "300", "--json")
    assert (status, [told["exitCode"] for told in json.loads(out)]) == (1, [124])


def test_a_python_notebook_of_jupyters_goes_in_and_out(pml, tmp_path) -> None:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": "# From Jupyter\n\n# Part"},
        {"cell_type": "code", "metadata": {}, "source": ["print(1)"], "outputs": [], "execution_count": 1},
    ]
    (tmp_path / "j.ipynb").write_text(json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}))
    status, out, err = pml("notebook", "import", "j.ipynb")
    assert status == 0
    assert "1 headings are one level lower" in err
    id_ = out.strip()
    assert pml("notebook", "export", id_, "out.ipynb")[0] == 0
    told = json.loads((tmp_path / "out.ipynb").read_text())
    assert ["".join(cell["source"]) for cell in told["cells"]] == ["# From Jupyter", "## Part", "print(1)"]
    assert "###### cell_1.py\n\n```python\nprint(1)\n```" in pml("notebook", "export", id_)[1]


def test_a_new_notebook_belongs_to_whom_it_is_made_for(pml) -> None:
    assert "There are no notebooks yet" in pml("notebook", "list")[1]
    id_ = pml("notebook", "create", "Mine", "--language", "python", "--tools", "fs:*", "--tools", "a:b")[1].strip()
    other = pml("notebook", "create", "Hers", "--owner", "ann")[1].strip()
    told = {one["sessionId"]: one for one in json.loads(pml("notebook", "list", "--json")[1])}
    assert (told[id_]["owner"], told[id_]["tools"], told[id_]["language"]) == ("local", ["fs:*", "a:b"], "python")
    assert told[other]["owner"] == "ann"


def test_mistakes_are_told_without_a_traceback(pml, tmp_path) -> None:
    id_ = pml("notebook", "create", "Empty")[1].strip()
    (tmp_path / "broken.src.md").write_text("words")
    (tmp_path / "latin.src.md").write_bytes(b"\xe9")
    (tmp_path / "empty").mkdir()
    for words, says in (
        (("create", "a #"), "a title is one line"),
        (("import", "nope.src.md"), "nope.src.md: cannot be read: No such file"),
        (("import", "broken.src.md"), "broken.src.md: this is no notebook"),
        (("import", "latin.src.md"), "latin.src.md: is not UTF-8"),
        (("import", "empty"), "empty: cannot be read"),
        (("import", "pyproject.toml"), "cannot be read"),
        (("export", id_, "out.txt"), "out.txt: the name must end with .src.md or .ipynb"),
        (("export", id_, "out.ipynb"), "package.json is no Python"),
        (("export", id_, "no/such/out.src.md"), "cannot be written"),
        (("run", id_), "has no code cells"),
        (("show", "nope"), "SESSION_NOT_FOUND"),
        (("delete", "nope"), "SESSION_NOT_FOUND"),
    ):
        status, out, err = pml("notebook", *words)
        assert (status, out) == (2, ""), words
        assert says in err
        assert "Traceback" not in err


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    pml_cells.plugin.pml_commands(parser.add_subparsers())
    return parser.parse_args(["notebook", *words])


def test_a_run_starts_the_servers_unless_it_is_told_not_to() -> None:
    assert parsed("run", "x").connect is True
    assert parsed("run", "x", "--no-connect").connect is False
    assert not hasattr(parsed("show", "x"), "connect")


@pytest.mark.parametrize("columns", ["80", "40"])
def test_ids_are_whole_in_any_terminal(pml, monkeypatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    ids = [pml("notebook", "create", "A title of many words " * 3)[1].strip() for _ in range(2)]
    listed = pml("notebook", "list")[1]
    assert all(id_ in listed for id_ in ids)


def test_the_beginning_of_an_id_will_do_where_only_one_begins_so(pml, monkeypatch) -> None:
    ids = iter(("abc", "ac", "acd"))
    monkeypatch.setattr("pml_cells.sessions.random_id", lambda: next(ids))
    for title in ("One", "Two", "Three"):
        assert pml("notebook", "create", title)[0] == 0
    for typed, meant in (("ab", "One"), ("ac", "Two"), ("acd", "Three")):
        assert json.loads(pml("notebook", "show", typed, "--json")[1])["title"] == meant
    for typed, says in (("a", "more than one notebook begins with 'a'"), ("", "there is no notebook ''; pml notebook")):
        status, out, err = pml("notebook", "delete", typed)
        assert (status, out) == (2, "")
        assert says in err
    assert pml("notebook", "delete", "ab")[0] == 0
    assert "there is no notebook 'abc'" in pml("notebook", "show", "abc")[2]
