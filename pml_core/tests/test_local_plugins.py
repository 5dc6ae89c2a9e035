"""Plugins that are files: ``[gateway] local``."""

from __future__ import annotations

import asyncio
import os

import pytest

from pml_core.gateway import Gateway
from pml_core.plugins import local_plugins
from pml_core.plugins.registry import State
from pml_kit.errors import OperatorError
from pml_kit.system.logs import Logs
from pml_settings.config import load
from pml_testing.commands import LOCAL_PLUGIN
from pml_testing.fakes import FakeLog
from pml_testing.gateway import Client, until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_local_modules")]


def one(**options):
    (record,) = local_plugins.found(load(**options))
    return record


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


@pytest.mark.parametrize("name", ["Policy.py", "my-policy.py", "policy.txt", "policy"])
def test_a_file_that_cannot_name_a_plugin_is_told_to_be_renamed(place, installation, capsys, name):
    place.users(name, LOCAL_PLUGIN)
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
    place.write("other/policy.py", LOCAL_PLUGIN).chmod(0o644)
    place.write("policy.py", LOCAL_PLUGIN).chmod(0o644)
    records = local_plugins.found(load(overrides=["gateway.local=['policy.py', 'other/policy.py']"]))
    assert [record.state for record in records] == [State.INCOMPATIBLE] * 2
    assert all("also claimed by" in record.problem for record in records)


@pytest.mark.parametrize("name", ["policy", "local:policy"])
def test_it_can_be_blocked(policy, name):
    assert one(overrides=[f"gateway.block=['{name}']"]).state is State.BLOCKED


async def test_a_strict_gateway_refuses_to_start_with_a_broken_one(policy):
    policy.write_text("def broken(:\n", encoding="utf-8")
    with pytest.raises(OperatorError, match=r"policy\.py:1"):
        async with Gateway(load(overrides=["gateway.strict=true"])):
            pass


async def test_a_change_is_told_to_need_a_restart(policy, monkeypatch):
    monkeypatch.setattr(local_plugins, "POLL_S", 0.01)
    log = FakeLog()
    watching = asyncio.ensure_future(local_plugins.watch(load(), log))
    await asyncio.sleep(0)
    policy.write_text(f"{LOCAL_PLUGIN}# changed\n", encoding="utf-8")
    await until(lambda: log.lines)
    watching.cancel()
    ((level, event, fields),) = log.lines
    assert (level, fields) == ("warning", {"files": [str(policy)]})
    assert "takes effect with the next start" in event


async def test_a_gateway_without_local_files_is_as_before(place, installation):
    async with Gateway(load(), Logs("error")) as gateway:
        assert gateway.assembly.records == []
