"""The core and the contract only get smaller: ``budgets.toml`` has the numbers of today."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Budgets, Distribution

NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
MOST_MODULES = 15
"""In a folder."""
WORD = re.compile(r"[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)*")
ALSO_SOMETHING_ELSE = {"capabilities", "dry_run", "http", "store", "tools"}
"""Names of plugins that are words of MCP, of addresses, of the contract or of the configuration, too."""


def strings(tree: ast.AST) -> list[ast.Constant]:
    """Docstrings, of modules, classes, functions and of what stands above them."""
    found = []
    for node in ast.walk(tree):
        body = getattr(node, "body", [])
        lines = [line.value for line in body if isinstance(line, ast.Expr)] if isinstance(body, list) else []
        found += [one for one in lines if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return found


def code_lines(text: str) -> int:
    """Lines without blanks, comments and docstrings."""
    told = {line for one in strings(ast.parse(text)) for line in range(one.lineno, (one.end_lineno or 0) + 1)}
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in NO_CODE]
    return len({line for one in tokens for line in range(one.start[0], one.end[0] + 1)} - told)


def test_a_budget_says_what_to_do_when_it_is_passed_and_when_it_is_out_of_date(budgets: Budgets) -> None:
    table = {"what": "rooms", "now": 5, "goal": 3, "room": 1, "do": "Share one"}
    made = replace(budgets, tables={"rooms": table, "names": {"what": "guests", "now": ["a", "b"], "do": "Ask"}})
    made.hold("rooms", 5)
    made.hold("rooms", 4)
    made.hold_list("names", "ba")
    with pytest.raises(AssertionError, match=r"^rooms: 6; the budget is 5, the goal 3\. Share one\."):
        made.hold("rooms", 6)
    with pytest.raises(AssertionError, match=r"rooms: 3, .*tests/architecture/budgets.toml, \[rooms\]: now = 3"):
        made.hold("rooms", 3)
    with pytest.raises(AssertionError, match=r"guests: new is \['c'\]\. Ask\."):
        made.hold_list("names", "abc")
    with pytest.raises(AssertionError, match=r"guests: gone is \['b'\]"):
        made.hold_list("names", "a")


def test_the_core_does_not_grow(root: Path, budgets: Budgets) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (root / "pml_core" / "src").rglob("*.py")]
    budgets.hold("core_lines", sum(len(text.splitlines()) for text in texts))
    budgets.hold("core_code", sum(map(code_lines, texts)))


def test_the_stores_on_databases_do_not_grow(root: Path, budgets: Budgets) -> None:
    folders = [root / "plugins" / name / "src" for name in ("pml-stores", "pml-store-sqlite", "pml-store-postgres")]
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py")]
    budgets.hold("store_lines", sum(len(text.splitlines()) for text in texts))


def test_no_folder_gets_more_modules(sources: Sequence[Path], root: Path, budgets: Budgets) -> None:
    found = Counter(path.parent.relative_to(root).as_posix() for path in sources)
    table = budgets.tables["folders"]
    now: Mapping[str, int] = table["now"]
    more = {name: count for name, count in found.items() if count > max(now.get(name, 0), MOST_MODULES)}
    assert not more, f"{table['what']}: too many in {more}, at most {MOST_MODULES} or as noted. {table['do']}."
    less = {name: found[name] for name in now if found[name] < now[name] - table["room"]}
    assert not less, f"{table['what']}: well done, write these under [folders.now] in budgets.toml: {less}"


def test_the_contract_does_not_grow(root: Path, budgets: Budgets) -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (root / "hookspecs" / "src").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("pml_")]
    bases = [ast.unparse(base) for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases]
    budgets.hold("api_lines", len((root / "hookspecs" / "api.txt").read_text(encoding="utf-8").splitlines()))
    budgets.hold("hooks", len([one for one in functions if "hookspec" in map(ast.unparse, one.decorator_list)]))
    budgets.hold("protocols", len([base for base in bases if base.partition("[")[0] == "Protocol"]))


def settings_in(tree: ast.AST) -> Iterator[str]:
    """Names of fields that are described as settings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.Call):
            yield from [node.target.id] if ast.unparse(node.value.func).rpartition(".")[2] == "setting" else []


def tools_in(tree: ast.AST) -> Iterator[str]:
    """Names in definitions of tools that are written down whole."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            members = zip(node.keys, node.values, strict=True)
            said = {key.value: value for key, value in members if isinstance(key, ast.Constant)}
            name = said.get("name")
            yield from [str(name.value)] if isinstance(name, ast.Constant) and "inputSchema" in said else []


@pytest.fixture(scope="module")
def names(plugins: Sequence[Distribution], root: Path) -> set[str]:
    """What plugins call themselves, their settings and their tools, as far as it can mean nothing else."""
    trees = [ast.parse(path.read_text("utf-8")) for one in plugins for path in one.package.rglob("*.py")]
    found = {name for tree in trees for name in (*settings_in(tree), *tools_in(tree))}
    found = {name for name in found if "_" in name}
    shared = [root / folder / "src" for folder in ("hookspecs", "pml_core")]
    for folder in (*shared, *(one.package for one in plugins if one.is_library)):
        for path in folder.rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            fields = (node.target for node in ast.walk(tree) if isinstance(node, ast.AnnAssign))
            found -= {field.id for field in fields if isinstance(field, ast.Name)}
    groups = [
        entries
        for one in plugins
        for group, entries in one.project.get("entry-points", {}).items()
        if group not in ("pml.commands", "pml.sections")  # words of the command line and of files are everybody's
    ]
    registered = {name for entries in groups for name in entries}
    return found | registered - ALSO_SOMETHING_ELSE | {name for one in plugins for name in (one.name, one.module)}


def test_the_core_names_no_more_of_plugins(root: Path, names: set[str], budgets: Budgets) -> None:
    found = set()
    folders = [root / "pml_core" / "src", root / "plugins" / "pml-settings" / "src"]
    for path, name_in in ((path, path.relative_to(folder)) for folder in folders for path in folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        told = {id(one) for one in strings(tree)}
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in told]
        for text in {node.value for node in nodes if isinstance(node.value, str)}:
            # A word without a mark of its own is a name only where nothing else is said.
            said = {word for word in WORD.findall(text) if "_" in word or "-" in word} | {text}
            found |= {f"{name_in.as_posix()} {name}" for name in said & names}
    budgets.hold_list("names", found)
