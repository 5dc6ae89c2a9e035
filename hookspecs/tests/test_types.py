"""The values that cross the plugin boundary."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest
from msgspec import NODEFAULT, Struct

import pml_hookspecs
from pml_hookspecs import (
    CatalogEntry,
    CodeRun,
    Endpoint,
    ExecutionQuery,
    Executor,
    Failure,
    Identity,
    MetaTool,
    Outcome,
    Peer,
    Phase,
    RpcError,
    Scope,
    Selection,
    Session,
    Status,
    Task,
    ToolCall,
    ToolId,
    Tracer,
    Transport,
    TransportError,
    Workflow,
    defaults,
    hooks,
    replace,
    setting,
    split_tool_id,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DATACLASSES = [
    value
    for name in pml_hookspecs.__all__
    if isinstance(value := getattr(pml_hookspecs, name), type) and dataclasses.is_dataclass(value)
]


@pytest.mark.parametrize("made", DATACLASSES, ids=lambda made: made.__name__)
def test_values_are_frozen_and_slim(made: type[Any]) -> None:
    assert made.__dataclass_params__.frozen
    # Of keys and offers there are a few, and Python 3.11 cannot make a frozen generic with slots as ``Key[int](...)``.
    assert "__slots__" in vars(made) or made in (pml_hookspecs.Key, pml_hookspecs.Offer)


def test_no_two_values_share_a_mutable_default() -> None:
    for first, second in (
        (ToolCall(id="a", tool=ToolId("s:t")), ToolCall(id="b", tool=ToolId("s:t"))),
        (CodeRun(id="a", language="python", source=""), CodeRun(id="b", language="python", source="")),
        (Endpoint(name="a", address="stdio:"), Endpoint(name="b", address="stdio:")),
    ):
        for name in defaults(type(first)):
            value = getattr(first, name)
            assert not isinstance(value, dict) or value is not getattr(second, name)


def test_a_task_is_told_by_name_not_by_place() -> None:
    with pytest.raises(TypeError):
        ToolCall("a", ToolId("s:t"))  # type: ignore[misc]
    with pytest.raises(TypeError):
        Workflow("a", ())  # type: ignore[misc]


@pytest.mark.parametrize(
    ("tool", "parts"),
    [
        ("filesystem:read_file", ("filesystem", "read_file")),
        ("a:b:c", ("a", "b:c")),
        ("read_file", ("", "read_file")),
        (":read_file", ("", "read_file")),
        ("server:", ("server", "")),
        ("", ("", "")),
    ],
)
def test_a_tool_id_is_split_at_its_first_colon(tool: str, parts: tuple[str, str]) -> None:
    assert split_tool_id(tool) == parts


def test_an_entry_reads_name_and_description_from_the_definition_as_it_came() -> None:
    definition = MappingProxyType({"name": "read", "x-unknown": 1})
    entry = CatalogEntry(ToolId("files:read"), "files", definition, 10)
    assert (entry.name, entry.description, entry.own, entry.meta) == ("read", "", False, False)
    assert entry.definition is definition


@pytest.mark.parametrize("said", [None, ""])
def test_a_tool_that_says_nothing_has_an_empty_description(said: str | None) -> None:
    assert CatalogEntry(ToolId("s:t"), "s", {"name": "t", "description": said}, 1).description == ""


def test_tools_of_the_gateway_are_its_own_listed_or_not() -> None:
    assert CatalogEntry(ToolId("pml:search_tools"), "pml", {"name": "search_tools"}, 1).own
    assert CatalogEntry(ToolId("pml:search_tools"), "pml", {"name": "search_tools"}, 1, meta=True).own


def test_only_what_ran_or_was_rehearsed_lets_others_go_on() -> None:
    assert {status for status in Status if status.good} == {Status.OK, Status.SIMULATED}


def test_statuses_are_their_own_json() -> None:
    assert json.loads(json.dumps(list(Status))) == [status.value for status in Status]
    assert f"{Status.TIMED_OUT}" == "timed_out"


def test_checks_come_before_substitutes_and_substitutes_before_limits() -> None:
    """A bad call fails in a dry run too, and a dry run costs no quota."""
    assert Phase.AUTHORIZE < Phase.VALIDATE < Phase.SUBSTITUTE < Phase.APPROVE < Phase.LIMIT < Phase.RETRY


def test_an_outcome_without_a_failure_has_none() -> None:
    ended = Outcome(task_id="a", status=Status.OK, started_at=NOW, duration_ms=1)
    assert (ended.output, ended.failure) == (None, None)


def test_a_failure_is_final_unless_it_says_otherwise() -> None:
    failure = Failure("tool.failed", "It failed.")
    assert (failure.retryable, failure.details) == (False, {})


def test_a_session_is_local_and_unhinted_unless_it_says_otherwise() -> None:
    session = Session(key="k")
    assert (session.principal, session.endpoint, session.intent, session.scopes) == (
        "local",
        "default",
        "",
        frozenset(),
    )


def test_a_query_takes_twenty_of_everything_in_its_scope() -> None:
    query = ExecutionQuery(scope=Scope(principals=None))
    assert (query.limit, query.since, query.statuses, query.include_dry_runs) == (20, None, None, True)


def test_a_selection_belongs_to_its_session_unless_it_says_otherwise() -> None:
    assert not Selection(()).shared


def test_a_json_rpc_error_leaves_out_data_it_does_not_have() -> None:
    assert RpcError(-32601, "Method not found").to_wire() == {"code": -32601, "message": "Method not found"}
    assert RpcError(-1, "no", {"a": 1}).to_wire() == {"code": -1, "message": "no", "data": {"a": 1}}
    assert RpcError(-1, "no", 0).to_wire() == {"code": -1, "message": "no", "data": 0}
    assert str(RpcError(-1, "no")) == "no"


def test_a_transport_error_must_say_whether_trying_again_can_help() -> None:
    assert TransportError("gone", retryable=True).retryable
    with pytest.raises(TypeError):
        TransportError("gone")  # type: ignore[call-arg]


def test_a_meta_tool_is_listed_under_one_name_unless_it_says_otherwise() -> None:
    tool = MetaTool(definition={"name": "t"})
    assert (tool.listed, tool.aliases) == (True, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    limit: int = setting(10, "Most tools to show [tools].", ge=0, le=99)
    names: list[str] = setting(list, "Tools to show.")
    token: str = setting("hush", "Opens the door.", secret=True)


def test_a_setting_carries_its_description_and_bounds() -> None:
    limit = dataclasses.fields(Settings)[0]
    assert dict(limit.metadata) == {
        "description": "Most tools to show [tools].",
        "ge": 0,
        "le": 99,
        "secret": False,
        "project": "",
    }
    assert Settings().limit == 10


def test_a_list_setting_is_made_anew_for_each_settings_object() -> None:
    assert Settings().names == []
    assert Settings().names is not Settings().names


def test_a_secret_setting_is_not_in_the_repr() -> None:
    assert "hush" not in repr(Settings())
    assert "limit=10" in repr(Settings())


def test_a_transport_that_does_not_serve_says_so_by_its_own_name() -> None:
    class Carrier(Transport):
        """Connects only."""

    with pytest.raises(NotImplementedError, match="Carrier does not serve clients"):
        Carrier().serve(Endpoint(name="a", address="x:"), lambda link, peer: None, started=print).send(None)  # type: ignore[abstract,arg-type,return-value]


def test_a_tracer_that_keeps_nothing_need_not_flush() -> None:
    class Deaf(Tracer):
        """Hears nothing."""

    with pytest.raises(StopIteration):
        Deaf().flush().send(None)  # type: ignore[abstract]


def test_a_new_member_of_a_protocol_reaches_those_who_subclass_it() -> None:
    """Subclassing a protocol is how a plugin survives the next minor version of the contract."""

    class Runner(Executor):
        handles = frozenset({Workflow})

        async def execute(self, task: Task, run: Any) -> Outcome:
            return Outcome(task_id=task.id, status=Status.OK, started_at=NOW, duration_ms=0)

    assert Runner().handles == {Workflow}


@pytest.mark.parametrize("hook", ["pml_lifespan", "pml_meta_tools", "pml_checks"])
def test_a_hook_without_an_answer_contributes_nothing(hook: str) -> None:
    answer: Iterable[Any] = getattr(hooks.Hooks(), hook)(None)
    assert list(answer) == []


STRUCTS = [
    value
    for name in pml_hookspecs.__all__
    if isinstance(value := getattr(pml_hookspecs, name), type) and issubclass(value, Struct)
]
MADE = (
    ToolCall(id="a", tool=ToolId("s:t"), arguments={"x": 1}, depends_on=("b",)),
    Outcome(task_id="a", status=Status.OK, started_at=NOW, duration_ms=1),
    Session(key="k", principal="alice", deny=("a:*",)),
    Workflow(id="w", tasks=(ToolCall(id="a", tool=ToolId("s:t")),)),
)


@pytest.mark.parametrize("made", STRUCTS, ids=lambda made: made.__name__)
def test_values_that_are_made_for_each_call_are_frozen_and_told_by_name(made: type[Any]) -> None:
    assert made.__struct_config__.frozen
    assert not hasattr(made, "__dict__") or "__dict__" not in dir(made)
    with pytest.raises(TypeError):
        made("by position")


@pytest.mark.parametrize("made", MADE, ids=lambda made: type(made).__name__)
def test_a_value_is_equal_to_its_copies_and_cannot_be_changed(made: Any) -> None:
    assert made == copy.deepcopy(made) == pickle.loads(pickle.dumps(made)) == replace(made)
    first = next(iter(defaults(type(made))))
    other = replace(made, **{first: "other"})
    assert (getattr(other, first), type(other)) == ("other", type(made))
    assert made != other
    with pytest.raises(AttributeError, match="immutable"):
        setattr(made, first, "other")
    with pytest.raises(TypeError):
        replace(made, nonsense=1)


def test_what_is_no_struct_is_copied_alike() -> None:
    failure = Failure("a", "b")
    assert replace(failure, code="c") == Failure("c", "b")
    assert defaults(Failure) == {"code": NODEFAULT, "message": NODEFAULT, "retryable": False, "details": {}}


def test_defaults_stand_in_order_and_say_what_has_to_be_given() -> None:
    assert [name for name, default in defaults(Outcome).items() if default is NODEFAULT] == [
        "task_id",
        "status",
        "started_at",
        "duration_ms",
    ]
    assert defaults(ToolCall)["arguments"] == {}
    assert defaults(CatalogEntry).keys() == {"id", "server", "definition", "tokens", "digest", "meta"}


def test_what_every_identity_has_makes_sessions_and_peers_of_it() -> None:
    who = Identity(principal="alice", access_key="k", deny=("a:*",), dry_run_only=True)
    session = Session(key="s", client="c/1", **who.members())
    peer = Peer(address="stdio", **session.members())
    assert (session.principal, peer.access_key, peer.deny, peer.dry_run_only) == ("alice", "k", ("a:*",), True)
    assert Identity(**peer.members()) == who
    assert isinstance(session, Identity)
