"""The contract of transports, as far as an HTTP service can keep it: it never speaks first, and is nobody's child."""

from __future__ import annotations

import json
from contextlib import ExitStack, asynccontextmanager

import pytest

from pml_example_openapi import OpenApi
from pml_hookspecs import RawObject, Transport
from pml_testing.transport import MANY, TransportContract

NOWHERE = "openapi:http://127.0.0.1:9/openapi.json"
"""Nobody listens at the discard port."""


class CallingTools(Transport):
    """The contract sends any method; what OpenAPI has is calls of tools."""

    def connect(self, endpoint, handler):
        return self.connected(OpenApi().connect(endpoint, handler))

    @asynccontextmanager
    async def connected(self, connection):
        async with connection as link:
            yield CallingLink(link)


class CallingLink:
    def __init__(self, link):
        self.link = link

    async def request(self, method, params, *, timeout_s):
        call = {"name": method, "arguments": {"body": params}}
        answer = await self.link.request("tools/call", call, timeout_s=timeout_s)
        return RawObject.of(json.loads(answer["content"][0]["text"]))

    def notify(self, method, params):
        self.link.notify(method, params)


class TestContract(TransportContract):
    @pytest.fixture
    def transport(self):
        return CallingTools()

    @pytest.fixture
    def address(self, services_module):
        with ExitStack() as stack:

            def start(script):
                if script == "broken":
                    return NOWHERE
                return f"openapi:{stack.enter_context(services_module.running(services_module.SCRIPT))}/openapi.json"

            yield start

    @pytest.fixture
    def missing(self):
        return NOWHERE

    @pytest.fixture
    def many(self):
        return MANY // 20

    # There is no connection that could end, and taking a request back is closing its own connection.
    test_the_end_of_the_connection_fails_all_pending_requests_at_once = None
    test_a_request_that_timed_out_is_taken_back = None
    test_a_request_whose_caller_is_cancelled_is_taken_back = None
    # There are no JSON-RPC messages: errors are statuses, and nothing is between two messages.
    test_an_error_answer_is_raised_as_it_came = None
    test_a_malformed_line_is_skipped = None
    test_a_notification_reaches_the_server = None
    # The service is nobody's child.
    test_server_and_descendants_are_gone_soon_after_leaving = None
    test_server_and_descendants_are_gone_soon_after_a_cancellation = None
    # The service never speaks first.
    test_a_request_of_the_server_with_an_id_of_ours_is_answered = None
    test_an_id_of_the_server_comes_back_as_it_was = None
    test_an_error_that_the_handler_raises_goes_back_as_it_is = None
    test_a_fault_of_the_handler_becomes_an_opaque_error = None
    test_a_request_that_the_server_takes_back_is_cancelled_and_not_answered = None
    test_a_request_being_answered_holds_up_no_other = None
    test_notifications_of_the_server_arrive_in_order = None
    # Clients of the gateway do not come in this way.
    test_the_address_is_told_before_the_first_client = None
    test_requests_go_both_ways_between_two_gateways = None


@pytest.mark.anyio
async def test_it_says_that_it_does_not_serve_clients():
    with pytest.raises(NotImplementedError):
        await OpenApi().serve(None, None, started=print)
