"""One request of a client's, as servers see it: whom they may ask, and where what they tell goes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from pml_hookspecs import Link, RawObject, RpcError, encode
from pml_kit.json_members import join, with_member
from pml_kit.mcp.protocol import (
    INVALID_REQUEST,
    LOG_MESSAGE,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    METHOD_NOT_FOUND,
    PROGRESS,
    UPDATED,
)
from pml_mcp.wire.client import NEEDS, NO_CLIENT, Asker, ConnectedClient

HUMAN_S = 86_400.0
"""Longest wait for a client's answer to a server: a human may be part of it [s]."""
UNABLE: Mapping[str, str] = {"sampling": "Sampling", "elicitation": "Elicitation", "roots": "List roots"}
"""What servers are told that a client did not declare, by its capability."""
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Levels of log messages, least severe first (MCP, logging; RFC 5424)."""


def check_able(capabilities: Mapping[str, Any], method: str) -> None:
    """Nothing if a client can answer ``method``.

    Raises:
        RpcError: It did not say that it can; as clients made with the official SDK answer then.
    """
    needed = NEEDS.get(method)
    if needed is not None and not isinstance(capabilities.get(needed), Mapping):
        raise RpcError(INVALID_REQUEST, f"{UNABLE[needed]} not supported")


def answers_servers(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client may be asked something that a human answers."""
    return isinstance(capabilities.get("sampling"), Mapping) or isinstance(capabilities.get("elicitation"), Mapping)


def severe_enough(params: RawObject, level: str | None) -> bool:
    """Whether a log message is at ``level`` or above; one of a level that nobody knows always is."""
    given = params.get("level")
    return given not in LEVELS or level is None or LEVELS.index(given) >= LEVELS.index(level)


class LegacyExchange:
    """A request of a client with a handshake, or that client at large.

    Implements :class:`pml_mcp.wire.client.Client`.
    """

    __slots__ = ("_link", "answers_servers", "conversation", "person", "session")
    modern = away = False

    def __init__(self, conversation: ConnectedClient, link: Link) -> None:
        """``link`` is where what belongs to the request goes."""
        self.conversation, self._link = conversation, link
        self.session = conversation.session
        self.person: object = conversation  # one human sits behind a connection
        self.answers_servers = answers_servers(conversation.capabilities)

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """As said in the handshake."""
        return self.conversation.capabilities

    @property
    def info(self) -> Mapping[str, Any] | None:
        """As said in the handshake."""
        return self.conversation.info

    @property
    def log_level(self) -> str | None:
        """As last set."""
        return self.conversation.log_level

    async def ask(self, asker: Asker, method: str, params: RawObject) -> Mapping[str, Any]:
        """Send the server's request on to the client.

        Raises:
            RpcError: It cannot do that, or answered with an error.
        """
        check_able(self.capabilities, method)
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, Mapping) else None
        if not isinstance(token, (str, int)):
            return await self._link.request(method, params, timeout_s=HUMAN_S)
        self.conversation.askers[token] = asker
        try:
            return await self._link.request(method, params, timeout_s=HUMAN_S)
        finally:
            self.conversation.askers.pop(token, None)

    def tell(self, method: str, params: RawObject, *, unasked: bool = False, server: str = "") -> None:
        """Hand on a notification, if the client wants it."""
        conversation = self.conversation
        if not conversation.initialized:
            return
        if method == LOG_MESSAGE and not severe_enough(params, conversation.log_level):
            return
        if method != UPDATED:
            self._link.notify(method, params)
            return
        told = [
            shown
            for shown, (whose, own) in conversation.subscribed.items()
            if own == params.get("uri") and server in ("", whose.name)
        ]
        for shown in told:
            self._link.notify(method, with_member(params, "uri", shown))
        if unasked and not told:
            conversation.hear_unasked(server, params)

    def progress(self, note: Mapping[str, Any]) -> None:
        """Tell of progress; ``note`` has the client's own token."""
        self._link.notify(PROGRESS, note)


class ModernExchange:
    """A request of a client without a handshake. Implements :class:`pml_mcp.wire.client.Client`.

    Nobody can ask such a client anything: a server's question becomes the answer to the client's request, the request
    is left waiting (:mod:`pml_mcp.clients.pending_input`), and goes on when the client comes back with its answer.
    """

    __slots__ = (
        "_given_up", "_link", "_number", "_questions", "_stirred", "_token", "askable", "capabilities", "conversation",
        "info", "log_level", "person", "session",
    )  # fmt: skip
    modern = True

    def __init__(
        self,
        conversation: ConnectedClient,
        link: Link,
        meta: Mapping[str, Any],
        *,
        capabilities: Mapping[str, Any],
        askable: bool,
    ) -> None:
        """A request that has just come.

        Args:
            conversation: Whose it is.
            link: Where what belongs to it goes.
            meta: Its ``_meta``.
            capabilities: What its client can do.
            askable: Whether its answer may be a question.
        """
        self.conversation, self.session, self.askable = conversation, conversation.session, askable
        self.capabilities = capabilities
        info = meta.get(META_CLIENT_INFO)
        self.info: Mapping[str, Any] | None = info if isinstance(info, Mapping) else None
        # Where clients are stateless nothing says that another request is of the same person. Not this itself, which
        # would be garbage in a circle after each call, with its whole connection.
        self.person: object = object() if conversation.peer.stateless else conversation
        self._link: Link | None = None
        self._come(link, meta)
        self._questions: dict[str, tuple[str, RawObject, asyncio.Future[Mapping[str, Any]]]] = {}
        self._number = 0
        self._given_up = ""
        self._stirred = asyncio.Event()

    def _come(self, link: Link, meta: Mapping[str, Any]) -> None:
        level = meta.get(META_LOG_LEVEL)
        self._link, self._token = link, meta.get("progressToken")
        self.log_level = level if level in LEVELS else None

    @property
    def away(self) -> bool:
        """Whether it is left waiting."""
        return self._link is None

    @property
    def answers_servers(self) -> bool:
        """Whether a server may ask it something that a human answers."""
        return self.askable and answers_servers(self.capabilities)

    async def ask(self, asker: Asker, method: str, params: RawObject) -> Mapping[str, Any]:
        """Keep the question until the client comes back with an answer.

        Raises:
            RpcError: The client cannot do that, or never came back.
        """
        if method not in NEEDS:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method} (not a question that a client can take)")
        check_able(self.capabilities, method)
        if not self.askable:
            raise RpcError(NO_CLIENT, "The gateway cannot ask a client: its request cannot be answered by a question.")
        if self._given_up:
            raise RpcError(NO_CLIENT, self._given_up)
        self._number += 1
        key = f"{asker.name}-{self._number}"
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._questions[key] = (method, params, answer)
        self.stir()
        try:
            return await answer
        finally:
            self._questions.pop(key, None)

    def stir(self, _task: object = None) -> None:
        """Something has happened: a question, or the end of the work."""
        self._stirred.set()

    async def stirred(self) -> None:
        """Wait for the next :meth:`stir`."""
        await self._stirred.wait()
        self._stirred.clear()

    @property
    def asks(self) -> bool:
        """Whether a question waits for an answer."""
        return any(not answer.done() for _, _, answer in self._questions.values())

    def questions(self) -> RawObject:
        """``inputRequests`` for the client: what waits for an answer, by key."""
        asked = {}
        for key, (method, params, answer) in self._questions.items():
            if answer.done():  # the server took it back just now
                continue
            question = {"method": encode(method)}
            asked[key] = join({**question, "params": params.raw} if len(params) else question).raw
        return join(asked)

    def leave(self) -> None:
        """The client's request was answered: there is no way to the client until it comes back."""
        self._link = None

    def come_back(self, answers: Mapping[str, msgspec.Raw], link: Link, meta: Mapping[str, Any]) -> None:
        """The client came back, on another request; what it does not answer is asked again."""
        self._come(link, meta)
        for key, raw in answers.items():
            if key in self._questions and bytes(raw)[:1] == b"{" and not self._questions[key][2].done():
                self._questions.pop(key)[2].set_result(RawObject(bytes(raw)))

    def give_up(self, why: str) -> None:
        """The client will not come back: what is asked, now or later, is refused."""
        self._link, self._given_up = None, why
        for _, _, answer in tuple(self._questions.values()):
            if not answer.done():
                answer.set_exception(RpcError(NO_CLIENT, why))

    def tell(self, method: str, params: RawObject, *, unasked: bool = False, server: str = "") -> None:
        """Hand on a notification: log messages if the request asked for them; the rest goes to those who listen."""
        if method != LOG_MESSAGE:
            self.conversation.listeners.tell(method, params, server)
        elif self._link is not None and self.log_level is not None and severe_enough(params, self.log_level):
            self._link.notify(method, params)

    def progress(self, note: Mapping[str, Any]) -> None:
        """Tell of progress under the token of the request that waits for the answer now, if it has one."""
        if self._link is not None and self._token is not None:
            self._link.notify(PROGRESS, {**note, "progressToken": self._token})


class ModernAtLarge:
    """A client without a handshake, between its requests. Implements :class:`pml_mcp.wire.client.Client`."""

    modern, answers_servers, away = True, False, False
    log_level = None

    def __init__(self, conversation: ConnectedClient, capabilities: Mapping[str, Any] | None = None) -> None:
        """``capabilities`` are those of one of its requests; of its last one if None."""
        self.conversation = self.person = conversation
        self._capabilities = capabilities

    @property
    def info(self) -> Mapping[str, Any] | None:
        """As its last request said."""
        return self.conversation.info

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """As its request said."""
        return self.conversation.capabilities if self._capabilities is None else self._capabilities

    async def ask(self, _asker: Asker, method: str, _params: RawObject) -> Mapping[str, Any]:
        """It can only be asked while a request of its waits.

        Raises:
            RpcError: Always.
        """
        raise RpcError(NO_CLIENT, f"The gateway cannot ask a client: no request of its waits ({method}).")

    def tell(self, method: str, params: RawObject, *, unasked: bool = False, server: str = "") -> None:
        """Hand on a notification to those who listen."""
        self.conversation.listeners.tell(method, params, server)
