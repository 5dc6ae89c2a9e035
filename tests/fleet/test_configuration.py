"""Gateways whose files differ say so, while they serve."""

from __future__ import annotations

import pytest
from balanced import until

pytestmark = pytest.mark.anyio


async def test_a_list_that_one_file_has_and_the_other_has_not_is_said_by_both(fleet):
    with fleet(2).running() as running:
        first, second = running.gateways
        text = first.config.read_text()
        first.config.write_text(f'{text}\n[plugins.hybrid]\nblacklisted_tools = ["bank:pay"]\n')
        for one in (first, second):
            await until(lambda one=one: "configured differently" in one.log.read_text(), f"{one.name} says it")
            assert "['plugins.hybrid']" in one.log.read_text()
        first.config.write_text(text)
        for one in (first, second):
            await until(lambda one=one: "configured alike" in one.log.read_text(), f"{one.name} says it")
