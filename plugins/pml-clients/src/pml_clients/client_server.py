"""One server as an MCP client writes it down, put in PML's terms.

Fields as the clients' documentation has them in 2026: Claude Code (``type``, ``timeout``), Cursor and VS Code
(``envFile``, ``${workspaceFolder}``, ``${userHome}``), VS Code (``${input:…}``), Windsurf (``serverUrl``,
``disabledTools``), Codex (``enabled_tools``), Gemini CLI (``httpUrl``, ``trust``, ``includeTools``, ``$NAME``).
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pml_kit.system.environment import is_usual

KINDS = ("keyring", "file", "command")
"""What begins the name of what is not in the environment, before a colon."""
REFERENCE = re.compile(
    rf"\$\{{(?:env:)?((?<!env:)(?:{'|'.join(KINDS)}):(?:(?!:-)[^{{}}\r\n])+|[A-Za-z_][A-Za-z0-9_]*)(?::-([^}}]*))?\}}"
)
"""``${NAME}``, ``${env:NAME}``, ``${keyring:NAME}``, ``${NAME:-default}``; groups: the name, the default or None."""
GEMINI_ONLY = frozenset(("httpUrl", "trust", "includeTools", "excludeTools", "authProviderType"))
"""Keys of a server that only Gemini CLI writes."""

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_DOLLAR_NAME = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PASSES_ON = ("-e", "--env")
"""Options by which docker and podman hand a variable of their own environment on, by its name."""
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SHORTEST_MS = 1000
_REMOTE_TYPES = ("http", "streamable-http", "streamableHttp", "streamable_http", "sse")
_ADDRESSES = ("command", "httpUrl", "serverUrl", "url")
_ALLOW = ("includeTools", "enabled_tools", "tools")
"""Keys of Gemini CLI, Codex and Copilot that name the only tools a client has."""
_DENY = ("excludeTools", "disabled_tools", "disabledTools")
"""Keys of Gemini CLI, Codex and Windsurf that name tools a client does not have."""
_WORKSPACE = re.compile(r"\$\{workspace(?:Folder|Root)\}/*")
_GLOB = re.compile(r"[*?[]")
_UNDERSTOOD = frozenset(
    (
        *("type", "transport", "args", "env", "envFile", "cwd", "headers", "timeout", "disabled", "enabled"),
        *(*_ALLOW, *_DENY, *_ADDRESSES),
    )
)
_SIGN_IN = "is not used by PML; a server that asks for a sign-in needs its token in headers"
_NO_SANDBOX = "is not used by PML; the server runs with the rights of the gateway"
_WHY_UNUSED = {
    "headersHelper": "is not run by PML; put the header into headers, its value as a ${VARIABLE}",
    "oauth": _SIGN_IN,
    "auth": _SIGN_IN,
    "authProviderType": _SIGN_IN,
    "tools": "of this shape is not used by PML; it asks for what approvals say",
    "sandbox": _NO_SANDBOX,
    "sandboxEnabled": _NO_SANDBOX,
}
_JSON_TYPES: dict[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


def is_of_kind(name: str) -> bool:
    """Whether a reference's name is none of a variable: ``KIND:WHAT``."""
    return ":" in name


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedServer:
    """One server of a client's file, in PML's terms."""

    name: str
    """Usable as a table name in ``[servers]``; unique among the servers read together."""
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    inherit_env: tuple[str, ...] = ()
    """Variables that its command line mentions and ``env`` does not give: its client passed on all that it had."""
    env_file: str | None = None
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    protocol: str = ""
    """``"auto"`` where its client would also try HTTP with SSE."""
    timeout_s: float | None = None
    tools: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """``allow`` and ``deny``, each where its client names tools: patterns of the server's own names."""
    enabled: bool = True
    notes: tuple[str, ...] = ()
    """One line each for what was left out, changed or needs doing; no secrets."""
    keys: tuple[str, ...] = field(default=(), compare=False)
    """Where it stands in the file, its own name there last."""

    def table(self) -> dict[str, Any]:
        """The ``[servers.<name>]`` table with the keys that are set, in the order they are best read."""
        table: dict[str, Any] = {
            "command": self.command,
            "args": list(self.args),
            "env": dict(self.env),
            "inherit_env": list(self.inherit_env),
            "env_file": self.env_file,
            "cwd": self.cwd,
            "url": self.url,
            "headers": dict(self.headers),
            "protocol": self.protocol,
            "timeout_s": self.timeout_s,
            "tools": {key: list(names) for key, names in self.tools.items()},
        }
        table = {key: value for key, value in table.items() if value not in (None, "", [], {})}
        return table if self.enabled else {**table, "enabled": False}


def join(path: str, *keys: str) -> str:
    """The path of a member: ``a.b``, or ``a["b c"]`` for a key that would not read well."""
    for key in keys:
        path += f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key)}]"
    return path


def kind_of(value: object) -> str:
    """What a JSON value is, in a word or two; never the value itself, which may be a secret."""
    return _JSON_TYPES.get(type(value), type(value).__name__)


class ServerReader:
    """Turns raw objects into servers; collects what is wrong with them in :attr:`problems`, each with its path.

    Args:
        inputs: What VS Code asks the user for, by id, as it words the question.
        allowed: Names of the servers that the client starts; None for all.
        excluded: Names of the servers that the client does not start.
    """

    def __init__(self, inputs: Mapping[str, str], allowed: frozenset[str] | None, excluded: frozenset[str]) -> None:
        self.problems: list[str] = []
        self._inputs, self._allowed, self._excluded = inputs, allowed, excluded
        self._notes: dict[str, None] = {}
        self._gemini = False

    def read(self, servers: object, keys: Sequence[str], *, gemini: bool) -> Iterator[ImportedServer]:
        """The sound servers in the object at ``keys``, under the names the file gives them.

        ``gemini`` says whether they are Gemini CLI's, where ``$NAME`` refers to an environment variable.
        """
        path = join(*keys)
        self._gemini = gemini
        if not isinstance(servers, Mapping):
            self._wrong(path, f"must be an object of servers, is {kind_of(servers)}")
            return
        for name, raw in servers.items():
            if isinstance(raw, Mapping):
                before = len(self.problems)
                server = self._server(name, raw, join(path, name))
                if len(self.problems) == before:
                    yield replace(server, keys=(*keys, name))
            else:
                self._wrong(join(path, name), f'must be an object such as {{"command": "npx"}}, is {kind_of(raw)}')

    def _server(self, name: str, raw: Mapping[str, Any], path: str) -> ImportedServer:
        self._notes = {}
        command, url = self._address(raw, path)
        protocol = self._protocol(raw) if url else ""
        args = self._array(raw, path, "args")
        env, headers = self._object(raw, path, "env"), self._object(raw, path, "headers")
        cwd, env_file = self._text(raw, path, "cwd"), self._env_file(raw, path)
        if command is None:
            self._left_out(args=args, env=env, cwd=cwd, envFile=env_file)
            args, env, cwd, env_file = (), {}, None, None
        if url is None:
            self._left_out(headers=headers)
            headers = {}
        timeout_s = self._timeout(raw, path)
        enabled = self._enabled(raw, path) and self._reachable(name, url)
        tools = self._tools(raw, path)
        for key in raw:
            if key not in _UNDERSTOOD or (key == "tools" and isinstance(raw[key], Mapping)):
                self._note(f"{key} {_WHY_UNUSED.get(key, 'is not used by PML')}")
        return ImportedServer(
            name=name,
            command=command,
            args=args,
            env=env,
            inherit_env=self._inherited(command, args, env),
            env_file=env_file,
            cwd=cwd,
            url=url,
            headers=headers,
            protocol=protocol,
            timeout_s=timeout_s,
            tools=tools,
            enabled=enabled,
            notes=tuple(self._notes),
        )

    def _inherited(self, command: str | None, args: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
        words = (command or "", *args)
        given = [word for option, word in itertools.pairwise(words) if option in _PASSES_ON]
        given += [word.partition("=")[2] for word in words if word.startswith("--env=")]
        named = [name for name in given if _NAME.fullmatch(name)]
        named += [name for word in words for name in _DOLLAR_NAME.findall(word)]
        found = tuple(name for name in dict.fromkeys(named) if name not in env and not is_usual(name))
        if found:
            self._note(f"inherit_env names {', '.join(found)}, as its command line does")
        return found

    def _wrong(self, path: str, message: str) -> None:
        self.problems.append(f"{path}: {message}")

    def _note(self, note: str) -> None:
        self._notes[note] = None

    def _left_out(self, **values: object) -> None:
        for key, value in values.items():
            if value:
                self._note(f"{key} is left out, because it means nothing for a server of this kind")

    def _address(self, raw: Mapping[str, Any], path: str) -> tuple[str | None, str | None]:
        """What to start, or where to connect; one of the two."""
        command, *urls = (self._text(raw, path, key) for key in _ADDRESSES)
        url = next(filter(None, urls), None)
        kind = raw.get("type", raw.get("transport"))
        if command and url:
            remote = kind in _REMOTE_TYPES
            self._note(f"{'command' if remote else 'url'} is left out, because the server has a command and a url")
            return (None, url) if remote else (command, None)
        if not any(raw.get(key) for key in _ADDRESSES):
            self._wrong(path, "has neither command nor url; add one of them")
        return command, url

    def _protocol(self, raw: Mapping[str, Any]) -> str:
        """How to reach an address: clients that are not told its kind try both, as for Gemini CLI's ``url``."""
        kind = raw.get("type", raw.get("transport"))
        streamable = kind in _REMOTE_TYPES and kind != "sse"
        return "" if streamable or (self._gemini and raw.get("httpUrl")) else "auto"

    def _text(self, raw: Mapping[str, Any], path: str, key: str) -> str | None:
        value = raw.get(key)
        if value is None or value == "":
            return None
        if key == "command" and isinstance(value, list):
            self._wrong(f"{path}.command", "must be text, is an array; put the program here and the rest into args")
            return None
        return self._value(value, f"{path}.{key}")

    def _array(self, raw: Mapping[str, Any], path: str, key: str) -> tuple[str, ...]:
        values = raw.get(key)
        if values is None:
            return ()
        if not isinstance(values, list):
            self._wrong(f"{path}.{key}", f"must be an array of texts, is {kind_of(values)}")
            return ()
        texts = (self._value(value, f"{path}.{key}[{i}]") for i, value in enumerate(values))
        return tuple(text for text in texts if text is not None)

    def _object(self, raw: Mapping[str, Any], path: str, key: str) -> dict[str, str]:
        values = raw.get(key)
        if values is None:
            return {}
        if not isinstance(values, Mapping):
            self._wrong(f"{path}.{key}", f"must be an object of texts, is {kind_of(values)}")
            return {}
        texts = {name: self._entry(value, name, f"{path}.{key}") for name, value in values.items()}
        return {name: text for name, text in texts.items() if text is not None}

    def _entry(self, value: object, name: str, path: str) -> str | None:
        """A value of env or headers. VS Code allows numbers there, and null for "unset"."""
        if not name or "=" in name or not _given_to_programs(name):
            self._wrong(join(path, name), "is not a name that a variable or header can have")
            return None
        if value is None:
            self._note(f"{name} is left out, because it is null; PML takes no variables away")
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = str(value)
        return self._value(value, join(path, name))

    def _value(self, value: object, path: str) -> str | None:
        if not isinstance(value, str):
            hint = "; put it in quotes" if isinstance(value, (bool, int, float)) else ""
            self._wrong(path, f"must be text, is {kind_of(value)}{hint}")
            return None
        if not _given_to_programs(value):
            self._wrong(
                path, "holds a character that no program can be given (NUL or half a surrogate pair); remove it"
            )
            return None
        if kind := next((kind for kind in KINDS if f"${{{kind}:" in value), ""):
            # A client leaves it as it is: who agreed to its file agreed to no command, and gave no secret away.
            what = f"refers to {'the keyring' if kind == 'keyring' else f'a {kind}'}"
            self._wrong(path, f"{what}, which is for PML's own configuration; its client would not fill it in")
            return None
        if self._gemini:
            value = _DOLLAR_NAME.sub(r"${\1}", value)
        return _VARIABLE.sub(self._variable, value)

    def _variable(self, found: re.Match[str]) -> str:
        """References to the environment stay; what only an editor can fill in is put in those terms."""
        whole, (kind, _, rest) = found[0], found[1].partition(":")
        if kind == "input" and rest:
            name = re.sub(r"[^A-Z0-9_]", "_", rest.upper())
            name = f"_{name}" if name[0].isdigit() else name
            about = f" ({self._inputs[rest]})" if rest in self._inputs else ""
            self._note(f"the client asks for {whole}{about}, PML does not: set the environment variable {name}")
            return f"${{{name}}}"
        if kind in ("workspaceFolder", "workspaceRoot"):
            self._note(f"{whole} is read as the folder that PML starts in")
            return "."
        if kind == "userHome":
            return "${HOME}"
        if kind in ("pathSeparator", "/"):
            return "/"
        if not REFERENCE.fullmatch(whole):
            self._note(f"{whole} is left as it is; PML fills in environment variables only, such as ${{NAME}}")
        return whole

    def _env_file(self, raw: Mapping[str, Any], path: str) -> str | None:
        """Seen from the folder that is imported for, which is that of the configuration."""
        written = raw.get("envFile")
        here = _WORKSPACE.sub("", written, count=1) if isinstance(written, str) else written
        return self._text({"envFile": here}, path, "envFile")

    def _tools(self, raw: Mapping[str, Any], path: str) -> dict[str, tuple[str, ...]]:
        rules: dict[str, tuple[str, ...]] = {}
        for rule, keys in (("allow", _ALLOW), ("deny", _DENY)):
            given = [key for key in keys if raw.get(key) is not None and not isinstance(raw[key], Mapping)]
            names = [name for key in given for name in self._array(raw, path, key)]
            if rule == "allow":  # Gemini CLI reads "name(…)" as the name alone here
                names = [name.partition("(")[0] for name in names]
            if given and not (rule == "allow" and names == ["*"]):
                rules[rule] = tuple(_GLOB.sub(r"[\g<0>]", name) for name in names)
        return {rule: names for rule, names in rules.items() if names or rule == "allow"}

    def _timeout(self, raw: Mapping[str, Any], path: str) -> float | None:
        """Seconds. Clients write milliseconds; a number too small for that was meant as seconds, as Cline does."""
        value = raw.get("timeout")
        if value is None:
            return None
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value <= 0:
            self._wrong(f"{path}.timeout", "must be a number of milliseconds greater than 0")
            return None
        if value < _SHORTEST_MS:
            self._note(f"timeout {value} is taken for seconds; as milliseconds it would be too short to be of use")
            return float(value)
        return float(value / 1000)

    def _enabled(self, raw: Mapping[str, Any], path: str) -> bool:
        flags = {key: raw[key] for key in ("disabled", "enabled") if raw.get(key) is not None}
        for key, value in flags.items():
            if not isinstance(value, bool):
                self._wrong(f"{path}.{key}", f"must be true or false, is {kind_of(value)}")
        return flags.get("disabled") is not True and flags.get("enabled") is not False

    def _reachable(self, name: str, url: str | None) -> bool:
        if name in self._excluded or (self._allowed is not None and name not in self._allowed):
            self._note("is disabled, because the client leaves it out (excluded, or not among those allowed)")
            return False
        if url and "://" in url and not url.startswith(("http://", "https://", "${")):
            self._note(f"is disabled, because PML does not connect to {url.partition(':')[0]} addresses")
            return False
        return True


def _given_to_programs(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
