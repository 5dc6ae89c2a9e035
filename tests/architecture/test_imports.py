"""Who imports whom: what each kind of distribution may import, and circles, which only become fewer.

Every import counts, wherever in a module it stands, those for the type checker only as well. The folders say which
distributions there are; what holds inside the core is in the root's ``pyproject.toml``, for import-linter.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Budgets

CONTRACT, CORE, KIT = "pml_hookspecs", "pml_core", "pml_testing"
ALLOWED: Mapping[str, set[str]] = {
    CONTRACT: set(),
    CORE: {CONTRACT, "pml_background", "pml_catalog", "pml_clients", "pml_kit", "pml_mcp", "pml_settings"},
    KIT: {CONTRACT, CORE, "pml_clients", "pml_kit", "pml_mcp", "pml_settings"},
}
"""All else are plugins and what plugins share: they may import the contract, and what plugins share."""
ALSO_ALLOWED = {("pml_core.plugins.nulls", "pml_stores")}
"""The store in memory that stands in where no store is installed."""
NOT_UNDER_THE_CORE = {"mcp", "mcp_types", "starlette"}
"""What neither the core nor anything that it may import imports."""
Graph = Mapping[str, set[str]]


def module_of(path: Path) -> str:
    """The dotted name that a source file is imported by."""
    parts = path.with_suffix("").parts
    return ".".join(parts[parts.index("src") + 1 :]).removesuffix(".__init__")


def imported(module: str, tree: ast.AST, *, package: bool) -> Iterator[str]:
    """All that a module imports, anywhere in it, also for the type checker only: modules or names in modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: None if package and node.level == 1 else (1 if package else 0) - node.level]
            base = ".".join([*(parents if node.level else ()), *([node.module] if node.module else ())])
            yield from (f"{base}.{name.name}" for name in node.names)


def graph_of(texts: Mapping[str, tuple[str, bool]]) -> Graph:
    """Who imports whom, of these modules.

    Args:
        texts: By name, what stands in a module and whether it is a package.
    """
    graph = {}
    for module, (text, package) in texts.items():
        names = set(imported(module, ast.parse(text), package=package))
        graph[module] = {name if name in texts else name.rpartition(".")[0] for name in names} & texts.keys() - {module}
    return graph


def reached(graph: Graph, start: str) -> set[str]:
    """What a module imports, and what that imports, and so on."""
    found: set[str] = set()
    left = [start]
    while left:
        new = graph[left.pop()] - found
        found |= new
        left += new
    return found


def circles(graph: Graph) -> list[str]:
    """Each largest set of modules that all import each other in the end, as their names in order."""
    after = {module: reached(graph, module) for module in graph}
    found = {tuple(sorted({two for two in after[one] if one in after[two]})) for one in graph if one in after[one]}
    return [" ".join(circle) for circle in sorted(found)]


def texts_in(root: Path) -> dict[str, tuple[str, bool]]:
    """What stands in every module of every distribution below ``root``, and whether it is a package, by its name."""
    folders = [root / name for name in ("hookspecs", "pml_core", "tests")] + sorted((root / "plugins").glob("*"))
    paths = [path for folder in folders for path in sorted((folder / "src").rglob("*.py"))]
    return {module_of(one): (one.read_text(encoding="utf-8"), one.name == "__init__.py") for one in paths}


def shared_in(root: Path) -> set[str]:
    """Packages under ``plugins/`` that register nothing: plugins share them."""
    documents = (
        tomllib.loads(path.read_text(encoding="utf-8")) for path in (root / "plugins").glob("*/pyproject.toml")
    )
    projects = [document["project"] for document in documents]
    return {one["name"].replace("-", "_") for one in projects if "entry-points" not in one}


def not_allowed(root: Path) -> list[str]:
    """Each import that no kind of distribution may make: ``who: what``."""
    texts, shared = texts_in(root), shared_in(root)
    packages = {name.partition(".")[0] for name in texts}
    found = []
    for module, (text, package) in texts.items():
        own = module.partition(".")[0]
        allowed = ALLOWED.get(own, {CONTRACT, *shared}) | {own}
        for name in imported(module, ast.parse(text), package=package):
            other = name.partition(".")[0]
            wrong = other in packages - allowed and (module, other) not in ALSO_ALLOWED
            low = own in {CONTRACT, CORE, *shared} and other in NOT_UNDER_THE_CORE
            found += [f"{module}: {name}"] if wrong or low else []
    return found


@pytest.fixture(scope="module")
def graph(root: Path) -> Graph:
    return graph_of(texts_in(root))


def test_nobody_imports_what_its_kind_may_not(root: Path) -> None:
    assert not_allowed(root) == []


PROJECT = '[project]\nname = "{name}"\n{more}'
REGISTERED = '[project.entry-points."pml.plugins"]\nit = "it"\n'
PLANTED = {
    ("plugins/pml-one", "from pml_two.inner import thing"): "pml_one: pml_two.inner.thing",
    ("plugins/pml-two", "def late():\n    import pml_one"): "pml_two: pml_one",
    (
        "plugins/pml-one",
        "if TYPE_CHECKING:\n    from pml_core.kernel.chain import fold",
    ): "pml_one: pml_core.kernel.chain.fold",
    ("plugins/pml-one", "from pml_testing import fakes"): "pml_one: pml_testing.fakes",
    ("plugins/pml-shared", "import pml_one.inner as inner"): "pml_shared: pml_one.inner",
    ("plugins/pml-shared", "from pml_core.kernel import chain"): "pml_shared: pml_core.kernel.chain",
    ("plugins/pml-shared", "import starlette.routing"): "pml_shared: starlette.routing",
    ("pml_core", "import pml_one"): "pml_core: pml_one",
    ("pml_core", "from pml_shared import it"): "pml_core: pml_shared.it",
    ("pml_core", "import pml_testing"): "pml_core: pml_testing",
    ("tests", "from pml_shared import it"): "pml_testing: pml_shared.it",
    ("tests", "try:\n    import pml_two\nexcept ImportError:\n    pass"): "pml_testing: pml_two",
    ("hookspecs", "from pml_core.kernel import chain"): "pml_hookspecs: pml_core.kernel.chain",
    ("hookspecs", "from mcp import types"): "pml_hookspecs: mcp.types",
}
"""By folder and text, what is to be found."""


@pytest.mark.parametrize(("folder", "text"), PLANTED)
def test_an_import_that_is_planted_is_found_in_folders_that_nobody_has_named(
    folder: str, text: str, tmp_path: Path
) -> None:
    kinds = {"pml-one": REGISTERED, "pml-two": REGISTERED, "pml-shared": ""}
    places = {f"plugins/{name}": name.replace("-", "_") for name in kinds}
    places |= {"hookspecs": CONTRACT, "pml_core": CORE, "tests": KIT}
    for place, package in places.items():
        source = tmp_path / place / "src" / package
        source.mkdir(parents=True)
        fine = "" if package == CONTRACT else "from pml_hookspecs import hookimpl\n"
        (source / "__init__.py").write_text(fine + (text if place == folder else ""), encoding="utf-8")
    for name, more in kinds.items():
        (tmp_path / "plugins" / name / "pyproject.toml").write_text(PROJECT.format(name=name, more=more), "utf-8")
    (tmp_path / "plugins/pml-one/src/pml_one/inner.py").write_text("from pml_shared import it\n", encoding="utf-8")
    assert not_allowed(tmp_path) == [PLANTED[folder, text]]


def test_no_new_circle_of_imports(graph: Graph, budgets: Budgets) -> None:
    real, table = {*circles(graph)}, budgets.tables["circles"]
    noted = {" ".join(one.split()) for one in table["now"]}
    new = {one for one in real if not any({*one.split()} <= {*other.split()} for other in noted)}
    joined = {one: sorted({*one.split()} - {word for other in noted for word in other.split()}) for one in new}
    assert not new, f"{table['what']}: new, or larger by what is named after it: {joined}. {table['do']}."
    smaller = {one: sorted(two for two in real if {*two.split()} <= {*one.split()}) for one in noted - real}
    assert not smaller, f"{table['what']}: well done, write the second in place of the first in budgets.toml: {smaller}"


def test_a_circle_is_found_also_when_only_types_close_it() -> None:
    texts = {
        "a": ("import a.b", True),
        "a.b": ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .c import C", False),
        "a.c": ("def late():\n    from . import b", False),
        "a.d": ("from a import b, c", False),
        "a.e": ("from . import f", True),
        "a.e.f": ("from ..d import D\nfrom .. import e", False),
    }
    assert circles(graph_of(texts)) == ["a.b a.c", "a.e a.e.f"]
