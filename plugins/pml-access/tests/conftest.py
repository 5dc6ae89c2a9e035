"""Services with a store, keys in it, and the commands."""

from __future__ import annotations

import argparse
import asyncio
import json

import pytest

from pml_access import plugin
from pml_access.agents import Agents
from pml_access.identities import KeyIdentities
from pml_access.keys import Keys
from pml_access.settings import Settings
from pml_core.plugins.nulls import MemoryStore
from pml_testing.fakes import FakeServices


@pytest.fixture
def services():
    return FakeServices("access", store=MemoryStore())


@pytest.fixture
def keys(services):
    return Keys(services)


@pytest.fixture
def made(keys):
    """Makes a key; it, and what its holder presents."""

    async def made(kind="user", holder="alice", **about):
        holder = "" if kind == "system" else holder
        key, token = await keys.create({"kind": kind, "holder": holder, **about}, by="root")
        return key, token.text

    return made


@pytest.fixture
def agents(services):
    return Agents(services, Settings())


@pytest.fixture
def identities(services, agents):
    return KeyIdentities(services, Settings(), agents)


@pytest.fixture
def pml(services, capsys):
    """Runs a command; what it prints, as JSON with ``--json``."""

    def run(*words, **given):
        parser = argparse.ArgumentParser()
        plugin.pml_commands(parser.add_subparsers())
        arguments = parser.parse_args(words, argparse.Namespace(**given))
        assert asyncio.run(arguments.run_with(arguments, services)) == 0
        printed = capsys.readouterr().out
        return json.loads(printed) if "--json" in words else printed

    return run
