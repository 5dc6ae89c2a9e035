"""An authorization server's keys and tokens, and what is said of them without a network."""

from __future__ import annotations

import base64
import json
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from pml_oauth.fetch import FetchError

ISSUER, GATEWAY = "https://login.example", "https://gateway.example"
MADE = {
    "RS": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "PS": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES": lambda: ec.generate_private_key(ec.SECP256R1()),
    "Ed": ed25519.Ed25519PrivateKey.generate,
}


def encoded(value):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Signer:
    """One key pair."""

    def __init__(self, kid="one", algorithm="RS256"):
        self.kid, self.algorithm = kid, algorithm
        self.private = MADE[algorithm[:2]]()

    @property
    def public(self):
        """As in a set of keys."""
        made = jwt.get_algorithm_by_name(self.algorithm).to_jwk(self.private.public_key(), as_dict=True)
        return {**made, "kid": self.kid, "alg": self.algorithm, "use": "sig"}

    def token(self, *, header=None, left_out=(), **claims):
        now = time.time()
        usual = {"iss": ISSUER, "aud": f"{GATEWAY}/mcp", "sub": "ada", "client_id": "c", "iat": now, "exp": now + 600}
        said = {name: value for name, value in {**usual, "scope": "read", **claims}.items() if name not in left_out}
        about = {"kid": self.kid, "typ": "at+jwt", **(header or {})}
        about = {name: value for name, value in about.items() if value is not None}
        return jwt.encode(said, self.private, self.algorithm, headers=about)


def handmade(header, claims, signature=b""):
    """A token that no library would make."""
    return f"{encoded(header)}.{encoded(claims)}.{encoded(signature)}"


class Said:
    """A fetcher: what the authorization server says, by address, and how often it was asked."""

    def __init__(self, *signers, issuer=ISSUER):
        self.issuer, self.signers = issuer, list(signers)
        self.asked, self.forms = [], []
        self.down = False
        self.tokens = {}
        """What it says of tokens."""
        self.metadata = {"introspection_endpoint": f"{issuer}/introspect", "jwks_uri": f"{issuer}/keys"}

    async def json(self, url, form=None, client=None):
        self.asked.append(url)
        if self.down:
            raise FetchError("it is down")
        if url == f"{self.issuer}/.well-known/oauth-authorization-server":
            return {"issuer": self.issuer, **self.metadata}
        if url == f"{self.issuer}/keys":
            return {"keys": [signer if isinstance(signer, dict) else signer.public for signer in self.signers]}
        if url == f"{self.issuer}/introspect":
            self.forms.append((form, client))
            return self.tokens.get(form["token"], {"active": False})
        raise FetchError(f"{url} answered with status 404")
