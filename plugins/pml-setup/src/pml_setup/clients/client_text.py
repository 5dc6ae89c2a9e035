"""One server in the text of a client's file: look, put in, take out. All else in the text stays as it is."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from pml_clients import client_configs, json_edit, jsonc, secret_values, toml_edit
from pml_clients.edited_file import FileText
from pml_clients.trees import at
from pml_kit.errors import OperatorError
from pml_kit.system.redaction import Redactor

from .connect_places import Place


def servers_in(where: Place, file: FileText) -> dict[str, Any]:
    """The servers that the file has, as written; empty when there is no file.

    Raises:
        OperatorError: It cannot be parsed, or its servers are no object.
    """
    servers = at(tree_of(where, file.text), where.servers)
    if servers is None:
        return {}
    if not isinstance(servers, dict):
        raise OperatorError(f"{where.path}: {'.'.join(where.servers)} is not an object", "Correct it first.")
    return servers


def is_pml(entry: Any) -> bool:
    """Whether a server is PML: started as ``pml serve``, or by URL, which does not tell."""
    if not isinstance(entry, Mapping):
        return False
    words = [entry.get("command"), *(entry.get("args") or ())]
    if any(key in entry for key in ("url", "serverUrl", "httpUrl")):
        return True
    if not all(isinstance(word, str) for word in words):
        return False
    return client_configs.is_gateway(
        client_configs.ImportedServer(name="server", command=words[0], args=tuple(words[1:]))
    )


def with_server(where: Place, text: str, name: str, entry: Mapping[str, Any]) -> str:
    """The text with the server in it.

    Raises:
        OperatorError: It is written in a way that cannot be changed; says what to add by hand.
    """
    path = (*where.servers, name)
    try:
        if where.format == "json":
            return json_edit.with_member(text, path, dict(entry))
        return toml_edit.with_values(text, {(*path, key): value for key, value in entry.items()})
    except (json_edit.JsonEditError, toml_edit.TomlEditError) as exc:
        raise OperatorError(
            f"{where.path}: {exc}; nothing is written", f"Add this there by hand:\n{by_hand(where, name, entry)}"
        ) from None


def by_hand(where: Place, name: str, entry: Mapping[str, Any]) -> str:
    """The server alone, in the client's format."""
    if where.format == "json":
        return json.dumps({where.servers[0]: {name: dict(entry)}}, indent=2, ensure_ascii=False)
    return toml_edit.with_values("", {(*where.servers, name, key): value for key, value in entry.items()})


def without_server(where: Place, text: str, name: str) -> str:
    """The text with the server taken out.

    Raises:
        OperatorError: It is written in a way that cannot be changed.
    """
    try:
        if where.format == "json":
            return json_edit.without_member(text, (*where.servers, name))
        return toml_edit.without_table(text, (*where.servers, name))
    except (json_edit.JsonEditError, toml_edit.TomlEditError) as exc:
        path = ".".join((*where.servers, name))
        raise OperatorError(f"{where.path}: {exc}; nothing is written", f"Take {path} out by hand.") from None


def without_secrets(shown: str, *texts: str) -> str:
    """``shown``, which is made of lines of ``texts``, with secrets masked."""
    redactor = Redactor()
    for text in texts:
        redactor.learn(_secrets(_lenient(text)))
    return redactor.text(shown)


def _secrets(tree: Any) -> Iterator[str]:
    if isinstance(tree, Mapping):
        server = {key: value for key, value in tree.items() if key in ("env", "headers", "args", "url")}
        if isinstance(server.get("env", {}), Mapping) and isinstance(server.get("headers", {}), Mapping):
            yield from (secret.value for secret in _found(server))
        for value in tree.values():
            yield from _secrets(value)


def _found(server: Mapping[str, Any]) -> list[secret_values.Secret]:
    texts = {
        key: {k: v for k, v in value.items() if isinstance(v, str)} if isinstance(value, Mapping) else value
        for key, value in server.items()
    }
    args = texts.get("args", [])
    texts["args"] = [arg for arg in args if isinstance(arg, str)] if isinstance(args, list) else []
    if not isinstance(texts.get("url", ""), str):
        del texts["url"]
    return list(secret_values.found_in(texts))


def _lenient(text: str) -> Any:
    for parse in (jsonc.loads, tomllib.loads):
        try:
            return parse(text)
        except (jsonc.JsonSyntaxError, tomllib.TOMLDecodeError):
            continue
    return {}


def tree_of(where: Place, text: str) -> Any:
    """The tree in a client's text; empty for one that says nothing.

    Raises:
        OperatorError: It cannot be parsed.
    """
    if not text.strip():
        return {}
    try:
        return jsonc.loads(text) if where.format == "json" else tomllib.loads(text)
    except jsonc.JsonSyntaxError as exc:
        place = f" (line {exc.line}, column {exc.column})" if exc.line else ""
        raise OperatorError(f"{where.path}: not valid JSON{place}: {exc.message}", "Correct it first.") from None
    except tomllib.TOMLDecodeError as exc:
        raise OperatorError(f"{where.path}: not valid TOML: {exc}", "Correct it first.") from None
