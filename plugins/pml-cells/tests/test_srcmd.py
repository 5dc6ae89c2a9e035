from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pml_cells.errors import NotebookError
from pml_cells.markdown import problem_with_markdown, with_other_headings
from pml_cells.notebook import Cell, Notebook, check, new_code, new_markdown, new_package_json, new_title
from pml_cells.srcmd import decode, encode

WHOLE = """\
<!-- srcbook:{"language":"typescript"} -->

# Orders & `totals`

###### package.json

```json
{
  "type": "module"
}
```

Some *words*.

## A section

1. one
2. two

```ts
// shown, never run


notCode();
```

###### sum.ts

```typescript
export const sum = (all: number[]) => all.reduce((a, b) => a + b, 0);
```

###### main.js

```javascript
import { sum } from './sum.ts';

console.log(sum([1, 2]));
```

The end.
"""


def seen(notebook: Notebook) -> list[tuple[str, str, str, str | None]]:
    return [(cell.kind, cell.filename, cell.text, cell.language) for cell in notebook.cells]


def test_a_file_is_read_as_srcbook_reads_it() -> None:
    notebook = decode(WHOLE)
    assert notebook.language == "typescript"
    assert seen(notebook) == [
        ("title", "", "Orders & `totals`", None),
        ("package.json", "package.json", '{\n  "type": "module"\n}', None),
        (
            "markdown",
            "",
            "Some *words*.\n\n## A section\n\n1. one\n2. two\n\n```ts\n// shown, never run\n\n\nnotCode();\n```",
            None,
        ),
        ("code", "sum.ts", "export const sum = (all: number[]) => all.reduce((a, b) => a + b, 0);", "typescript"),
        ("code", "main.js", "import { sum } from './sum.ts';\n\nconsole.log(sum([1, 2]));", "javascript"),
        ("markdown", "", "The end.", None),
    ]


def test_a_file_that_was_read_is_written_as_it_was() -> None:
    assert encode(decode(WHOLE)) == WHOLE


def test_the_ending_tells_the_language_and_the_word_after_the_fence_does_not() -> None:
    text = '<!-- srcbook:{"language":"javascript"} -->\n# T\n###### a.mts\n~~~js\n1\n~~~\n###### b.cjs\n\n    two\n'
    assert seen(decode(text))[1:] == [("code", "a.mts", "1", "typescript"), ("code", "b.cjs", "two", "javascript")]


def test_headings_in_other_words_and_line_ends_are_understood() -> None:
    text = '\ufeff<!-- srcbook: {"language": "javascript"} -->\r\nTitle\r\n=====\r\n\r\ntext\r\n'
    assert seen(decode(text)) == [("title", "", "Title", None), ("markdown", "", "text", None)]


def test_package_json_comes_second_wherever_it_stood() -> None:
    text = '<!-- srcbook:{"language":"javascript"} -->\n# T\nwords\n###### package.json\n```json\n{}\n```\n'
    assert [cell.kind for cell in decode(text).cells] == ["title", "package.json", "markdown"]


def test_many_blank_lines_of_markdown_become_one_and_those_of_code_stay() -> None:
    text = '<!-- srcbook:{"language":"javascript"} -->\n# T\n\n\n\na\n\n\n\nb\n\n```\nx\n\n\ny\n```\n\n\n\nc\n\n\n'
    assert seen(decode(text))[1] == ("markdown", "", "a\n\nb\n\n```\nx\n\n\ny\n```\n\nc", None)


def test_files_that_are_links_are_read_by_name() -> None:
    text = encode(decode(WHOLE), inline=False)
    assert "[sum.ts](./src/sum.ts)" in text
    assert "[package.json](./package.json)" in text
    assert [cell.text for cell in decode(text, lambda name: f"<{name}>").cells if cell.filename] == [
        "<package.json>",
        "<sum.ts>",
        "<main.js>",
    ]
    with pytest.raises(NotebookError, match=r"line 5: package\.json is only a link; import the folder"):
        decode(text)


def test_the_typescript_configuration_is_part_of_the_first_comment() -> None:
    notebook = Notebook(language="typescript", cells=(new_title("T"),), tsconfig='{"a": "-->"}\n')
    text = encode(notebook)
    assert text.count("-->") == 1
    assert decode(text).tsconfig == notebook.tsconfig
    assert decode(encode(notebook, inline=False)).tsconfig == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# T\n", "no line <!-- srcbook:"),
        ("", "no line <!-- srcbook:"),
        ("<!-- srcbook:{nope} -->\n# T\n", "is not JSON"),
        ("<!-- srcbook:" + "[" * 100_000 + " -->\n# T\n", "is not JSON"),
        ('<!-- srcbook:{"language":"ruby"} -->\n# T\n', "one of typescript, javascript, python, not 'ruby'"),
        ('<!-- srcbook:["a"] -->\n# T\n', "must give a language"),
        ('<!-- srcbook:{"language":"python"} -->\nwords\n', "its one first-level heading, the title; it has 0"),
        ('<!-- srcbook:{"language":"python"} -->\nwords\n# T\n', "it must begin with its one first-level heading"),
        ('<!-- srcbook:{"language":"python"} -->\n# T\n# U\n', "it has 2 of them"),
        ('<!-- srcbook:{"language":"python"} -->\n# T\n###### a.py\nwords\n', "line 3: .* no code follows 'a.py'"),
        ('<!-- srcbook:{"language":"python"} -->\n# T\n###### a.py\n', "line 3: .* no code follows 'a.py'"),
        ('<!-- srcbook:{"language":"python"} -->\n# T\n###### a.py\n[x]: y\n```\n```\n', "no code follows 'a.py'"),
        (
            '<!-- srcbook:{"language":"python"} -->\n# T\n###### ../a.py\n```\n```\n',
            "'../a.py' is no name for the file",
        ),
        ('<!-- srcbook:{"language":"python"} -->\n# T\n###### a.rb\n```\n```\n', "'a.rb' is no name for the file"),
        (
            '<!-- srcbook:{"language":"python"} -->\n# T\n###### a.py\n```\n```\n###### A.py\n```\n```\n',
            "two cells have the file name a.py",
        ),
        (
            '<!-- srcbook:{"language":"python"} -->\n# T\n' + "###### package.json\n```\n```\n" * 2,
            "more than one package.json",
        ),
    ],
)
def test_what_is_no_notebook_is_refused_with_a_reason(text: str, says: str) -> None:
    with pytest.raises(NotebookError, match=says):
        decode(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("# One", "line 1 is a heading of level 1"),
        ("a\n\nOne\n===", "line 3 is a heading of level 1"),
        ("###### a.ts", "level 6"),
        ("```\nopen", "stays open"),
        ("<!-- open", "stays open"),
        ('<!-- srcbook:{"language":"python"} -->', "begins a notebook"),
        ("## Two\n\n> # quoted\n\n- # in a list", ""),
        ("| a |\n|---|\n| # |", ""),
    ],
)
def test_what_would_mean_something_else_among_other_cells_is_no_markdown_cell(text: str, says: str) -> None:
    assert says in problem_with_markdown(text)
    assert bool(says) == bool(problem_with_markdown(text))


@pytest.mark.parametrize("title", ["", " ", "a\nb", " a", "a #", "x" * 201, "a  "])
def test_titles_that_no_heading_says_are_refused(title: str) -> None:
    with pytest.raises(NotebookError, match="a title is one line"):
        new_title(title)


def test_headings_of_other_levels_can_be_made() -> None:
    text, changed = with_other_headings("# A\n\nB\n===\n\n###### c #\n\n```\n# d\n```\n\n> # e")
    assert (text, changed) == ("## A\n\nB\n---\n\n##### c #\n\n```\n# d\n```\n\n> # e", 3)


names = st.from_regex(r"[A-Za-z0-9_-]{1,8}\.(ts|mts|cts|js|mjs|cjs|py)", fullmatch=True)
# Line ends become line feeds, and CommonMark has no NUL.
texts = st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]) | st.sampled_from("`#\n ~>-"))


def _valid(make, *given):
    try:
        return make(*given)
    except NotebookError:
        return None


cells = st.one_of(st.builds(lambda text: _valid(new_markdown, text), texts), st.builds(new_code, names, texts)).filter(
    lambda cell: cell is not None
)


@settings(max_examples=80, deadline=None)
@given(
    title=st.builds(lambda text: _valid(new_title, text), texts).filter(lambda cell: cell is not None),
    package=st.none() | texts,
    others=st.lists(cells, max_size=5),
    tsconfig=texts,
)
def test_what_is_written_is_read_back(title: Cell, package: str | None, others: list[Cell], tsconfig: str) -> None:
    made = [title, *([] if package is None else [new_package_json(package)]), *others]
    notebook = Notebook(language="typescript", cells=tuple(made), tsconfig=tsconfig)
    assume(_valid(check, notebook) is None and _distinct(made))
    back = decode(encode(notebook))
    assert back.tsconfig == tsconfig
    code = [(kind, name, text) for kind, name, text, _ in seen(back) if kind != "markdown"]
    assert code == [(kind, name, text) for kind, name, text, _ in seen(notebook) if kind != "markdown"]
    # Markdown cells side by side become one; blank lines in them are not all kept.
    assert _words(back) == _words(notebook)
    assert seen(decode(encode(back))) == seen(back)


def _distinct(made: list[Cell]) -> bool:
    files = [cell.filename.casefold() for cell in made if cell.filename]
    return len(files) == len(set(files))


def _words(notebook: Notebook) -> str:
    return "".join("".join(cell.text.split()) for cell in notebook.cells if cell.kind == "markdown")


@settings(max_examples=80, deadline=None)
@given(texts)
def test_whatever_text_comes_is_a_notebook_or_is_refused(text: str) -> None:
    for given_ in (text, f'<!-- srcbook:{{"language":"python"}} -->\n{text}'):
        try:
            decode(given_)
        except NotebookError:
            continue
