"""A login that all share: its tokens are nowhere in what is kept, also where a version before kept them as they are."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import httpx2
import pytest

from pml_core.gateway import Gateway
from pml_hookspecs import Endpoint
from pml_testing.gateway import Client
from pml_transport_http.options import parse

from .login_servers import PERSON, Places, gateway, places

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def browse(url: str) -> None:
        httpx2.get(url, headers={PERSON: "ada"}, follow_redirects=True, timeout=60)

    monkeypatch.setattr(webbrowser, "open", browse)
    monkeypatch.setenv("PML_HOME", str(tmp_path))
    return tmp_path


async def log_in(made: Gateway, there: Places) -> None:
    await made.transport("http").log_in(Endpoint(name="desk", address=there.desk.url), show=lambda _text: None)


async def who(made: Gateway) -> str:
    client = Client(made)
    await client.initialize({})
    answer = await client.call("desk__whoami")
    return str(answer["content"][0]["text"])


def having(folder: Path, there: Places) -> set[str]:
    """Files with a token in them."""
    tokens = [token.encode() for token in (*there.authority.persons, *there.authority.refreshes)]
    assert tokens
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {"pml.db", "login.key"} <= set(files)
    return {name for name, text in files.items() if any(token in text for token in tokens)}


async def test_tokens_are_in_no_file(tmp_path: Path) -> None:
    async with places() as there:
        async with gateway(there, tmp_path, sharing="auto") as made:
            await log_in(made, there)
        async with gateway(there, tmp_path, sharing="auto") as made:
            assert await who(made) == "ada"
            there.authority.end("ada", renewable=True)
            assert await who(made) == "ada"
            assert having(tmp_path, there) == set()
        assert having(tmp_path, there) == set()
        there.nothing_wrong()


async def test_what_a_version_before_kept_is_used_and_no_row_has_it_from_then_on(tmp_path: Path) -> None:
    async with places() as there:
        async with gateway(there, tmp_path, sharing="auto") as made:
            await log_in(made, there)
            kept = made.transport("http")._kept  # type: ignore[attr-defined]
            logins = kept(parse(Endpoint(name="desk", address=there.desk.url)))
            text = await logins.get("desk")
            await logins.put("desk", None)
            await made.store.secrets.put("http", "desk", text)
        async with gateway(there, tmp_path, sharing="auto") as made:
            assert await who(made) == "ada"
            assert await made.store.secrets.get("http", "desk") is None
        async with gateway(there, tmp_path, sharing="auto") as made:
            assert await who(made) == "ada"
        there.nothing_wrong()
