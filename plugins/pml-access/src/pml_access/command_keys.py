"""``pml keys``: who is let in."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments
from pml_kit.terminal import print_table, printable

from .output import operator, say, say_json, tell

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .keys import Key

UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
TIMES = "30m, 12h, 30d, 4w, or a time such as 2027-01-31 or 2027-01-31T12:00Z"
COLUMNS = ("id", "for", "name", "state", "expires", "last used", "may have")


def add(subcommands: Any) -> None:
    """Add the command and its verbs."""
    parser = subcommands.add_parser("keys", help="make, see and revoke keys of people, agents and systems")
    verbs = parser.add_subparsers(dest="verb", required=True)
    _add_create(verbs)
    shown = verbs.add_parser("list", help="keys, the newest first")
    shown.add_argument("--all", action="store_true", help="those that were revoked or have expired, too")
    shown.set_defaults(run_with=_list)
    one = verbs.add_parser("show", help="all about one key, but the key")
    one.set_defaults(run_with=_show)
    revoke = verbs.add_parser("revoke", help="make a key useless, for good")
    revoke.set_defaults(run_with=_revoke)
    lock = verbs.add_parser("lock", help="have all that comes with a key rehearsed from now on, for good")
    lock.set_defaults(run_with=_lock)
    for verb in (one, revoke, lock):
        verb.add_argument("id", help="its id; the beginning will do where only one begins so")
    for verb in verbs.choices.values():
        verb.add_argument("--json", action="store_true", help="for programs")


def _add_create(verbs: Any) -> None:
    create = verbs.add_parser("create", help="make a key and print it, this once")
    whose = create.add_mutually_exclusive_group(required=True)
    whose.add_argument("--user", metavar="NAME", help="for a person: sees its own executions and those of its agents")
    whose.add_argument("--agent", metavar="NAME", help="for a configured agent: sees its own, and lists permitted ones")
    whose.add_argument("--system", action="store_true", help="for a system that sees everything, such as a dashboard")
    create.add_argument("--name", default="", metavar="TEXT", help="what it is for")
    create.add_argument("--expires", metavar="WHEN", help=f"when it ends by itself: {TIMES}; never if not given")
    create.add_argument(
        "--tools-exposure", default="", metavar="MODE", help="exposure mode; the endpoint's if not given"
    )
    create.add_argument("--intent", default="", help="hint at what its holder does, for modes that select by it")
    create.add_argument(
        "--execution-mode", default="", choices=("real", "dry_run"), help="what calls do that do not say themselves"
    )
    create.add_argument(
        "--dry-run-only",
        action="store_true",
        help="rehearse all that comes with it, whatever a call asks for",
    )
    pattern = "as a pattern such as files:* or shell:run; may be repeated"
    create.add_argument("--allow", action="append", metavar="PATTERN", help=f"tools it may have, {pattern}; else all")
    create.add_argument(
        "--deny", action="append", default=[], metavar="PATTERN", help=f"tools it may not have, {pattern}"
    )
    create.add_argument(
        "--scope", action="append", default=[], help="what plugins may ask of a key, such as approve; may be repeated"
    )
    create.set_defaults(run_with=_create)


async def _create(arguments: argparse.Namespace, services: Services) -> int:
    from .events import note_done
    from .keys import Keys

    about = _about(arguments)
    key, token = await Keys(services).create(about, by=operator())
    await note_done(services, "key.created", by=key.created_by, **_marked(key))
    shown = key.shown(None, datetime.now(UTC))
    if arguments.json:
        say_json({"key": token.text, **shown})
        return 0
    until = "" if key.expires_at is None else f", until {_minute(shown['expires_at'])}"
    tell(f"Key {key.id} for {_whom(key)}{until}. It is shown this once; pml keys revoke {key.id} ends it.")
    say(token.text)
    return 0


def _about(arguments: argparse.Namespace) -> dict[str, Any]:
    """Members of the key, as they were asked for."""
    from .agents import problem_of
    from .keys import LOCAL, SYSTEM

    if getattr(arguments, "mode", None):
        raise InvalidArguments("--mode is for this command; the exposure mode of a key is given with --tools-exposure")
    kind = "user" if arguments.user is not None else "agent" if arguments.agent is not None else SYSTEM
    holder = {"user": arguments.user, "agent": arguments.agent, SYSTEM: ""}[kind]
    if kind != SYSTEM and (problem := problem_of([holder])):
        raise InvalidArguments(f"--{kind}: {problem}")
    if kind == "user" and holder == LOCAL:
        raise InvalidArguments(
            f"--user: the name {LOCAL!r} is taken: it is of all who have no key, of clients on stdio and of schedules"
        )
    if arguments.dry_run_only and arguments.execution_mode == "real":
        raise InvalidArguments("--execution-mode real: a key with --dry-run-only only rehearses; leave one out")
    if SYSTEM in arguments.scope:
        raise InvalidArguments("--scope system: that is what --system keys have, and no others")
    for option, patterns in (("--allow", arguments.allow or ()), ("--deny", arguments.deny)):
        for pattern in patterns:
            if ":" not in pattern and not pattern.startswith("*"):
                raise InvalidArguments(
                    f"{option} {pattern}: no tool is called so; give SERVER:TOOL, such as files:* or shell:run"
                )
    return {
        "kind": kind,
        "holder": holder,
        "name": arguments.name,
        "expires_at": None if arguments.expires is None else _end(arguments.expires),
        "mode": arguments.tools_exposure,
        "intent": arguments.intent,
        "execution_mode": arguments.execution_mode,
        "dry_run_only": arguments.dry_run_only,
        "allow": None if arguments.allow is None else tuple(arguments.allow),
        "deny": tuple(arguments.deny),
        "scopes": tuple(sorted(set(arguments.scope))),
    }


def _end(text: str) -> datetime:
    now, number, unit = datetime.now(UTC), text[:-1], text[-1:]
    try:
        if unit in UNITS and number.isascii() and number.isdigit():
            at = now + timedelta(**{UNITS[unit]: int(number)})
        else:
            at = datetime.fromisoformat(text)
            at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidArguments(f"--expires {text!r} is no time; give {TIMES}") from None
    if at <= now:
        raise InvalidArguments(f"--expires {text}: that is over already; give {TIMES}")
    return at


async def _list(arguments: argparse.Namespace, services: Services) -> int:
    from .keys import Keys

    keys, now = Keys(services), datetime.now(UTC)
    uses = await keys.uses()
    found = [key for key in await keys.all() if arguments.all or key.state(now) == "active"]
    shown = [key.shown(uses.get(key.id), now) for key in found]
    if arguments.json:
        say_json(shown)
    elif not shown:
        say("There are no keys; pml keys create makes one.")
    else:
        print_table(COLUMNS, [_row(key, about) for key, about in zip(found, shown, strict=True)], whole=COLUMNS[:1])
    return 0


def _row(key: Key, shown: dict[str, Any]) -> Sequence[str]:
    may = "all" if key.allow is None else ", ".join(key.allow) or "nothing"
    may += f" but {', '.join(key.deny)}" if key.deny else ""
    may += ", rehearsed only" if key.dry_run_only else ""
    times = (_minute(shown["expires_at"]), _minute(shown["last_used_at"]))
    return (key.id, _whom(key), key.name or "-", shown["state"], *times, may)


def _minute(text: str | None) -> str:
    return "never" if text is None else f"{text[:16].replace('T', ' ')} UTC"


def _whom(key: Key) -> str:
    return printable(f"{key.kind} {key.holder}".rstrip())


async def _show(arguments: argparse.Namespace, services: Services) -> int:
    from .keys import Keys

    keys = Keys(services)
    key = await _one(arguments.id, keys)
    shown = key.shown(await keys.last_used(key.id), datetime.now(UTC))
    if arguments.json:
        say_json(shown)
    else:
        print_table(
            ("of the key", shown["id"]),
            [(name, _said(value)) for name, value in shown.items() if name != "id"],
            whole=["of the key"],
        )
    return 0


def _said(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(value) or "-"
    return "-" if value in (None, "") else str(value)


async def _revoke(arguments: argparse.Namespace, services: Services) -> int:
    from .events import note_done
    from .keys import Keys

    keys = Keys(services)
    key = await _one(arguments.id, keys)
    revoked = await keys.revoke(key.id, by=operator())
    if revoked is None:
        raise InvalidArguments(f"{key.id} was revoked already")
    await note_done(services, "key.revoked", by=revoked.revoked_by, **_marked(revoked))
    if arguments.json:
        say_json(revoked.shown(await keys.last_used(key.id), datetime.now(UTC)))
    else:
        say(f"{key.id} of {_whom(key)} is revoked.")
    return 0


async def _lock(arguments: argparse.Namespace, services: Services) -> int:
    from .events import note_done
    from .keys import Keys

    keys = Keys(services)
    key = await _one(arguments.id, keys)
    locked = await keys.lock(key.id)
    if locked is None:
        raise InvalidArguments(f"{key.id} only rehearses already")
    await note_done(services, "key.locked", by=operator(), **_marked(locked))
    if arguments.json:
        say_json(locked.shown(await keys.last_used(key.id), datetime.now(UTC)))
    else:
        say(f"All that comes with {key.id} of {_whom(key)} is only rehearsed from now on.")
    return 0


async def _one(id: str, keys: Any) -> Key:
    """The key that is meant.

    Raises:
        InvalidArguments: None, or more than one.
    """
    from .tokens import is_ours

    if is_ours(id):
        raise InvalidArguments(
            "that is a key; give its id, which stands between the underscores, and keep the rest secret"
        )
    whole: Key | None = await keys.get(id) if id else None
    found = [whole] if whole is not None else [key for key in await keys.all() if id and key.id.startswith(id)]
    if not found:
        raise InvalidArguments(f"There is no key {id!r}; pml keys list --all shows those there are.")
    if len(found) > 1:
        raise InvalidArguments(f"More than one key begins with {id!r}; give more of its id (pml keys list --all).")
    return found[0]


def _marked(key: Key) -> dict[str, Any]:
    """What an audit says of a key."""
    return {
        "key": key.id,
        "principal": key.principal,
        "name": key.name,
        "allow": key.allow,
        "deny": key.deny,
        "dry_run_only": key.dry_run_only,
    }
