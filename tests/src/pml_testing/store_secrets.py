"""What the contract of stores says of secrets; part of :class:`pml_testing.store.StoreContract`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pml_hookspecs import ExecutionQuery, encode

from .records import EVERYONE

if TYPE_CHECKING:
    from pml_hookspecs import Store

SECRETS = ["plain", "", "größe, 日本語, 😀", "a line\nand another\r\n", "a\0b", "'; DROP TABLE secret", "x" * 1_000_000]


class SecretsContract:
    """Plugins keep tokens here."""

    async def test_a_secret_that_was_never_put_is_none(self, store: Store) -> None:
        assert await store.secrets.get("http", "git") is None
        await store.secrets.put("http", "git", None)
        assert await store.secrets.get("http", "git") is None

    @pytest.mark.parametrize("text", SECRETS, ids=lambda text: repr(text[:12]))
    async def test_any_text_comes_back_as_a_secret(self, store: Store, text: str) -> None:
        await store.secrets.put("http", "git", text)
        assert await store.secrets.get("http", "git") == text
        await store.secrets.put("http", text[:100] + "!", "named")
        assert await store.secrets.get("http", text[:100] + "!") == "named"

    async def test_a_secret_takes_the_place_of_the_one_before(self, store: Store) -> None:
        for value in ("one", "two", "three"):
            await store.secrets.put("http", "git", value)
            assert await store.secrets.get("http", "git") == value

    async def test_a_secret_is_forgotten(self, store: Store) -> None:
        await store.secrets.put("http", "git", "gone")
        await store.secrets.put("http", "web", "stays")
        await store.secrets.put("http", "git", None)
        assert await store.secrets.get("http", "git") is None
        assert await store.secrets.get("http", "web") == "stays"

    async def test_owners_do_not_see_each_other_s_secrets(self, store: Store) -> None:
        await store.secrets.put("http", "git", "mine")
        assert await store.secrets.get("other", "git") is None
        await store.secrets.put("other", "git", "theirs")
        await store.secrets.put("httpgi", "t", "neither")
        assert await store.secrets.get("http", "git") == "mine"
        await store.secrets.put("other", "git", None)
        assert await store.secrets.get("http", "git") == "mine"

    async def test_secrets_show_nowhere_else(self, store: Store) -> None:
        await store.secrets.put("http", "git", "hunter2")
        health = encode(await store.health())
        page = await store.executions.find(ExecutionQuery(scope=EVERYONE))
        assert page.total == 0
        assert b"hunter2" not in health
