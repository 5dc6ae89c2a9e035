from __future__ import annotations

import json

import pytest

from pml_hookspecs import ExecutionQuery, RpcError, Scope, Session
from pml_kit.offers import SUGGESTER
from pml_suggester import plugin
from pml_suggester.arguments import filled
from pml_suggester.clauses import clauses
from pml_suggester.steps import Step
from pml_testing.dispatching import InOrder, hooks
from pml_testing.fakes import FakeRun, entry
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio


def schema(*required, **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT = {"type": "string"}
FILES = [
    {
        "name": "read_file",
        "description": "Read the text of a file",
        "inputSchema": schema("path", path=TEXT),
        "outputSchema": schema("body", body=TEXT),
    },
    {"name": "list_folder", "description": "List the entries of a folder", "inputSchema": schema()},
]
MAIL = [
    {
        "name": "send_mail",
        "description": "Send an email message to an address",
        "inputSchema": schema("email", "body", email=TEXT, body=TEXT),
    },
    {"name": "delete_mail", "description": "Delete an email message for good", "inputSchema": schema("id", id=TEXT)},
]


def gateway(table=None, filters=(), **servers):
    servers = servers or {"files": ScriptedServer(FILES), "mail": ScriptedServer(MAIL)}
    plugins = {("hooks", "suggester"): plugin, ("hooks", "made"): hooks(filters=filters), ("executor", "o"): InOrder}
    return running(servers, plugins=plugins, tables={"suggester": table or {}})


async def suggested(made, intent, run=None):
    await made.servers_tried()
    return await made.offers.find(SUGGESTER).suggest(intent, run or FakeRun(session=Session(key="k")), limit=3)


INTENT = "read the file /tmp/notes.txt, then send an email message to ann@example.com"


async def test_a_plan_has_a_tool_for_each_clause_with_what_the_words_and_earlier_steps_give():
    async with gateway({"least_score": 0.2}) as made:
        (plan,) = await suggested(made, INTENT)
    calls = {task.tool: task for task in plan.workflow.tasks}
    assert list(calls)[:2] == ["files:read_file", "mail:send_mail"]
    assert calls["files:read_file"].arguments == {"path": "/tmp/notes.txt"}
    assert calls["mail:send_mail"].arguments == {"email": "ann@example.com", "body": "{{read_file.body}}"}
    assert calls["mail:send_mail"].depends_on == ("read_file",)
    assert 0 < plan.confidence < 0.7


async def test_a_plan_that_lacks_arguments_says_which_and_is_only_a_suggestion():
    async with gateway({"least_score": 0.2}) as made:
        (plan,) = await suggested(made, "delete an email message for good")
    assert plan.workflow.tasks[0].tool == "mail:delete_mail"
    assert "delete_mail needs id" in plan.why
    assert plan.confidence <= 0.5


@pytest.mark.parametrize("intent", ["", "   ", "\x00", "qqqq zzzz xxxx"])
async def test_what_nothing_fits_has_no_plan(intent):
    async with gateway() as made:
        assert await suggested(made, intent) == []


async def test_what_the_caller_may_not_have_is_in_no_plan():
    async with gateway({"least_score": 0.1}, filters=[lambda e, session: e.server != "mail"]) as made:
        (plan,) = await suggested(made, INTENT)
    assert {task.tool.partition(":")[0] for task in plan.workflow.tasks} == {"files"}


async def test_what_ran_together_before_is_found_by_whoever_ran_it():
    from pml_hookspecs import ToolCall, Workflow
    from pml_suggester.history import together

    alice = Session(key="a", principal="alice")
    async with gateway() as made:
        tasks = (ToolCall(id="a", tool="files:read_file"), ToolCall(id="b", tool="mail:delete_mail"))
        await made.dispatcher.start(Workflow(id="w", tasks=tasks), alice)
        await made.dispatcher.start(Workflow(id="w", tasks=tasks[:1]), alice)
        page = await made.store.executions.find(ExecutionQuery(scope=Scope(principals=None), top_level=True))
        assert len(page.items) == 2
        assert await together(made.store, "bob") == {}
        found = await together(made.store, "alice")
    assert found == {"files:read_file": {"mail:delete_mail": 0.5}, "mail:delete_mail": {"files:read_file": 1.0}}


def git_tool(name, **annotations):
    about = f"{name.replace('_', ' ')} of the repository: staged changes, commits, files and branches"
    return {"name": name, "description": about, "inputSchema": schema(), "annotations": annotations}


GIT = [
    git_tool("git_commit"),
    git_tool("git_reset"),
    git_tool("git_branch", destructiveHint=False),
    git_tool("git_status", readOnlyHint=True),
    git_tool("git_diff", readOnlyHint=True),
]
NOTES = [
    {
        "name": "read_file",
        "description": "Read the text of a file such as notes.md",
        "inputSchema": schema("path", path=TEXT),
    },
    {
        "name": "write_file",
        "description": "Write the text of a file such as notes.md, to remember what it says",
        "inputSchema": schema("path", "content", path=TEXT, content=TEXT),
    },
]


@pytest.mark.parametrize(
    ("intent", "tools"),
    [
        ("commit my staged changes", {"git:git_commit"}),
        ("what changed in the repository", {"git:git_status", "git:git_diff"}),
        ("which branches are there in the repository", {"git:git_branch", "git:git_status", "git:git_diff"}),
        ("read notes.md and remember what it says", {"notes:read_file"}),
        ("show the staged files", {"git:git_status", "git:git_diff"}),
    ],
)
async def test_a_tool_that_changes_something_is_suggested_only_for_that_very_act(intent, tools):
    async with gateway({"least_score": 0.0}, git=ScriptedServer(GIT), notes=ScriptedServer(NOTES)) as made:
        plans = await suggested(made, intent)
    for plan in plans:
        of = {"git", "notes"} & {tool.partition(":")[0] for tool in tools}
        assert {task.tool for task in plan.workflow.tasks if task.tool.partition(":")[0] in of} <= tools


async def test_a_plan_has_no_more_tasks_than_the_settings_say():
    async with gateway({"least_score": 0.2, "max_steps": 1}) as made:
        (plan,) = await suggested(made, INTENT)
    assert [task.tool for task in plan.workflow.tasks] == ["files:read_file"]


async def test_the_model_is_shown_no_more_tools_than_the_settings_say():
    run = FakeRun(session=Session(key="k"))
    run.replies = [reply("no idea")]
    async with gateway({"max_candidates": 2}) as made:
        await suggested(made, "read a file, list a folder, send and delete an email message", run)
    ((_, question),) = run.asked
    names = {"read_file", "list_folder", "send_mail", "delete_mail"}
    assert len([name for name in names if name in json.dumps(question)]) == 2


async def test_tasks_of_tools_of_the_same_name_are_numbered():
    tool = {"name": "fetch", "description": "Fetch a page", "inputSchema": schema()}
    other = {"name": "fetch", "description": "Fetch a feed", "inputSchema": schema()}
    async with gateway({"least_score": 0.0}, web=ScriptedServer([tool]), rss=ScriptedServer([other])) as made:
        (plan,) = await suggested(made, "fetch a page, then fetch a feed")
    assert [task.id for task in plan.workflow.tasks] == ["fetch", "fetch_2"]


async def test_a_tool_that_writes_takes_no_path_from_what_is_to_be_read():
    async with gateway({"least_score": 0.0}, notes=ScriptedServer(NOTES)) as made:
        (plan,) = await suggested(made, "read the file notes.md, then write a file about frogs")
    writes = [task for task in plan.workflow.tasks if task.tool == "notes:write_file"]
    assert [task.arguments for task in writes] == [{}]


# The client's model


def reply(plan):
    return {"role": "assistant", "model": "m", "content": {"type": "text", "text": plan}}


GOOD = {
    "tasks": [
        {"id": "r", "tool": "files:read_file", "arguments": {"path": "x"}},
        {"id": "s", "tool": "mail__send_mail", "arguments": {"body": "{{r.body}}"}, "depends_on": ["r"]},
    ],
    "confidence": 0.95,
    "why": "It reads and sends.",
}


@pytest.mark.parametrize("text", [json.dumps(GOOD), f"Here you are:\n```json\n{json.dumps(GOOD)}\n```"])
async def test_the_clients_model_plans_and_is_shown_only_what_may_be_used(text):
    run = FakeRun(session=Session(key="k"))
    run.replies = [reply(text)]
    async with gateway(filters=[lambda e, session: e.name != "delete_mail"]) as made:
        best, *_ = await suggested(made, "read a file and send an email message", run)
    assert [task.tool for task in best.workflow.tasks] == ["files:read_file", "mail:send_mail"]
    assert best.workflow.tasks[1].depends_on == ("r",)
    assert (best.confidence, best.why) == (0.6, "Planned by the client's model: It reads and sends.")
    ((method, asked),) = run.asked
    assert method == "sampling/createMessage"
    assert "delete_mail" not in json.dumps(asked)


@pytest.mark.parametrize(
    "text",
    [
        "no idea",
        "[]",
        json.dumps({"tasks": []}),
        json.dumps({"tasks": [{"id": "a", "tool": "nosuch:tool"}], "confidence": 1}),
        json.dumps({"tasks": [{"id": "a b", "tool": "files:read_file"}], "confidence": 1}),
        json.dumps({"tasks": [{"id": "a", "tool": "files:read_file", "depends_on": ["z"]}], "confidence": 1}),
        json.dumps({"tasks": [{"id": "a", "tool": "files:read_file"}] * 2, "confidence": 1}),
        json.dumps({"tasks": [{"id": "a", "tool": "files:read_file", "arguments": []}], "confidence": 1}),
        json.dumps({"tasks": [{"id": "a", "tool": "pml:execute_workflow"}], "confidence": 1}),
        json.dumps({"tasks": [{"id": f"t{n}", "tool": "files:read_file"} for n in range(9)], "confidence": 1}),
    ],
)
async def test_a_model_that_writes_no_plan_that_can_be_is_not_believed(text):
    run = FakeRun(session=Session(key="k"))
    run.replies = [reply(text)]
    async with gateway({"least_score": 0.2}) as made:
        for plan in await suggested(made, "read the file x.txt", run):
            assert "model" not in plan.why


async def test_a_model_is_not_asked_when_that_is_switched_off():
    run = FakeRun(session=Session(key="k"))
    async with gateway({"ask_model": False}) as made:
        await suggested(made, INTENT, run)
    assert run.asked == []


async def test_the_question_goes_to_a_real_client_and_its_refusal_leaves_the_search():
    async def plans(arguments, run):
        found = await services[0].find(SUGGESTER).suggest(arguments["intent"], run, limit=3)
        return {"why": [plan.why for plan in found]}

    from pml_testing.dispatching import tool

    services = []
    plugins = {("hooks", "suggester"): plugin, ("hooks", "made"): hooks(tool("plan_it", call=plans))}
    async with running(
        {"files": ScriptedServer(FILES)}, plugins=plugins, tables={"suggester": {"least_score": 0.2}}
    ) as made:
        services.append(made.assembly.services("suggester"))
        client = Client(made)
        await client.initialize({"sampling": {}})

        async def refuses(params):
            raise RpcError(-1, "the user said no")

        client.peer.others["sampling/createMessage"] = refuses
        result = await client.call("plan_it", {"intent": "read the text of a file"})
    assert ["relevance" in why for why in result["structuredContent"]["why"]] == [True]


# Words


@pytest.mark.parametrize(
    ("intent", "parts"),
    [
        ("", []),
        ("list files", ["list files"]),
        (
            "Read a.txt, then mail it to Bob. Finally log out now",
            ["Read a.txt", "mail it to Bob", "Finally log out now"],
        ),
        ("find the weather and plot it", ["find the weather", "plot it"]),
    ],
)
def test_clauses(intent, parts):
    assert clauses(intent) == parts


@pytest.mark.parametrize(
    ("name", "described", "clause", "value"),
    [
        ("path", TEXT, "read ./a/b.txt", "./a/b.txt"),
        ("path", TEXT, "compare a.txt with b.txt", None),
        ("url", TEXT, "open https://example.com/x?y=1 please", "https://example.com/x?y=1"),
        ("user_email", TEXT, "write to ann@example.com", "ann@example.com"),
        ("query", TEXT, "papers about frogs", None),
        ("title", TEXT, 'name it "My Trip"', "My Trip"),
        ("title", TEXT, "name it something", None),
        ("limit", {"type": "integer"}, "the first 7 entries", 7),
        ("limit", {"type": "integer"}, "from 3 to 5", None),
        ("ratio", {"type": "number"}, "scale by 0.5", 0.5),
        ("limit", {"type": "integer"}, "scale by 0.5", None),
        ("unit", {"type": "string", "enum": ["celsius", "fahrenheit"]}, "in Celsius please", "celsius"),
        ("flags", {"type": "array"}, "with flags", None),
    ],
)
def test_only_what_the_words_say_is_filled_in(name, described, clause, value):
    step = Step(entry("s:t", input_schema=schema(name, **{name: described})), clause, 1.0)
    found = filled(step, clause, [])
    assert found.arguments.get(name) == value
    assert (name in found.missing) is (value is None)


@pytest.mark.parametrize("broken", [None, [], {"properties": []}, {"properties": {"a": 5}, "required": "a"}])
def test_schemas_of_any_shape_are_borne(broken):
    step = Step(entry("s:t", input_schema=broken), "x", 1.0)
    filled(step, "x", [("e", step)])


@pytest.mark.parametrize(
    "said", [{}, {"confidence": None}, {"confidence": 1.0}, {"confidence": 0}, {"confidence": "high"}]
)
async def test_a_models_plan_is_suggested_and_never_run_at_once_whatever_it_says_of_itself(said):
    run = FakeRun(session=Session(key="k"))
    run.replies = [reply(json.dumps({**{k: v for k, v in GOOD.items() if k != "confidence"}, **said}))]
    async with gateway() as made:
        plans = await suggested(made, "read a file and send an email message", run)
    (plan,) = [plan for plan in plans if "model" in plan.why]
    suggested_at, run_at = 0.5, 0.85  # as [plugins.dag] has them unless it says otherwise
    assert suggested_at <= plan.confidence < run_at
    ((_, asked),) = run.asked
    assert "confidence" not in asked["systemPrompt"]
