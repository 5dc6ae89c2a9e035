"""The filter of keys keeps the contract of filters."""

import pytest

from pml_access import plugin
from pml_testing.fakes import FakeServices
from pml_testing.hook_contracts.filter import FilterContract


class TestTheFilterOfKeysKeepsTheContract(FilterContract):
    @pytest.fixture
    def tool_filter(self):
        (made,) = plugin.pml_filter_tools(FakeServices(settings=plugin.settings_type()))
        return made
