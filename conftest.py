"""Run from the checkout, the folder ``pml_core/`` would be taken for the package of that name."""

import pytest

import pml_core  # noqa: F401 - imported first, so that the installed package is the one that tests see

pytest_plugins = ["pytester"]


@pytest.fixture
def anyio_backend() -> str:
    """Asyncio only: the stdio wire needs it. A conftest's fixture wins over anyio's own, a plugin's need not."""
    return "asyncio"
