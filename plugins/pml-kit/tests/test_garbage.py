from __future__ import annotations

import gc

import pytest

from pml_kit.system.garbage import THRESHOLDS, seldom_collected


def test_garbage_is_looked_for_seldom_while_the_gateway_runs_and_as_before_afterwards():
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with seldom_collected() as started:
        assert not gc.isenabled()
        started()
        assert gc.isenabled()
        assert (gc.get_threshold(), gc.get_freeze_count() > frozen) == (THRESHOLDS, True)
    assert (gc.isenabled(), gc.get_threshold()) == (True, before)


def test_a_start_that_fails_leaves_the_collector_as_it_was():
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="no start"), seldom_collected():
        raise ValueError("no start")
    assert (gc.isenabled(), gc.get_threshold()) == (True, before)


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with seldom_collected() as started:
            started()
        assert not gc.isenabled()
    finally:
        gc.enable()
