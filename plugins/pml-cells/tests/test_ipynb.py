from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_cells import srcmd
from pml_cells.errors import NotebookError
from pml_cells.ipynb import decode, encode
from pml_cells.notebook import Notebook, new_code, new_markdown, new_notebook, new_title


def plain(*cells: dict[str, Any], **more: Any) -> str:
    about = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python 3"}}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": about, "cells": list(cells), **more})


def cell(kind: str, source: Any, **more: Any) -> dict[str, Any]:
    return {"cell_type": kind, "source": source, "metadata": {}, **more}


def seen(notebook: Notebook) -> list[tuple[str, str, str]]:
    return [(c.kind, c.filename, c.text) for c in notebook.cells]


def test_a_notebook_of_jupyters_is_read() -> None:
    text = plain(
        cell("markdown", ["# Sales\n", "\n", "of this year"], id="intro"),
        cell("code", ["import math\n", "math.pi"], id="a-1", outputs=[{"output_type": "stream"}], execution_count=3),
        cell("code", "print(1)", id="a-1"),
        cell("raw", "plain"),
        cell("markdown", ""),
    )
    notebook, notes = decode(text, "file")
    assert notes == []
    assert notebook.language == "python"
    assert seen(notebook) == [
        ("title", "", "Sales"),
        ("markdown", "", "of this year"),
        ("code", "cell_1.py", "import math\nmath.pi"),
        ("code", "cell_2.py", "print(1)"),
        ("markdown", "", "plain"),
    ]
    assert notebook.cells[0].id == "intro"
    assert notebook.cells[2].id == "a-1"
    assert len({c.id for c in notebook.cells}) == 5


def test_headings_and_open_ends_are_made_to_fit_and_told() -> None:
    text = plain(
        cell("code", "1"),
        cell("markdown", "# One\n\ntext\n\n###### Six"),
        cell("markdown", "```\nnever closed ``"),
    )
    notebook, notes = decode(text, "the  file")
    assert seen(notebook) == [
        ("title", "", "the file"),
        ("code", "cell_1.py", "1"),
        ("markdown", "", "## One\n\ntext\n\n##### Six"),
        ("markdown", "", "````markdown\n```\nnever closed ``\n````"),
    ]
    assert len(notes) == 2
    assert srcmd.decode(srcmd.encode(notebook)).title == "the file"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "an array of cells"),
        ('{"nbformat": 3, "worksheets": []}', "jupyter nbconvert"),
        ('{"nbformat": 3, "cells": []}', "format 3, and only format 4"),
        (plain(metadata={"kernelspec": {"language": "R"}}), "in R, and .ipynb files are read for Python only"),
        (plain(metadata={"language_info": {"name": "typescript"}}), "in typescript"),
        (plain(cell("code", 7)), "cell 1: its source is neither"),
        (plain(cell("markdown", ["a", 1])), "cell 1: its source is neither"),
        (plain(cell("heading", "a")), "cell 1 has the type 'heading'"),
        ('{"nbformat": 4, "cells": [7]}', "cell 1 is no object"),
    ],
)
def test_what_is_no_python_notebook_is_refused(text: str, says: str) -> None:
    with pytest.raises(NotebookError, match=says):
        decode(text, "x")


def test_what_is_written_is_read_back_with_its_ids() -> None:
    cells = (new_title("T & U"), new_markdown("a\n\nb"), new_code("helper.py", "x = 1\n"), new_code("main.py", ""))
    text = encode(Notebook(language="python", cells=cells))
    back, notes = decode(text, "other")
    assert (back.cells, notes) == (cells, [])
    told = json.loads(text)
    assert (told["nbformat"], told["nbformat_minor"]) == (4, 5)
    assert told["cells"][2] == {
        "cell_type": "code",
        "id": cells[2].id,
        "metadata": {"pml": {"filename": "helper.py"}},
        "source": ["x = 1\n"],
        "execution_count": None,
        "outputs": [],
    }


def test_only_python_is_written() -> None:
    with pytest.raises(NotebookError, match=r"package\.json is no Python"):
        encode(new_notebook("T", "javascript"))
    with pytest.raises(NotebookError, match=r"a\.ts is no Python"):
        encode(Notebook(language="python", cells=(new_title("T"), new_code("a.ts", ""))))


anything = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.sampled_from(["code", "markdown", "# T", "a\n===", "```"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["cells", "cell_type", "source", "id", "metadata", "pml", "filename"]), inner)
    ),
    max_leaves=12,
)


@given(st.lists(anything, max_size=4), anything)
def test_whatever_comes_is_a_notebook_or_is_refused(cells: list[Any], about: Any) -> None:
    text = json.dumps({"nbformat": 4, "cells": cells, "metadata": about})
    try:
        notebook, _ = decode(text, "x")
    except NotebookError:
        return
    assert srcmd.decode(srcmd.encode(notebook)).title == notebook.title
