"""Reading code without running it."""

from __future__ import annotations

import pytest

from pml_preflight.code import read, undefined, uses


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("await tools.fs.read(path=p)", [("fs", "read", {"path"})]),
        ("await tools.fs.read({'path': 1, 'n': 2})", [("fs", "read", {"path", "n"})]),
        ("tools['fs:read'](**x)", [("", "fs:read", None)]),
        ("tools.fs['read-file'](1)", [("fs", "read-file", None)]),
        ("f(tools.a.b(), tools.c.d(x=tools.e.f()))", [("a", "b", set()), ("c", "d", {"x"}), ("e", "f", set())]),
        ("tools.a(); tools.a.b.c(); other.a.b(); getattr(tools, 'x').y()", []),
    ],
)
def test_tools_that_python_names(source, calls):
    assert [(c.server, c.tool, c.arguments) for c in read("python", source).calls] == calls


def test_names_that_code_takes_from_elsewhere():
    python = read(
        "python", "import re\nfor x in a:\n    print(x, re, lambda q: q)\ndef f(w): return w\nreturn b.a, {'c': d}"
    )
    assert undefined(python, ()) == ["a", "b", "d"]
    assert sorted(uses(python, "abcde")) == ["a", "b", "d"]


def test_other_languages_and_very_long_code_are_not_read():
    for language in ("ruby", "typescript", "javascript"):
        summary = read(language, "1 + (")
        assert (summary.problem, summary.checked, summary.reaches) == ("", "nothing", True)
    assert read("python", "(" * 300_000).problem == ""
    assert read("python", "(" * 5000).problem != ""
    assert read("python", "x\0").problem != ""


def test_odd_escapes_are_no_mistake_and_raise_no_warning():
    assert read("python", "return '\\d'").problem == ""
