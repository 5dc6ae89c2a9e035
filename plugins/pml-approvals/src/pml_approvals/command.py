"""``pml approvals``: what waits for a human, and the human's answer."""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments
from pml_kit.terminal import print_table

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .requests import Answer, Request


MOST = 1000
"""Requests in one list."""
WIDEST = 80
"""Characters of arguments in a table."""


def add(subcommands: Any) -> None:
    """Add the command and its verbs."""
    parser = subcommands.add_parser("approvals", help="see and answer what waits for a human")
    verbs = parser.add_subparsers(dest="verb", required=True)
    shown = verbs.add_parser("list", help="requests that wait, the newest first")
    shown.add_argument("--all", action="store_true", help="those that were answered, too")
    shown.add_argument("--limit", type=int, default=50, help="most requests [1 to 1000]")
    shown.set_defaults(run_with=_list)
    one = verbs.add_parser("show", help="all of one request")
    one.set_defaults(run_with=_show)
    approve = verbs.add_parser("approve", help="let it run, once")
    approve.set_defaults(run_with=_answer, state="approved")
    deny = verbs.add_parser("deny", help="refuse it")
    deny.set_defaults(run_with=_answer, state="denied")
    for verb in (one, approve, deny):
        verb.add_argument("id", help="such as apr-0123456789abcdef; the beginning will do where only one begins so")
    for verb in (approve, deny):
        verb.add_argument("--reason", default="", help="what to tell the agent")
    for verb in (shown, one, approve, deny):
        verb.add_argument("--json", action="store_true", help="for programs")


def _requests(services: Services) -> Any:
    from .requests import Requests

    return Requests(services, services.settings or Settings())


async def _list(arguments: argparse.Namespace, services: Services) -> int:
    if not 1 <= arguments.limit <= MOST:
        raise InvalidArguments(f"--limit must be 1 to {MOST}")
    found = await _requests(services).all(None if arguments.all else "pending", arguments.limit)
    if arguments.json:
        _say(json.dumps([_plain(request) for request in found], indent=2))
    elif not found:
        _say("There were no requests yet." if arguments.all else "Nothing waits for a human.")
    else:
        _show_table(found)
    return 0


def _show_table(found: Sequence[Request]) -> None:
    rows = []
    for request in found:
        value = request.value
        shown = "; ".join(value.get("flows", ())) or json.dumps(value["request"], ensure_ascii=False)
        shown = shown if len(shown) <= WIDEST else f"{shown[: WIDEST - 1]}…"
        cells = (request.id, request.state, value["target"], shown, value["intent"] or "-", value["requested_at"][:19])
        rows.append(cells)
    print_table(("id", "state", "what", "with", "for", "asked at"), rows, whole=["id"])


async def _show(arguments: argparse.Namespace, services: Services) -> int:
    request = await _one(arguments.id, services)
    _say(json.dumps(_plain(request), indent=2))
    return 0


async def _answer(arguments: argparse.Namespace, services: Services) -> int:
    request = await _one(arguments.id, services)
    if request.state != "pending":
        raise InvalidArguments(f"{request.id} is {request.state} already")
    state: Answer = arguments.state
    if not await _requests(services).answer(request, state, by=getpass.getuser(), reason=arguments.reason):
        raise InvalidArguments(f"{request.id}: somebody else answered at the same time")
    after = "It runs when it is asked for again." if state == "approved" else "It is refused when asked for again."
    _say(json.dumps({"id": request.id, "state": state}) if arguments.json else f"{request.id} is {state}. {after}")
    return 0


async def _one(id: str, services: Services) -> Request:
    requests = _requests(services)
    whole: Request | None = await requests.get(id)
    found: Sequence[Request] = [whole] if whole is not None else await requests.beginning_with(id) if id else []
    if not found:
        raise InvalidArguments(f"There is no request {id!r}, or it has expired; pml approvals list shows what waits.")
    if len(found) > 1:
        raise InvalidArguments(f"More than one request begins with {id!r}; give more of its id (pml approvals list).")
    return found[0]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _plain(request: Request) -> dict[str, Any]:
    expires = None if request.expires_at is None else request.expires_at.isoformat()
    about = {"id": request.id, "state": request.state, "principal": request.principal, "expires_at": expires}
    return {**about, **request.value}
