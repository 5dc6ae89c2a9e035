"""What counts as a change of the contract, and for whom: held on made-up contracts, then asked of ours.

The rules in words: docs/plugins/compatibility.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from api_changes import BY_GATEWAY, BY_PLUGINS, FOLDER, changes, needed, newest, objections
from api_lines import entry, read

BEFORE = """\
pml_hookspecs._values.quick (cls: C) -> C
pml_hookspecs.store.LIMIT = 3
pml_hookspecs.store.Trigger: TypeAlias = Literal['manual', 'agent']
pml_hookspecs.store.Store: class(Protocol)
pml_hookspecs.store.Store.documents @property (self) -> Documents
pml_hookspecs.store.Store.find async (self, query: str, *, limit: int=20) -> Page[Record]
pml_hookspecs.store.Page: class(Generic[T]) @dataclass(frozen=True, slots=True)
pml_hookspecs.store.Page.items: Sequence[T]
pml_hookspecs.store.Page.total: int = 0
pml_hookspecs.store.Record: class @quick @dataclass(frozen=True, kw_only=True)
pml_hookspecs.store.Record.id: str
pml_hookspecs.store.Record.request: Mapping[str, Any] = field(default_factory=dict)
pml_hookspecs.services.Services: class(Protocol)
pml_hookspecs.services.Services.run async (self, task: Task, *, intent: str='') -> Outcome
pml_hookspecs.gateway.Origin: class(NamedTuple)
pml_hookspecs.gateway.Origin.id: int
pml_hookspecs.gateway.Failed: class(Exception)
pml_hookspecs.gateway.Status: class(StrEnum)
pml_hookspecs.gateway.Status.OK = 'ok'
pml_hookspecs.gateway.Hooks: class
pml_hookspecs.gateway.Hooks.pml_checks @hookspec (self, services: Services) -> Iterable[Check]
pml_hookspecs.gateway.split (name: str, *, strict: bool=False) -> tuple[str, str]
pml_hookspecs exports Store
"""
STORE, SERVICES = "pml_hookspecs.store", "pml_hookspecs.services"
GATEWAY = "pml_hookspecs.gateway"
CHECKS = f"{GATEWAY}.Hooks.pml_checks @hookspec"
ADVICE = "DeprecationWarning('use (this) one')"
SPLIT = f"{GATEWAY}.split (name: str, *, strict: bool=False)"
FIND = f"{STORE}.Store.find async (self, query: str, *, limit: int=20)"

ADDITIONS = [
    ("Services.stop", f"{SERVICES}.Services.stop (self) -> None", False),
    ("Hooks.pml_new", f"{GATEWAY}.Hooks.pml_new @hookspec (self, services: Services) -> Iterable[Any]", False),
    ("Record.cost", f"{STORE}.Record.cost: float | None = None", False),
    ("Record.marks", f"{STORE}.Record.marks: list[str] = field(repr=False, default_factory=list)", False),
    ("Page.cursor", f"{STORE}.Page.cursor: str | None = None", False),
    ("Status.LATE", f"{GATEWAY}.Status.LATE = 'late'", False),
    ("join", f"{GATEWAY}.join (server: str, name: str) -> str", False),
    ("Fresh", f"{STORE}.Fresh: class(Protocol)\n{STORE}.Fresh.look (self) -> None", False),
    ("Record", "pml_hookspecs exports Record", False),
    ("Store.prune", f"{STORE}.Store.prune async (self, *, keep: int=0) -> int", True),
    ("Store.size", f"{STORE}.Store.size @property (self) -> int", True),
    ("Store.shared", f"{STORE}.Store.shared: bool = False", True),
    ("Record.cost", f"{STORE}.Record.cost: float", True),
    ("Record.marks", f"{STORE}.Record.marks: list[str] = field(repr=False)", True),
    ("Origin.link", f"{GATEWAY}.Origin.link: Link | None = None", True),
    ("Failed.__init__", f"{GATEWAY}.Failed.__init__ (self, code: int) -> None", True),
]
CHANGES = [
    # What callers of the gateway's own give, and what is theirs to give.
    ("split", f"{SPLIT} ->", f"{SPLIT[:-1]}, sep: str=':') ->", False),
    ("split", f"{SPLIT} ->", f"{GATEWAY}.split (name: str, sep: str=':', *, strict: bool=False) ->", False),
    ("split", f"{SPLIT} ->", f"{GATEWAY}.split (name: str='', *, strict: bool=False) ->", False),
    ("split", f"{SPLIT} ->", f"{GATEWAY}.split (name: str, *rest: str, strict: bool=False) ->", False),
    ("Services.run", "intent: str=''", "intent: str='', id: str=''", False),
    ("split", f"{SPLIT} ->", f"{GATEWAY}.split (sep: str, name: str, *, strict: bool=False) ->", True),
    ("split", f"{SPLIT} ->", f"{SPLIT[:-1]}, sep: str) ->", True),
    ("split", "strict: bool=False", "strict: bool=True", True),
    ("split", "strict: bool=False", "strict: bool", True),
    ("split", "strict: bool=False", "exact: bool=False", True),
    ("split", "strict: bool=False", "strict: int=False", True),
    ("split", f"{SPLIT} ->", f"{GATEWAY}.split (*, name: str, strict: bool=False) ->", True),
    ("split", "tuple[str, str]", "list[str]", True),
    ("split", f"{SPLIT} ->", f"{GATEWAY}.split async (name: str, *, strict: bool=False) ->", True),
    ("Services.run", "intent: str=''", "intent: str='', id: str", True),
    # What plugins implement is called by the gateway: one parameter more is one that they do not take.
    ("Store.find", FIND, f"{FIND[:-1]}, text: str='')", True),
    ("Store.find", FIND, FIND.replace("query: str", "query: str=''"), True),
    ("Store.find", FIND, FIND.replace("limit: int=20", "limit: int=50"), True),
    ("Store.find", f"{FIND} ->", f"{FIND.replace(' async', '')} ->", True),
    ("Store.documents", "documents @property (self)", "documents (self)", True),
    # Hooks take what they name.
    ("Hooks.pml_checks", "@hookspec (self, services", "@hookspec (self, log: Any, services", False),
    ("Hooks.pml_checks", "(self, services: Services)", "(self, server: Services)", True),
    ("Hooks.pml_checks", CHECKS, f"{CHECKS}(firstresult=True)", True),
    ("Hooks.pml_checks", CHECKS, f"{CHECKS}(warn_on_impl={ADVICE})", False),
    # Values.
    ("Record.id", "Record.id: str", "Record.id: str = ''", False),
    ("Record", "@quick @dataclass", "@dataclass", False),
    ("Record.id", "Record.id: str", "Record.id: int", True),
    ("Record.request", "= field(default_factory=dict)", "= field(default_factory=Request)", True),
    ("Record.request", " = field(default_factory=dict)", "", True),
    ("Record", "frozen=True, kw_only=True", "frozen=True", True),
    ("Page.total", "Page.total: int = 0", "Page.total: int = 1", True),
    ("LIMIT", "LIMIT = 3", "LIMIT = 4", True),
    ("Trigger", "'agent']", "'agent', 'mcp']", True),
    ("Status.OK", "OK = 'ok'", "OK = 'fine'", True),
    ("Failed", "Failed: class(Exception)", "Failed: class(OSError)", True),
    ("LIMIT", "LIMIT = 3", "LIMIT () -> int", True),
]  # fmt: skip
REMOVED = ["LIMIT", "Store.find", "Record.request", "Status.OK", "Hooks.pml_checks", "split", "Services.run"]


def only(old: str, new: str):
    (change,) = changes(old, new)
    return change


def without(name: str) -> str:
    lines = [line for line in BEFORE.splitlines() if not line.split(".", 2)[-1].startswith(name)]
    assert len(lines) < len(BEFORE.splitlines())
    return "\n".join(lines)


def test_the_same_is_no_change():
    assert changes(BEFORE, BEFORE) == []


def test_the_order_of_lines_says_nothing_unless_fields_are_given_by_position():
    lines = BEFORE.splitlines()
    moved = "\n".join([*lines[1:], lines[0]])
    assert changes(BEFORE, moved) == []
    items, total = f"{STORE}.Page.items: Sequence[T]\n", f"{STORE}.Page.total: int = 0\n"
    assert (change := only(BEFORE, BEFORE.replace(items + total, total + items))).breaking
    assert change.name == "Page"


def test_a_field_that_is_given_by_position_is_added_behind_the_others():
    total = f"{STORE}.Page.total: int = 0\n"
    cursor = f"{STORE}.Page.cursor: str = ''\n"
    found = changes(BEFORE, BEFORE.replace(total, cursor + total))
    assert [(one.kind, one.name, one.breaking) for one in found] == [
        ("added", "Page.cursor", False),
        ("changed", "Page", True),
    ]


@pytest.mark.parametrize(("name", "line", "breaking"), ADDITIONS)
def test_an_addition_breaks_those_who_would_have_to_have_it(name: str, line: str, breaking: bool):  # noqa: FBT001
    change = only(BEFORE, BEFORE + line)
    assert (change.kind, change.name, change.breaking) == ("added", name, breaking), change
    assert change.fragment == ("changed" if breaking else "added")


@pytest.mark.parametrize(("name", "was", "now", "breaking"), CHANGES)
def test_a_change_breaks_those_who_rely_on_what_was(name: str, was: str, now: str, breaking: bool):  # noqa: FBT001
    assert BEFORE.count(was) == 1
    change = only(BEFORE, BEFORE.replace(was, now))
    assert (change.kind, change.name, change.breaking) == ("changed", name, breaking), change


@pytest.mark.parametrize("name", REMOVED)
def test_what_is_gone_breaks_those_who_use_it(name: str):
    change = only(BEFORE, without(name))
    assert (change.kind, change.name, change.breaking) == ("removed", name, True)


def test_a_class_that_is_gone_is_told_once_and_so_is_its_export():
    assert [one.name for one in changes(BEFORE, without("Record"))] == ["Record"]
    gone = "\n".join(line for line in without("Store").splitlines() if line != "pml_hookspecs exports Store")
    assert [one.name for one in changes(BEFORE, gone)] == ["Store"]


def test_what_is_not_exported_any_more_is_gone():
    change = only(BEFORE, BEFORE.replace("pml_hookspecs exports Store\n", ""))
    assert (change.kind, change.name, change.breaking) == ("removed", "Store", True)


def test_another_name_is_one_gone_and_one_new():
    found = changes(BEFORE, BEFORE.replace("Services.run", "Services.perform"))
    assert [str(one).partition(":")[0] for one in found] == ["removed Services.run", "added Services.perform"]


def test_a_member_of_a_driver_that_is_deprecated_breaks_nobody():
    advised = BEFORE + f"{STORE}.Store.find.__deprecated__ = 'use (the other) one; gone in 1.0'\n"
    for old, new in ((BEFORE, advised), (advised, BEFORE)):
        change = only(old, new)
        assert (change.kind, change.name, change.breaking) == ("changed", "Store.find", False)
    assert changes(advised, advised.replace("1.0", "2.0")) == []


def test_what_is_in_a_private_module_is_nobodys_business():
    assert changes(BEFORE, without("quick")) == []


def test_a_protocol_of_which_nobody_said_who_implements_it_counts_as_the_plugins():
    added = f"{SERVICES}.Services.stop (self) -> None"
    (change,) = changes(BEFORE, BEFORE + added, by_gateway=())
    assert change.breaking


def test_what_is_no_line_of_a_contract_is_refused():
    with pytest.raises(ValueError, match=r"not a line of api\.txt: 'pml_hookspecs\.x @\(y'"):
        entry("pml_hookspecs.x @(y")


@pytest.mark.parametrize(
    ("since", "breaking", "other"),
    [((0, 1, 0), (0, 2, 0), (0, 2, 0)), ((1, 4, 2), (2, 0, 0), (1, 5, 0))],
)
def test_the_version_follows_from_the_changes(since, breaking, other):
    assert needed(since, []) == since
    assert needed(since, changes(BEFORE, without("split"))) == breaking
    assert needed(since, changes(BEFORE, BEFORE + f"{GATEWAY}.join () -> str")) == other


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    """A folder as this distribution's, in which nothing has changed since 0.1.0."""
    for name in ("released", "changelog.d"):
        (tmp_path / name).mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\n', encoding="utf-8")
    for path in (tmp_path / "api.txt", tmp_path / "released" / "api-0.1.0.txt"):
        path.write_text(BEFORE, encoding="utf-8")
    return tmp_path


def say(contract: Path, kind: str, text: str) -> None:
    (contract / "changelog.d" / f"8.{kind}.md").write_text(text, encoding="utf-8")


def to_version(contract: Path, text: str) -> None:
    (contract / "pyproject.toml").write_text(f'[project]\nversion = "{text}"\n', encoding="utf-8")


def test_nothing_is_asked_where_nothing_changed(contract):
    assert objections(contract) == []
    to_version(contract, "0.1.1")
    assert objections(contract) == []


def test_a_change_is_released_with_its_version_and_its_fragment(contract):
    (contract / "api.txt").write_text(BEFORE + f"{STORE}.Store.prune async (self) -> int\n", encoding="utf-8")
    assert objections(contract) == [
        "pyproject.toml: version is 0.1.0 and has to be 0.2.0 or higher",
        "no changelog.d/*.changed.md names Store.prune",
        "added Store.prune: plugins that implement Store do not have it (BREAKING)",
    ]
    to_version(contract, "0.2.0")
    say(contract, "added", "`Store.prune`.")
    say(contract, "changed", "`Store.pruned`, `MyStore.prune`.")
    assert objections(contract)[:-1] == ["no changelog.d/*.changed.md names Store.prune"]
    say(contract, "changed", "Stores need `pml_hookspecs.Store.prune`.")
    assert objections(contract) == []


def test_each_kind_of_change_has_its_kind_of_fragment(contract):
    changed = without("split") + f"\n{GATEWAY}.join () -> str\n"
    (contract / "api.txt").write_text(changed.replace("LIMIT = 3", "LIMIT = 4"), encoding="utf-8")
    to_version(contract, "0.10.0")
    say(contract, "removed", "`split`: use `join`.")
    say(contract, "added", "`join`.")
    assert objections(contract)[0] == "no changelog.d/*.changed.md names LIMIT"
    say(contract, "changed", "`LIMIT` is 4.")
    assert objections(contract) == []


def test_the_last_release_is_the_one_with_the_highest_version(contract):
    for text in ("0.9.0", "0.10.0"):
        (contract / "released" / f"api-{text}.txt").write_text(BEFORE, encoding="utf-8")
    assert newest(contract / "released") == ((0, 10, 0), contract / "released" / "api-0.10.0.txt")
    assert objections(contract) == ["pyproject.toml: version is 0.1.0 and has to be 0.10.0 or higher"]


def test_of_every_protocol_it_is_said_who_implements_it():
    protocols = {
        one.own for one in read((FOLDER / "api.txt").read_text(encoding="utf-8")).values() if "Protocol" in one.bases
    }
    assert protocols == BY_PLUGINS | BY_GATEWAY
    assert not BY_PLUGINS & BY_GATEWAY


def test_every_line_of_every_released_contract_can_be_read():
    for path in (FOLDER / "released").glob("*.txt"):
        text = path.read_text(encoding="utf-8")
        assert len(read(text)) > 400
        assert changes(text, text) == []


def test_the_contract_has_the_version_and_the_changelog_that_its_changes_ask_for():
    assert objections(FOLDER) == []
