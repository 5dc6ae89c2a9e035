"""Two people, each with a login of their own at a server: no request of one ever carries the other's token."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pml_core.gateway import Gateway
from pml_hookspecs import Endpoint, Identity, RunOptions, ToolCall, ToolId
from pml_kit.mcp.principal_logins import for_principal
from pml_mcp.wire.client import current_client
from pml_testing.fakes import FakeRun
from pml_testing.gateway import Client

from .login_servers import Places, browser, gateway, kept_in, places

pytestmark = pytest.mark.anyio
NO_SHRINKING = [Phase.explicit, Phase.reuse, Phase.generate]
"""An example takes a second, and half of them differ in what comes first."""
PEOPLE = ("ada", "bob")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


class Person:
    """Somebody with a client, who logs in where the client asks, unless told otherwise."""

    def __init__(self, made: Gateway, name: str, *, modern: bool) -> None:
        self.name, self.modern, self.agrees = name, modern, True
        self.asked: list[dict[str, Any]] = []
        self.client = Client(
            made,
            modern=modern,
            stateless=modern,
            capabilities={"elicitation": {"url": {}}},
            identity=Identity(principal=name, mode="full_proxy"),
        )
        self.client.peer.others["elicitation/create"] = self.opens

    async def begin(self) -> None:
        if not self.modern:
            await self.client.initialize({"elicitation": {"url": {}}})

    async def opens(self, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(params)
        if not self.agrees:
            return {"action": "decline"}
        async with browser(self.name) as mine:
            await mine.get(params["url"])
        return {"action": "accept"}

    async def call(self, tool: str = "whoami") -> str:
        """What the server says who called; why not, if it does not."""
        params: dict[str, Any] = {"name": f"desk__{tool}", "arguments": {"as": self.name}}
        answer = await self.client.request("tools/call", params)
        while answer.get("resultType") == "input_required":
            given = {key: await self.opens(one["params"]) for key, one in answer["inputRequests"].items()}
            again = {**params, "inputResponses": given, "requestState": answer["requestState"]}
            answer = await self.client.request("tools/call", again)
        return str(answer["content"][0]["text"])

    async def tools(self) -> set[str]:
        return {name for name in await self.client.tools() if name.startswith("desk__")}


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("era", ["client", "legacy", "modern"])
async def test_a_call_goes_on_by_itself_once_its_person_has_logged_in(
    *, modern: bool, era: str, tmp_path: Path
) -> None:
    async with places() as there, gateway(there, tmp_path, era=era) as made:
        ada, bob = (Person(made, name, modern=modern) for name in PEOPLE)
        for one in (ada, bob):
            await one.begin()
            assert await one.tools() == {"desk__log_in"}
        assert await ada.call() == "ada"
        assert [sorted(await one.tools()) for one in (ada, bob)] == [["desk__of_ada", "desk__whoami"], ["desk__log_in"]]
        assert "Logged in to desk" in await bob.call("log_in")
        assert await bob.tools() == {"desk__of_bob", "desk__whoami"}
        assert await bob.call() == "bob"
        assert [len(one.asked) for one in (ada, bob)] == [1, 1]
        assert ("elicitationId" in ada.asked[0]) is not modern
        there.nothing_wrong()


async def test_who_cannot_be_asked_is_told_where_to_log_in(tmp_path: Path) -> None:
    async with places() as there, gateway(there, tmp_path) as made:
        ada = Person(made, "ada", modern=False)
        await ada.client.initialize({})
        answer = await ada.client.call("desk__whoami", {"as": "ada"})
        text = answer["content"][0]["text"]
        assert answer["isError"]
        assert f"Log in at {there.authority.url}/authorize?" in text
        async with browser("ada") as mine:
            await mine.get(text.partition("Log in at ")[2].partition(" ")[0])
        async with asyncio.timeout(60):  # the browser is answered before the code is exchanged
            while (said := await ada.call()) != "ada":
                assert "has no login" in said
        there.nothing_wrong()


@pytest.mark.parametrize("modern", [False, True])
async def test_who_does_not_agree_is_not_logged_in(*, modern: bool, tmp_path: Path) -> None:
    async with places() as there, gateway(there, tmp_path) as made:
        ada = Person(made, "ada", modern=modern)
        await ada.begin()
        ada.agrees = False
        assert "'ada' has no login at server 'desk'" in await ada.call()
        assert there.desk.seen == []
        ada.agrees = True
        assert await ada.call() == "ada"


async def test_calls_that_come_together_ask_once(tmp_path: Path) -> None:
    async with places() as there, gateway(there, tmp_path) as made:
        ada = Person(made, "ada", modern=False)
        await ada.begin()
        assert await asyncio.gather(*(ada.call() for _ in range(5))) == ["ada"] * 5
        assert len(ada.asked) == 1
        assert ("notifications/elicitation/complete", {"elicitationId": ada.asked[0]["elicitationId"]}) in [
            (method, dict(params)) for method, params in ada.client.link.notified
        ]


async def test_tokens_are_nowhere_in_the_store(tmp_path: Path, home: Path) -> None:
    async with places() as there:
        async with gateway(there, tmp_path) as made:
            for name in PEOPLE:
                one = Person(made, name, modern=False)
                await one.begin()
                assert await one.call() == name
        there.authority.end("ada", renewable=True)
        async with gateway(there, tmp_path) as made:
            ada = Person(made, "ada", modern=False)
            await ada.begin()
            assert await ada.call() == "ada"
            assert ada.asked == []
        kept = kept_in(tmp_path)
        assert len(there.authority.persons) == 3
        for token in (*there.authority.persons, *there.authority.refreshes):
            assert token.encode() not in kept
        assert (home / "login.key").stat().st_mode & 0o777 == 0o600


async def test_another_key_file_is_said_and_nobody_is_let_in_with_what_it_had(tmp_path: Path, home: Path) -> None:
    async with places() as there, gateway(there, tmp_path) as made:
        ada = Person(made, "ada", modern=False)
        await ada.begin()
        assert await ada.call() == "ada"
        right = (home / "login.key").read_text()
        (home / "login.key").unlink()
        seen = len(there.desk.seen)
        async with gateway(there, tmp_path) as other:
            again = Person(other, "ada", modern=False)
            await again.begin()
            text = await again.call()
            assert "not connected" in text
            assert len(there.desk.seen) == seen
        (home / "login.key").write_text(right)
        (home / "login.key").chmod(0o600)
        async with gateway(there, tmp_path) as other:
            again = Person(other, "ada", modern=False)
            await again.begin()
            assert await again.call() == "ada"


async def test_what_was_somebody_elses_in_the_store_is_not_used(tmp_path: Path) -> None:
    async with places() as there:
        async with gateway(there, tmp_path) as made:
            for name in PEOPLE:
                one = Person(made, name, modern=False)
                await one.begin()
                await one.call()
            documents = made.store.documents
            found = {one.marks["principal"]: one for one in (await documents.find("http.logins")).items}
            await documents.put("http.logins", found["ada"].key, found["bob"].value, marks=found["ada"].marks)
        before = len(there.desk.seen)
        async with gateway(there, tmp_path) as made:
            ada = Person(made, "ada", modern=False)
            await ada.begin()
            assert "not connected" in await ada.call()
        assert len(there.desk.seen) == before


@pytest.mark.parametrize("modern", [False, True])
async def test_background_work_uses_the_login_of_whom_it_is_for(*, modern: bool, tmp_path: Path) -> None:
    async with places() as there, gateway(there, tmp_path) as made:
        bob = Person(made, "bob", modern=modern)
        await bob.begin()
        assert await bob.call() == "bob"
        services = made.assembly.services("workflow_tool")

        async def unattended(principal: str) -> Any:
            session = services.session(Identity(principal=principal))
            task = ToolCall(id="t", tool=ToolId("desk:whoami"), arguments={"as": principal})
            return await services.run(task, session, RunOptions())

        done = await unattended("bob")
        assert done.output["content"][0]["text"] == "bob"
        refused = await unattended("ada")
        assert refused.failure.code == "login.required"
        assert "pml auth login desk --principal ada" in refused.failure.message
        there.nothing_wrong()


@pytest.mark.parametrize("modern", [False, True])
async def test_resources_are_listed_for_each(*, modern: bool, tmp_path: Path) -> None:
    async with places() as there, gateway(there, tmp_path) as made:
        for name in PEOPLE:
            one = Person(made, name, modern=modern)
            await one.begin()
            await one.call()
            listed = (await one.client.request("resources/list"))["resources"]
            assert {item["name"] for item in listed if item["uri"].startswith("desk:")} == {name}


async def test_what_is_run_for_somebody_else_never_uses_the_client_that_is_there(tmp_path: Path) -> None:
    async with places() as there, gateway(there, tmp_path) as made:
        people = [Person(made, name, modern=False) for name in PEOPLE]
        for one in people:
            await one.begin()
            assert await one.call() == one.name
        bob = next(c for c in made.conversations if c.peer.principal == "bob")
        session = made.assembly.services("workflow_tool").session(Identity(principal="ada"))
        task = ToolCall(id="t", tool=ToolId("desk:whoami"), arguments={"as": "ada"})
        token = current_client.set(bob.at_large)
        try:
            result = await made.servers["desk"].call_tool("whoami", task, FakeRun(session=session))
        finally:
            current_client.reset(token)
        assert result["content"][0]["text"] == "ada"
        there.nothing_wrong()


@pytest.mark.parametrize("modern", [False, True])
async def test_one_of_several_gateways_renews_a_login_for_all(*, modern: bool, tmp_path: Path) -> None:
    async with places() as there, gateway(there, tmp_path) as one, gateway(there, tmp_path) as other:
        ada = [Person(made, "ada", modern=modern) for made in (one, other)]
        for each in ada:
            await each.begin()
            assert await each.call() == "ada"
        for _ in range(3):
            there.authority.end("ada", renewable=True)
            # A token to renew with is good once: who comes second with it is refused, and ada would be asked again.
            assert await asyncio.gather(*(each.call() for each in ada)) == ["ada", "ada"]
        assert [len(each.asked) for each in ada] == [1, 0]


async def test_keys_change_while_logins_are_used(tmp_path: Path, home: Path) -> None:
    async with places() as there, gateway(there, tmp_path) as one, gateway(there, tmp_path) as other:
        people = [Person(made, name, modern=False) for made in (one, other) for name in PEOPLE]
        for each in people:
            await each.begin()
            assert await each.call() == each.name
        asked = [len(each.asked) for each in people]
        keys = home / "login.key"
        seen = {keys.read_text()}

        async def use(name: str) -> None:
            for _ in range(6):
                there.authority.end(name, renewable=True)
                assert await asyncio.gather(*(one.call() for one in people if one.name == name)) == [name] * 2

        async def turn() -> None:
            for made in (one, other, one, other):
                assert await made.transport("http").rotate() == len(PEOPLE)
                seen.add(keys.read_text())

        await asyncio.gather(turn(), *map(use, PEOPLE))
        assert [len(each.asked) for each in people] == asked
        assert len(seen) == 5
        assert len(keys.read_text().split()) == 2
        there.nothing_wrong()


DOES = st.tuples(
    st.sampled_from(PEOPLE),
    st.sampled_from(["call", "list", "resources", "expire", "end", "log out", "leave", "unattended", "rotate"]),
)
STEPS = st.lists(st.one_of(st.lists(DOES, min_size=1, max_size=5), st.just("restart")), min_size=2, max_size=7)
"""What is done at the same time, one after the other; or the gateway begins anew."""


class World:
    """A gateway, two people in one era each, and what they do."""

    def __init__(self, there: Places, folder: Path, eras: tuple[bool, bool], era: str) -> None:
        self.there, self.folder, self.era = there, folder, era
        self.modern = dict(zip(PEOPLE, eras, strict=True))
        self.people: dict[str, Person] = {}

    async def meet(self, name: str) -> None:
        self.people[name] = Person(self.made, name, modern=self.modern[name])
        await self.people[name].begin()

    async def run(self, steps: list[Any]) -> None:
        waiting = [*steps, "restart"]
        while waiting:
            async with gateway(self.there, self.folder, era=self.era) as self.made:
                for name in PEOPLE:
                    await self.meet(name)
                while (step := waiting.pop(0)) != "restart":
                    await asyncio.gather(*(self.do(*one) for one in step))

    async def do(self, name: str, what: str) -> None:
        person, transport = self.people[name], self.made.transport("http")
        endpoint = for_principal(Endpoint(name="desk", address=self.there.desk.url), name)
        if what == "call":
            # A login that ends, or is taken back, while a call is under way may fail it; it is nobody else's then.
            said = await person.call()
            assert said == name or "desk" in said
        elif what == "list":
            assert await person.tools() <= {"desk__whoami", f"desk__of_{name}", "desk__log_in"}
        elif what == "resources":
            listed = (await person.client.request("resources/list"))["resources"]
            assert {one["name"] for one in listed if one["uri"].startswith("desk:")} <= {name}
        elif what == "log out":
            await transport.log_out(endpoint)
        elif what == "rotate":
            await transport.rotate()
        elif what == "leave":
            person.client.leave()
            await self.meet(name)
        elif what == "unattended":
            services = self.made.assembly.services("workflow_tool")
            task = ToolCall(id="t", tool=ToolId("desk:whoami"), arguments={"as": name})
            done = await services.run(task, services.session(Identity(principal=name)), RunOptions())
            assert done.failure is not None or done.output["content"][0]["text"] == name
        else:
            self.there.authority.end(name, renewable=what == "expire")


@pytest.mark.attack("A key sees its scope", "two people call, renew, log out and come back at the same time")
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), phases=NO_SHRINKING)
@given(
    steps=STEPS,
    eras=st.tuples(st.booleans(), st.booleans()),
    era=st.sampled_from(["client", "legacy", "modern"]),
)
async def test_no_request_of_one_carries_the_token_of_another(
    steps: list[Any], eras: tuple[bool, bool], era: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with places() as there:
            await World(there, Path(folder), eras, era).run(steps)
            there.nothing_wrong()
