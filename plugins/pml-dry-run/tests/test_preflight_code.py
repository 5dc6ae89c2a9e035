"""Reading code without running it."""

from __future__ import annotations

import pytest

from pml_dry_run.preflight.code import read, undefined, uses


@pytest.mark.parametrize(
    "source",
    [
        "const x = await tools.fs.read({ path: `a${b + '}'}c` });\nreturn x.items.map((i: any) => i / 2);",
        "return a / b / c; // it's fine ) ] }",
        "if (x) { /ab[/)]c'/gi.test(y) }\nreturn [/[\"`]/, 1];",
        "/* ( */ return 'don\\'t ( ' + \"[\\\"\" + `\\`{`;",
        "return `${`${`${1}`}`}`;",
        "const f = async <T>(x: Array<T>, y?: T): Promise<void> => { await x; };\nreturn tag`a${1}b`;",
        "for (const one of many) { await tools.s.t({ one }); }\nreturn 1 as const;",
        "let x = 5\nx++\nreturn x",
        "return { get a() { return 1; }, async *b() {}, 'c d': 2, 5: 6 };",
        "type A = { readonly b: keyof C };\nreturn x satisfies A;",
    ],
)
def test_scripts_that_are_right(source):
    assert read("typescript", source).problem == ""


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("return [1,2", "'[' is never closed (line 1)"),
        ("return 1\n}", "nothing is open at '}' (line 2)"),
        ("foo(1]", "'(' (line 1) is closed by ']' (line 1)"),
        ("x\nreturn 'a", "the string is never closed (line 2)"),
        ("return `a ${b", "'${' is never closed (line 1)"),
        ("return `a", "the template is never closed (line 1)"),
        ("/* return", "the comment is never closed (line 1)"),
        ("return /a", "the regular expression is never closed (line 1)"),
        ("const = 5;", "'=' cannot be a variable (line 1)"),
        ("\nlet x y;", "something is missing between 'x' and 'y' (line 2)"),
        ("return const x", "'const' cannot be returned (line 1)"),
        ("foo(,a)", "nothing stands between '(' and ',' (line 1)"),
        ("x = 1 +;", "nothing stands between '+' and ';' (line 1)"),
        ("x = 1 +", "nothing follows '+' (line 1)"),
        ("if 5 {}", "'if' needs a condition in brackets (line 1)"),
        ("if () {}", "'if' has no condition (line 1)"),
        ("retrun 5", "something is missing between 'retrun' and '5' (line 1)"),
    ],
)
def test_scripts_that_are_wrong(source, problem):
    assert read("javascript", source).problem == problem


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


def test_tools_that_a_script_names():
    source = "await tools.fs.read({});\n// tools.no.no()\nconst t = 'tools.no.no()';\nawait tools[\"a:b\"]({});"
    assert [(c.server, c.tool, c.line) for c in read("typescript", source).calls] == [("fs", "read", 1), ("", "a:b", 4)]


def test_names_that_code_takes_from_elsewhere():
    python = read(
        "python", "import re\nfor x in a:\n    print(x, re, lambda q: q)\ndef f(w): return w\nreturn b.a, {'c': d}"
    )
    assert undefined(python, ()) == ["a", "b", "d"]
    script = read("typescript", "const { x } = a;\nconst c = 1;\nreturn { b: d.e, c };")
    assert sorted(uses(script, "abcde")) == ["a", "d"]


def test_other_languages_and_very_long_code_are_not_read():
    assert read("ruby", "1 +").problem == ""
    assert read("python", "(" * 300_000).problem == ""
    assert read("python", "(" * 5000).problem != ""
    assert read("python", "x\0").problem != ""


def test_odd_escapes_are_no_mistake_and_raise_no_warning():
    assert read("python", "return '\\d'").problem == ""


def test_long_code_is_read_in_good_time():
    assert read("typescript", "const a = [1, 'b', /c/];\n" * 4000).problem == ""
