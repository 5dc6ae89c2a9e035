"""Servers that ask while they answer a call, and clients that come back with the answer."""

from __future__ import annotations

import pytest

from pml_hookspecs import RpcError
from pml_testing.gateway import Client, ScriptedServer

SURE = {"method": "elicitation/create", "params": {"message": "sure?", "requestedSchema": {"type": "object"}}}
THINK = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}
ROOTS = {"method": "roots/list"}
ABLE = {"elicitation": {}, "sampling": {}, "roots": {}}
YES = {"action": "accept", "content": {"n": 1}}
DONE = {"content": [{"type": "text", "text": "done"}]}
either_peer = pytest.mark.parametrize("stateless", [False, True])


def asking(*questions, told=None):
    """A server with a handshake that asks, one after the other, while it answers a call."""
    server = ScriptedServer(["do"])
    server.told = [] if told is None else told

    async def answer(name, arguments):
        for question in questions:
            try:
                server.told.append(await server.ask(question["method"], question.get("params", {})))
            except RpcError as error:
                server.told.append(error)
        return {"content": [], "structuredContent": {"told": len(server.told)}}

    server.answer = answer
    return server


def newer(made, stateless, capabilities=ABLE, **options):
    return Client(made, modern=True, stateless=stateless, capabilities=capabilities, **options)


def retry(client, asked, answers=None, name="a__do", **params):
    """The same call once more, with answers to all that was asked, or those given."""
    given = dict.fromkeys(asked["inputRequests"], YES) if answers is None else answers
    return client.call(name, inputResponses=given, requestState=asked["requestState"], **params)
