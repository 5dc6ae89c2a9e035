"""Plugins that are files: ``[gateway] local``."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest

from pml_core.cli import main
from pml_core.errors import OperatorError
from pml_core.gateway import Gateway
from pml_core.logs import Logs
from pml_core.plugins import local_plugins
from pml_core.plugins.registry import State
from pml_core.settings.config import load
from pml_testing.fakes import FakeLog
from pml_testing.gateway import Client, until

pytestmark = pytest.mark.anyio

POLICY = """
from __future__ import annotations
from dataclasses import dataclass
from pml_hookspecs import MetaTool, hookimpl, setting

@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    greeting: str = setting("hello", "What it says.")
    times: int = setting(1, "How often.", ge=1)

settings_type = Settings

async def greet(arguments, run):
    return {"said": WORDS.greeting * WORDS.times}

@hookimpl
def pml_meta_tools(services):
    global WORDS
    WORDS = services.settings
    return [MetaTool(definition={"name": "greet", "inputSchema": {"type": "object"}}, call=greet)]
"""


@pytest.fixture(autouse=True)
def _nothing_stays():
    yield
    for name in [name for name in sys.modules if name.startswith(local_plugins.MODULE)]:
        del sys.modules[name]


@pytest.fixture
def policy(place, installation):
    path = place.users("policy.py", POLICY)
    path.chmod(0o644)
    place.users("config.toml", "[gateway]\nlocal = ['policy.py']\n")
    return path


def one(**options):
    (record,) = local_plugins.found(load(**options))
    return record


async def health_of_policy():
    async with Gateway(load()) as gateway:
        return gateway.supervisor.health["policy"]


def doctor(capsys, *words):
    status = main(["plugins", "doctor", "--json", *words])
    return status, {line["subject"]: line for line in json.loads(capsys.readouterr().out)}


async def test_a_file_is_a_hook_plugin_with_a_table_of_its_own(place, policy):
    place.users("config.toml", "[gateway]\nlocal = ['./policy.py']\n[plugins.policy]\ngreeting = 'hi '\ntimes = 2\n")
    async with Gateway(load()) as gateway:
        client = Client(gateway)
        await client.initialize()
        result = await client.call("greet")
    assert result["structuredContent"] == {"said": "hi hi "}


@pytest.mark.parametrize("where", ["home", "--config", "--set"])
def test_a_path_is_relative_to_the_file_that_says_it(place, policy, monkeypatch, tmp_path, where):
    place.users("config.toml", "")
    said = "[gateway]\nlocal = ['plugins/policy.py']\n"
    folders = {"home": place.home, "--config": tmp_path / "elsewhere", "--set": place.project}
    (folders[where] / "plugins").mkdir(parents=True)
    policy.rename(folders[where] / "plugins" / "policy.py")
    options = {}
    if where == "home":
        place.users("config.toml", said)
    elif where == "--config":
        (tmp_path / "elsewhere" / "mine.toml").write_text(said, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        options = {"config": (tmp_path / "elsewhere" / "mine.toml").relative_to(tmp_path)}
    else:
        options = {"overrides": ["gateway.local=['plugins/policy.py']"]}
    record = one(**options)
    assert (record.state, record.problem) == (State.FOUND, "")
    assert record.file == str(folders[where] / "plugins" / "policy.py")
    assert record.label == f"hook plugin 'policy' ({record.file})"


def test_it_is_not_run_by_looking(place, policy, capsys):
    policy.write_text("raise AssertionError('it was run')", encoding="utf-8")
    assert one().state is State.FOUND
    assert main(["plugins", "list", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["state"], shown["file"]) == ("policy", "found", str(policy))


@pytest.mark.parametrize(
    ("source", "cause", "line"),
    [
        ("x = 1\n\ndef broken(:\n", "SyntaxError: invalid syntax", 3),
        ("x = 1\nprint(undefined)\n", "NameError: name 'undefined' is not defined", 2),
        ("import sys\nsys.exit('no')\n", "SystemExit: no", 2),
        ("import nothing_of_that_name\n", "ModuleNotFoundError: No module named 'nothing_of_that_name'", 1),
        ("import json\n\njson.loads('{')\n", "JSONDecodeError: Expecting property name", 3),
    ],
)
def test_a_file_that_fails_is_named_with_the_line(policy, capsys, source, cause, line):
    policy.write_text(source, encoding="utf-8")
    status, lines = doctor(capsys)
    found = lines["hooks policy"]
    assert (status, found["ok"]) == (1, False)
    assert found["detail"].startswith(f"{policy}: {cause}")
    assert found["detail"].endswith(f"({policy}:{line})")
    assert found["remedy"] == f"Mend {policy}, or take it out of [gateway] local."
    health = asyncio.run(health_of_policy())
    assert health.startswith("quarantined: ")
    assert cause in health
    assert not [name for name in sys.modules if name.startswith(local_plugins.MODULE)]


@pytest.mark.parametrize(
    ("source", "problem", "remedy"),
    [
        ("x = 1", "has no hooks", "with @hookimpl"),
        (
            "from pml_hookspecs import hookimpl\n@hookimpl\ndef pml_commands(subcommands): ...",
            "has pml_commands",
            "pml plugin new hooks policy",
        ),
        ("from pml_hookspecs import hookimpl\n@hookimpl\ndef pml_mete_tools(services): ...", "unknown hook", "Mend"),
    ],
)
def test_a_file_that_is_no_hook_plugin_is_told_what_it_lacks(policy, capsys, source, problem, remedy):
    policy.write_text(source, encoding="utf-8")
    line = doctor(capsys)[1]["hooks policy"]
    assert problem in line["detail"]
    assert remedy in line["remedy"]


def test_a_missing_file_is_told_with_the_path_that_was_looked_at(place, installation, capsys):
    place.users("config.toml", "[gateway]\nlocal = ['lost.py']\n")
    status, lines = doctor(capsys)
    assert status == 1
    assert lines["hooks lost"]["detail"] == f"{place.home / 'lost.py'}: cannot be read: No such file or directory"
    assert "relative to the file that says it" in lines["hooks lost"]["remedy"]


@pytest.mark.parametrize("name", ["Policy.py", "my-policy.py", "policy.txt", "policy"])
def test_a_file_that_cannot_name_a_plugin_is_told_to_be_renamed(place, installation, capsys, name):
    place.users(name, POLICY)
    record = one(overrides=[f"gateway.local=['{name}']"])
    assert record.state is State.INCOMPATIBLE
    assert repr(name) in record.problem
    assert "Rename" in record.remedy


@pytest.mark.parametrize(("mode", "whose"), [(0o664, "others in its group"), (0o646, "anybody"), (0o666, "anybody")])
def test_a_file_that_others_can_write_is_refused(policy, mode, whose):
    policy.chmod(mode)
    record = one()
    assert record.state is State.INCOMPATIBLE
    assert f"can be written by {whose} (mode {mode:04o})" in record.problem
    assert f"chmod go-w {policy}" in record.remedy


def test_a_file_of_somebody_else_is_refused(policy, monkeypatch):
    if os.getuid() == 0:
        os.chown(policy, 12_345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12_345)
    record = one()
    assert record.state is State.INCOMPATIBLE
    assert "belongs to another user" in record.problem
    assert "Read it" in record.remedy


def test_what_is_run_is_checked_and_not_only_what_was_looked_at(policy):
    record = one()
    policy.chmod(0o666)
    with pytest.raises(OperatorError, match="can be written by anybody"):
        record.entry_point.load()


def test_a_folder_is_no_file(place, installation):
    (place.project / "policy.py").mkdir()
    record = one(overrides=["gateway.local=['policy.py']"])
    assert (record.state, record.problem) == (State.INCOMPATIBLE, "is no file")


def test_a_name_that_a_distribution_has_belongs_to_neither(policy, installation):
    installation.add("acme", {"pml.plugins": {"policy": "acme_policy"}})
    by_dist = {record.dist: record for record in local_plugins.found(load())}
    assert by_dist["local:policy"].problem == "name also claimed by acme"
    assert by_dist["local:policy"].remedy == f"Rename {policy}."
    assert by_dist["acme"].state is State.INCOMPATIBLE


def test_two_files_of_one_name_clash(place, policy):
    (place.project / "other").mkdir()
    place.write("other/policy.py", POLICY).chmod(0o644)
    place.write("policy.py", POLICY).chmod(0o644)
    records = local_plugins.found(load(overrides=["gateway.local=['policy.py', 'other/policy.py']"]))
    assert [record.state for record in records] == [State.INCOMPATIBLE] * 2
    assert all("also claimed by" in record.problem for record in records)


@pytest.mark.parametrize("name", ["policy", "local:policy"])
def test_it_can_be_blocked(policy, name):
    assert one(overrides=[f"gateway.block=['{name}']"]).state is State.BLOCKED


@pytest.mark.seed("CARD-6")
async def test_a_strict_gateway_refuses_to_start_with_a_broken_one(policy):
    policy.write_text("def broken(:\n", encoding="utf-8")
    with pytest.raises(OperatorError, match=r"policy\.py:1"):
        async with Gateway(load(overrides=["gateway.strict=true"])):
            pass


def test_settings_that_do_not_fit_are_told_with_path_and_file(place, policy, capsys):
    file = place.users("config.toml", "[gateway]\nlocal = ['policy.py']\n[plugins.policy]\ntimez = 2\n")
    status, lines = doctor(capsys)
    assert status == 1
    assert f"plugins.policy.timez ({file}): unknown key; did you mean 'times'?" in lines["hooks policy"]["detail"]
    assert main(["config", "check"]) == 1
    assert "did you mean 'times'?" in capsys.readouterr().out


def test_the_commands_about_settings_know_it(place, policy, capsys):
    assert main(["config", "explain", "plugins.policy.greeting"]) == 0
    assert "What it says." in capsys.readouterr().out
    assert main(["config", "schema"]) == 0
    plugins = json.loads(capsys.readouterr().out)["$defs"]["Plugins"]
    assert "policy" in plugins["properties"]


async def test_a_change_is_told_to_need_a_restart(policy, monkeypatch):
    monkeypatch.setattr(local_plugins, "POLL_S", 0.01)
    log = FakeLog()
    watching = asyncio.ensure_future(local_plugins.watch(load(), log))
    await asyncio.sleep(0)
    policy.write_text(f"{POLICY}# changed\n", encoding="utf-8")
    await until(lambda: log.lines)
    watching.cancel()
    ((level, event, fields),) = log.lines
    assert (level, fields) == ("warning", {"files": [str(policy)]})
    assert "takes effect with the next start" in event


async def test_a_gateway_without_local_files_is_as_before(place, installation):
    async with Gateway(load(), Logs("error")) as gateway:
        assert gateway.assembly.records == []
