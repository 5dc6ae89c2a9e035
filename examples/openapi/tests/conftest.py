from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import fastmcp.server.providers.openapi  # noqa: F401 - takes long where much else runs: none of it is a test's time
import pytest


@pytest.fixture(scope="session")
def services_module():
    """The file beside this one, however the tests are imported."""
    spec = spec_from_file_location("openapi_services", Path(__file__).with_name("services.py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pets(services_module):
    with services_module.running(services_module.PETS) as address:
        yield address
