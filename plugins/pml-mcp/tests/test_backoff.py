from __future__ import annotations

import re

from pml_mcp.servers.connection.backoff import FIRST_S, GIVES_UP_AFTER, LONGEST_S, STABLE_S, Backoff


def near(pause_s: float, wanted_s: float) -> bool:
    return wanted_s * 0.8 <= pause_s <= wanted_s * 1.2


def test_pauses_double_until_the_circuit_opens():
    pauses = Backoff()
    for failure in range(1, GIVES_UP_AFTER):
        assert near(pauses.failed(), FIRST_S * 2 ** (failure - 1))
        assert not pauses.open
    for failure in range(GIVES_UP_AFTER, GIVES_UP_AFTER + 3):
        assert near(pauses.failed(), LONGEST_S)
        assert (pauses.open, pauses.failures) == (True, failure)


def test_pauses_differ_so_that_servers_do_not_start_in_step():
    assert len({Backoff().failed() for _ in range(10)}) > 1


def test_connections_that_soon_end_are_failures_too():
    pauses = Backoff()
    for crash in range(1, GIVES_UP_AFTER + 1):
        pauses.lost(STABLE_S - 1)
        assert pauses.failures == crash
    assert pauses.open


def test_a_connection_that_lasted_is_the_end_of_the_failures_before_it():
    pauses = Backoff()
    for _ in range(GIVES_UP_AFTER):
        pauses.lost(0)
    assert near(pauses.lost(STABLE_S), FIRST_S)
    assert (pauses.open, pauses.failures) == (False, 1)


def test_a_connection_is_the_end_of_refusals_but_not_of_crashes():
    pauses = Backoff()
    for _ in range(3):
        pauses.failed()
    pauses.lost(0)
    assert pauses.failures == 1
    pauses.failed()
    pauses.lost(0)
    assert pauses.failures == 2


def test_a_stop_in_good_order_is_the_end_of_all_failures():
    pauses = Backoff()
    for _ in range(GIVES_UP_AFTER):
        pauses.failed()
        pauses.lost(0)
    pauses.rested()
    assert (pauses.open, pauses.failures) == (False, 0)


def test_an_open_circuit_says_so_and_when_it_ends():
    pauses = Backoff()
    assert pauses.pause("no such host", pauses.failed()) == "no such host"
    for _ in range(GIVES_UP_AFTER - 1):
        pauses.failed()
    said = pauses.pause("no such host", 60)
    assert re.fullmatch(r"no such host \(failed 5 times in a row; the next attempt is at \d\d:\d\d:\d\d UTC\)", said)
