"""A real authorization server, people who log in there, and a gateway that takes its tokens."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata

SCRIPT = Path(__file__).with_name("servers") / "authorization_server.mjs"
PATIENCE_S = 120.0
SERVING = "serving MCP at "
BACK = "http://127.0.0.1:1/back"
"""Where the authorization server sends the browser in the end; nobody has to listen there."""
DOCUMENT = "https://client.example/about.json"
SECRET = "the-gateways-own-secret"
RIGHTS = """
[plugins.oauth.rights."tools:read"]
allow = ["plain:echo"]
[plugins.oauth.rights."tools:write"]
allow = ["plain:write_note"]
"""


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


class Authority:
    """oidc-provider, in a process of its own."""

    def __init__(self, issuer):
        self.issuer = issuer

    async def log_in(self, url, name, back=BACK):
        """Do what a person does in a browser; the address that the browser is sent back to, below ``back``."""
        async with httpx2.AsyncClient(timeout=PATIENCE_S) as browser:
            for _ in range(20):
                page = await browser.get(url)
                if page.is_redirect:
                    url = urljoin(url, page.headers["location"])
                    if url.startswith(back):
                        return url
                    continue
                assert page.status_code == 200, page.text
                action = re.search(r'<form[^>]*action="([^"]+)"', page.text)[1]
                form = dict(re.findall(r'type="hidden" name="(\w+)" value="(\w+)"', page.text))
                if form["prompt"] == "login":
                    form |= {"login": name, "password": "any"}
                answer = await browser.post(urljoin(url, action), data=form)
                url = urljoin(url, answer.headers["location"])
        raise AssertionError("the log-in does not end")

    async def register(self):
        """A client that may ask for any scope: of one that says which it wants, this server keeps to them."""
        async with httpx2.AsyncClient(base_url=self.issuer, timeout=PATIENCE_S) as web:
            made = (await web.post("/reg", json=ABOUT)).json()
        return OAuthClientInformationFull.model_validate({**made, "issuer": self.issuer})

    async def token(self, name, resource, scope):
        """An access token, got by hand."""
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        async with httpx2.AsyncClient(base_url=self.issuer, timeout=PATIENCE_S) as web:
            client = (await self.register()).client_id
            asked = {
                "client_id": client, "redirect_uri": BACK, "response_type": "code", "state": "s", "scope": scope,
                "resource": resource, "code_challenge": challenge, "code_challenge_method": "S256",
            }  # fmt: skip
            back = await self.log_in(f"{self.issuer}/auth?{urlencode(asked)}", name)
            form = {
                "grant_type": "authorization_code", "code": parse_qs(urlsplit(back).query)["code"][0],
                "redirect_uri": BACK, "client_id": client, "code_verifier": verifier, "resource": resource,
            }  # fmt: skip
            return (await web.post("/token", data=form)).json()["access_token"]

    async def revoke(self, token):
        """Take a token back."""
        async with httpx2.AsyncClient(base_url=self.issuer, auth=("gateway", SECRET), timeout=PATIENCE_S) as web:
            assert (await web.post("/token/revocation", data={"token": token})).status_code == 200


ABOUT = {
    "client_name": "tests",
    "redirect_uris": [BACK],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}


@asynccontextmanager
async def authority(node_tools, folder, *, format="jwt", lifetime_s=600):
    """It runs as long as the block lasts."""
    script = shutil.copy(SCRIPT, folder)
    with contextlib.suppress(FileExistsError):  # Node looks for packages beside the script
        (folder / "node_modules").symlink_to(node_tools / "node_modules")
    port = free_port()
    given = {
        "issuer": f"http://127.0.0.1:{port}", "port": port, "scopes": ["tools:read", "tools:write"], "format": format,
        "lifetime_s": lifetime_s, "documents": {DOCUMENT: {"client_id": DOCUMENT, **ABOUT}},
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        str(node_tools / "node"), str(script), json.dumps(given), stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert await process.stdout.readline() == b"listening\n"
        yield Authority(given["issuer"])
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def gateway(site, issuer, *more):
    """A gateway that takes tokens of ``issuer``; its address, without a path."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    site.configure(plain=site.plain())
    (site.folder / "home").mkdir(exist_ok=True)
    text = f'[gateway]\ntools_exposure = "full_proxy"\n[plugins.oauth]\nissuer = "{issuer}"\nurl = "{url}"\n'
    (site.folder / "home" / "config.toml").write_text("\n".join((text, *more, RIGHTS)))
    with site.log.open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *site.serve("--http", f"127.0.0.1:{port}"),
            stderr=log,
            env={**os.environ, **site.environment},
            cwd=site.folder,
        )
    try:
        async with asyncio.timeout(PATIENCE_S):
            while SERVING not in site.log.read_text():
                assert process.returncode is None, site.log.read_text()
                await asyncio.sleep(0.05)
        yield url
    finally:
        process.terminate()
        await process.wait()


class Person:
    """One who uses the official SDK's client, and logs in when it asks for it. Keeps its tokens."""

    def __init__(self, name, authority, url):
        self.name, self.url = name, url
        self._authority, self._back = authority, ""
        self.asked, self.tokens, self.info = [], None, None
        """What scopes each log-in was for."""

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.info

    async def set_client_info(self, info):
        self.info = info

    async def _open(self, url):
        self.asked.append(parse_qs(urlsplit(url).query)["scope"][0])
        self._back = await self._authority.log_in(url, self.name)

    async def _result(self):
        said = {name: values[0] for name, values in parse_qs(urlsplit(self._back).query).items()}
        assert "error" not in said, said
        return AuthorizationCodeResult(code=said["code"], state=said["state"], iss=said.get("iss"))

    @asynccontextmanager
    async def client(self, mode="auto", *, document=None, path="/mcp"):
        """The SDK's client at an endpoint."""
        provider = OAuthClientProvider(
            server_url=self.url + path,
            client_metadata=OAuthClientMetadata.model_validate(ABOUT),
            storage=self,
            redirect_handler=self._open,
            callback_handler=self._result,
            client_metadata_url=document,
        )
        http = httpx2.AsyncClient(auth=provider, timeout=PATIENCE_S)
        async with (
            http,
            Client(streamable_http_client(self.url + path, http_client=http), mode=mode, cache=None) as client,
        ):
            yield client
