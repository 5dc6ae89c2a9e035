"""How each scenario's client presents itself: to the SDK as a provider, to the gateway as configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

if TYPE_CHECKING:
    from sides import Scenario

BACK = "http://localhost:3000/callback"
DOCUMENT = "https://conformance-test.local/client-metadata.json"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"


class Kept:
    """Keeps tokens while the scenario lasts."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Browser:
    """Agrees to everything."""

    def __init__(self) -> None:
        self._query: dict[str, list[str]] = {}

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as http:
            self._query = parse_qs(urlsplit((await http.get(url)).headers["location"]).query)

    async def result(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**{name: values[0] for name, values in self._query.items()})


def provider(scenario: Scenario) -> Any:
    """The SDK's own way to log in."""
    context, url = scenario.context, scenario.url
    if scenario.name == "auth/client-credentials-basic":
        return ClientCredentialsOAuthProvider(url, Kept(), context["client_id"], context["client_secret"])
    if scenario.name == "auth/client-credentials-jwt":
        signed = SignedJWTParameters(
            issuer=context["client_id"],
            subject=context["client_id"],
            signing_key=context["private_key_pem"],
            signing_algorithm=context["signing_algorithm"],
        )
        return PrivateKeyJWTOAuthProvider(url, Kept(), context["client_id"], signed.create_assertion_provider())
    if scenario.name == "auth/enterprise-managed-authorization":
        return _enterprise(scenario)
    kept, browser = Kept(), Browser()
    if "client_id" in context and "client_secret" in context:
        kept.client = OAuthClientInformationFull(
            client_id=context["client_id"],
            client_secret=context["client_secret"],
            redirect_uris=[AnyUrl(BACK)],
            token_endpoint_auth_method="client_secret_basic",
        )
    metadata = OAuthClientMetadata(client_name="scenario", redirect_uris=[AnyUrl(BACK)])
    document = DOCUMENT if scenario.name == "auth/basic-cimd" else None
    return OAuthClientProvider(url, metadata, kept, browser.open, browser.result, client_metadata_url=document)


def _enterprise(scenario: Scenario) -> Any:
    context = scenario.context

    async def exchanged(audience: str, resource: str) -> str:
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": f"{TOKEN_TYPE}id-jag",
            "audience": audience,
            "resource": resource,
            "subject_token": context["idp_id_token"],
            "subject_token_type": f"{TOKEN_TYPE}id_token",
            "client_id": context["idp_client_id"],
        }
        async with httpx2.AsyncClient() as http:
            return str((await http.post(context["idp_token_endpoint"], data=form)).json()["access_token"])

    return IdentityAssertionOAuthProvider(
        scenario.url,
        Kept(),
        context["client_id"],
        context["client_secret"],
        issuer_of(scenario),
        exchanged,
        token_endpoint_auth_method="client_secret_basic",
    )


def issuer_of(scenario: Scenario) -> str:
    """The authorization server that an enterprise has configured, which the scenario tells nowhere but here."""
    parts = urlsplit(scenario.url)
    where = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    return str(httpx2.get(where).json()["authorization_servers"][0])


def configured(scenario: Scenario) -> dict[str, Any]:
    """What ``[servers.x]`` says for it; what the runner gives to the client is in the environment."""
    client = {"client_id": "${SCENARIO_CLIENT_ID}"}
    secret = {"client_secret": "${SCENARIO_CLIENT_SECRET}"}
    if scenario.name == "auth/basic-cimd":
        return {"oauth": {"client_metadata_url": DOCUMENT}}
    if scenario.name == "auth/pre-registration":
        return {"oauth": {**client, **secret}}
    if scenario.name == "auth/client-credentials-basic":
        return {"oauth": {"grant": "client_credentials", "issuer": issuer_of(scenario), **client, **secret}}
    if scenario.name == "auth/client-credentials-jwt":
        signed = {"private_key": "${SCENARIO_PRIVATE_KEY_PEM}", "signing_algorithm": "${SCENARIO_SIGNING_ALGORITHM}"}
        return {"oauth": {"grant": "client_credentials", "issuer": issuer_of(scenario), **client, **signed}}
    if scenario.name == "auth/enterprise-managed-authorization":
        idp = {
            "token_url": "${SCENARIO_IDP_TOKEN_ENDPOINT}",
            "client_id": "${SCENARIO_IDP_CLIENT_ID}",
            "id_token": "${SCENARIO_IDP_ID_TOKEN}",
        }
        grant = {"grant": "identity_assertion", "issuer": issuer_of(scenario), "idp": idp}
        return {"oauth": {**grant, **client, **secret}}
    return {}
