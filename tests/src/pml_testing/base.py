"""What all contracts share."""

from __future__ import annotations

import pytest


class Contract:
    """Base of every contract."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        """asyncio only, which the stdio wire needs. Here and not only in the plugin: anyio's own may come later."""
        return "asyncio"
