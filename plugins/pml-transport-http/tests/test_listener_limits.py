"""Limits of the listener, and whom they are for."""

from __future__ import annotations

import asyncio
import resource

import pytest
from listening import listening

from pml_hookspecs import TransportError
from pml_transport_http import Settings
from pml_transport_http.server.listener.connections import Claim, Connections, capacity

pytestmark = pytest.mark.anyio


class Held:
    """A connection with a claim of its own."""

    def __init__(self, claim=Claim.STRANGER):
        self._claim, self.evicted = claim, False

    def claim(self):
        return self._claim

    def overdue(self, now):
        return False

    def evict(self):
        self.evicted = True


@pytest.fixture
async def connections(services, anyio_backend):
    made = []

    def make(**settings):
        made.append(Connections(Settings(**settings), services.log))
        return made[-1]

    yield make
    for each in made:
        each.close()


async def test_the_least_claim_makes_way_and_of_these_the_oldest(connections):
    held = connections(max_client_connections=5)
    claims = (Claim.SERVED, Claim.SENDING, Claim.IDLE, Claim.STRANGER, Claim.STRANGER)
    served, sending, idle, stranger, newer = everybody = [Held(claim) for claim in claims]
    assert all(held.enter(each, "10.0.0.1") for each in everybody)
    for expected in (stranger, newer, idle, sending):
        assert held.enter(Held(Claim.SERVED), "10.0.0.2")
        assert [each for each in everybody if each.evicted] == [expected]
        expected.evicted = False
    assert not held.enter(Held(), "10.0.0.3")
    assert not served.evicted
    assert len(held) == 5


async def test_an_address_takes_its_own_places_only(connections):
    held = connections(max_client_connections_per_address=2, trusted_proxies=("10.0.0.0/24",))
    other, mine = Held(), [Held(), Held()]
    for each, host in zip([other, *mine], ("192.0.2.1", "2001:db8::1", "2001:db8::2"), strict=True):
        assert held.enter(each, host)
    assert held.enter(Held(Claim.SERVED), "2001:db8::3")
    assert (other.evicted, [each.evicted for each in mine]) == (False, [True, False])
    assert held.enter(Held(Claim.SERVED), "::ffff:192.0.2.1")
    assert held.enter(Held(Claim.SERVED), "192.0.2.1")
    assert other.evicted
    assert not held.enter(Held(), "192.0.2.1")
    assert all(held.enter(Held(Claim.SERVED), "10.0.0.7") for _ in range(5))


async def test_what_left_has_no_place(connections):
    held = connections(max_client_connections=1)
    for _ in range(3):
        one = Held(Claim.SERVED)
        assert held.enter(one, "192.0.2.1")
        held.leave(one)
        held.leave(one)
    assert len(held) == 0


def test_the_rest_of_the_process_keeps_descriptors():
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert capacity(10) == 10
    assert capacity(10 * soft) == soft * 3 // 4


@pytest.mark.parametrize(("trusted", "address"), [(("127.0.0.1",), "192.0.2.7:0"), ((), "127.0.0.1:")])
async def test_a_proxy_says_where_a_client_is_where_it_is_trusted(services, trusted, address):
    async with listening(services, trusted_proxies=trusted) as listener, listener.client() as client:
        assert (await client.modern("tools/list", x_forwarded_for="192.0.2.7")).status_code == 200
        assert listener.peers[0].address.startswith(address)


async def test_a_proxy_that_is_no_address_is_told(services):
    with pytest.raises(TransportError, match=r"trusted_proxies in \[plugins.http\]: 'nginx' does not appear to be"):
        async with asyncio.timeout(20), listening(services, trusted_proxies=("nginx",)):
            pass
