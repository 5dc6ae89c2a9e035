"""Tokens that the issuer did not make, or made for something else, let nobody in."""

from __future__ import annotations

import hashlib
import hmac
import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from signer import GATEWAY, ISSUER, Said, Signer, encoded, handmade

from pml_hookspecs import UnauthenticatedError

pytestmark = pytest.mark.anyio
NOW = time.time()
CLAIMS = {"iss": ISSUER, "aud": f"{GATEWAY}/mcp", "sub": "ada", "exp": NOW + 100_000, "scope": "read"}


async def refused(identities, token):
    with pytest.raises(UnauthenticatedError) as told:
        await identities.identify(token)
    assert token not in str(told.value)
    return str(told.value)


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
async def test_what_the_issuer_signed_is_believed(algorithm, made, said):
    said.signers = [Signer("other", algorithm), right := Signer("right", algorithm)]
    identity = await made().identify(right.token())
    assert (identity.principal, identity.allow, identity.deny) == ("ada", ("files:read_*",), ())


@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE"])
@pytest.mark.parametrize("signature", [b"", b"anything"])
async def test_one_that_nobody_signed(name, signature, made):
    assert "not valid" in await refused(made(), handmade({"alg": name, "typ": "JWT"}, CLAIMS, signature))


async def test_one_that_is_signed_with_the_public_key_as_a_secret(made, signer):
    public = signer.private.public_key()
    for encoding, shape in (
        (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
        (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
    ):
        secret = public.public_bytes(encoding, shape)
        head = f"{encoded({'alg': 'HS256', 'kid': signer.kid})}.{encoded(CLAIMS)}"
        token = f"{head}.{encoded(hmac.new(secret, head.encode(), hashlib.sha256).digest())}"
        assert "not valid" in await refused(made(), token)


async def test_one_that_is_signed_with_another_key_of_the_same_name(made):
    assert "not valid" in await refused(made(), Signer("one").token())


async def test_one_that_is_signed_with_a_key_that_the_issuer_does_not_have(made):
    assert "a key that the authorization server does not have" in await refused(made(), Signer("mine").token())


@pytest.mark.parametrize("kid", [None, "one"])
async def test_one_that_brings_its_own_key(kid, made):
    mine = Signer("mine")
    for header in ({"jwk": mine.public}, {"jku": "https://evil.example/keys"}, {"x5u": "https://evil.example/c"}):
        assert "not valid" in await refused(made(), mine.token(header={**header, "kid": kid}))


async def test_one_that_was_changed(made, signer):
    head, _, signature = signer.token().split(".")
    changed = encoded({**CLAIMS, "sub": "eve"})
    await refused(made(), f"{head}.{changed}.{signature}")
    _, claims, _ = signer.token().split(".")
    await refused(made(), f"{encoded({'alg': 'RS256', 'kid': 'one', 'x': 1})}.{claims}.{signature}")
    await refused(made(), f"{head}.{claims}.{signature[:-4]}AAAA")


async def test_one_with_the_signature_of_another_algorithm(made, said):
    said.signers = [rsa_key := Signer("r"), Signer("e", "ES256")]
    token = jwt.encode(CLAIMS, rsa_key.private, "PS256", headers={"kid": "r"})
    assert "does not have" in await refused(made(), token)
    assert "does not have" in await refused(made(), jwt.encode(CLAIMS, rsa_key.private, "RS256", headers={"kid": "e"}))


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": NOW - 40}, "expired"),
        ({"exp": "soon"}, "not valid"),
        ({"exp": float("inf")}, "not valid"),
        ({"nbf": NOW + 100_000}, "not valid"),
        ({"iss": "https://evil.example"}, "another authorization server"),
        ({"iss": f"{ISSUER}/"}, "another authorization server"),
        ({"aud": "https://other.example/mcp"}, "another server"),
        ({"aud": f"{GATEWAY}.evil.example/mcp"}, "another server"),
        ({"aud": f"{GATEWAY}/mcp/../admin"}, "another server"),
        ({"aud": f"{GATEWAY}/other"}, "another server"),
        ({"aud": f"{GATEWAY}/mcpx"}, "another server"),
        ({"aud": []}, "another server"),
        ({"cnf": {"jkt": "x"}}, "bound"),
        ({"sub": "system"}, "cannot be"),
        ({"sub": "local"}, "cannot be"),
        ({"sub": "agent:report"}, "cannot be"),
        ({"sub": ""}, "whose"),
        ({"sub": "a\nb"}, "whose"),
    ],
)
async def test_one_for_something_else(claims, why, made, signer):
    assert why in await refused(made(), signer.token(**claims))


@pytest.mark.parametrize("claim", ["exp", "iss", "aud", "sub"])
async def test_one_that_does_not_say_what_it_must(claim, made, signer):
    await refused(made(), signer.token(left_out={claim}))


@pytest.mark.parametrize("header", [{"typ": "logout+jwt"}, {"typ": "dpop+jwt"}, {"crit": ["exp"], "exp": 1}])
async def test_one_of_another_kind(header, made, signer):
    await refused(made(), signer.token(header=header))


@pytest.mark.parametrize(
    "token",
    [
        "..",
        "a.b.c",
        f"{encoded([])}.{encoded({})}.",
        f"{encoded({'alg': 7})}.{encoded({})}.",
        f"{encoded({'alg': 'RS256', 'kid': 7})}.{encoded({})}.{encoded(b'x')}",
        f"{encoded({'alg': ['RS256']})}.{encoded(CLAIMS)}.",
        handmade({"alg": "RS256", "kid": "one", "pad": "x" * 20_000}, CLAIMS, b"x"),
        f"{encoded({'alg': 'RS256', 'kid': 'one'})}.{encoded(b'[' * 5000)}.{encoded(b'x')}",
    ],
)
async def test_what_is_hardly_a_token(token, made):
    await refused(made(), token)


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
async def test_a_short_key_or_a_secret_of_the_issuer_is_none(made, said):
    short = Signer("short")
    short.private = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    secret = {"kty": "oct", "kid": "secret", "k": encoded(b"s" * 32)}
    encrypting = Signer("enc")
    said.signers = [short, secret, {**encrypting.public, "use": "enc"}, {"kty": "RSA"}, {"kid": 1}]
    for signer in (short, encrypting):
        assert "does not have" in await refused(made(), signer.token())


async def test_a_token_without_a_key_id_has_the_only_key_that_fits(made, signer, said):
    assert (await made().identify(signer.token(header={"kid": None}))).principal == "ada"
    said.signers.append(Signer("two"))
    assert "does not have" in await refused(made(), signer.token(header={"kid": None}))


async def test_metadata_of_another_issuer_are_not_believed(made, services, signer):
    liar = Said(Signer("evil"))
    liar.metadata["issuer"] = "https://evil.example"
    identities = made()
    identities._verifier._issuer._fetcher = liar
    with pytest.raises(Exception, match="another issuer"):
        await identities.identify(signer.token())


async def test_what_is_refused_is_logged_without_the_token(made, services):
    token = Signer("mine").token()
    await refused(made(), token)
    (line,) = services.log.lines
    assert "does not have" in str(line)
    assert not any(part in str(line) for part in token.split("."))
