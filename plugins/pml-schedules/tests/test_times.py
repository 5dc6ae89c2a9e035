from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pml_schedules.cron import check_cron, moments, zone
from pml_schedules.times import EPOCH, Times
from pml_testing.work import counted

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def local(expression, time_zone, after, count):
    """The next times, as clocks on the wall show them."""
    begin = datetime.fromisoformat(after).replace(tzinfo=zone(time_zone)).astimezone(UTC)
    found = itertools.islice(moments(expression, time_zone, begin), count)
    return [f"{moment.astimezone(zone(time_zone)):%d %H:%M %Z}" for moment in found]


# Clocks change


def test_a_time_in_the_hour_that_is_left_out_comes_right_after_it():
    assert local("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", 3) == [
        "29 03:00 CEST",
        "30 02:30 CEST",
        "31 02:30 CEST",
    ]


def test_several_times_in_the_hour_that_is_left_out_come_once():
    assert local("0,20,40 2 * * *", "Europe/Berlin", "2026-03-29T00:00", 2) == ["29 03:00 CEST", "30 02:00 CEST"]


def test_a_time_in_the_hour_that_comes_twice_comes_once():
    assert local("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 3) == [
        "25 02:30 CEST",
        "26 02:30 CET",
        "27 02:30 CET",
    ]


def test_asked_in_the_second_of_two_same_hours_nothing_comes_that_is_over():
    # 02:10 for the second time, when 02:30 of the first time is over.
    after = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    found = next(moments("30 2 * * *", "Europe/Berlin", after))
    assert found == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_what_comes_every_quarter_of_an_hour_does_so_when_clocks_change():
    for day in (datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)):
        found = list(itertools.islice(moments("*/15 * * * *", "Europe/Berlin", day), 20))
        assert {b - a for a, b in itertools.pairwise(found)} == {timedelta(minutes=15)}


def test_an_hourly_time_comes_twice_in_the_hour_that_comes_twice():
    assert local("0 * * * *", "Europe/Berlin", "2026-10-25T01:30", 3) == [
        "25 02:00 CEST",
        "25 02:00 CET",
        "25 03:00 CET",
    ]


@pytest.mark.parametrize(
    ("time_zone", "after", "expected"),
    [
        # Half an hour, on Lord Howe Island.
        ("Australia/Lord_Howe", "2026-10-03T12:00", ["04 02:30 +11", "05 02:15 +11"]),
        # A whole day was left out on Samoa: what it had comes right after it.
        ("Pacific/Apia", "2011-12-29T12:00", ["31 00:00 +14", "31 02:15 +14"]),
        # No change of clocks at all.
        ("Asia/Kolkata", "2026-03-28T12:00", ["29 02:15 IST", "30 02:15 IST"]),
    ],
)
def test_odd_time_zones(time_zone, after, expected):
    assert local("15 2 * * *", time_zone, after, 2) == expected


def test_a_day_whose_midnight_is_left_out_begins_later():
    # Cairo's clocks go from 00:00 to 01:00.
    assert local("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00", 2) == ["24 01:00 EEST", "25 00:00 EEST"]


EXPRESSIONS = (
    "*/7 * * * *", "30 2 * * *", "0,30 1-3 * * *", "0 * * * *", "15 */2 * * *", "0 0 * * *",
    "59 23 L * *", "0 12 * * MON#1", "0 0 1 1 *", "*/20 2 * * SUN",
)  # fmt: skip


CHANGES = [datetime(2026, month, day, tzinfo=UTC) for month, day in [(3, 8), (3, 29), (4, 5), (10, 4), (10, 25)]]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    expression=st.sampled_from(EXPRESSIONS),
    time_zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"]),
    day=st.sampled_from(CHANGES),
    minutes=st.integers(-1500, 1500),
    seconds=st.integers(0, 59),
)
def test_due_times_are_the_same_wherever_one_begins_to_reckon(expression, time_zone, day, minutes, seconds):
    def up_to_the_end(begin):
        end = day + timedelta(days=3)
        return list(itertools.takewhile(lambda moment: moment < end, moments(expression, time_zone, begin)))

    begin = day + timedelta(minutes=minutes, seconds=seconds)
    whole, part = up_to_the_end(day - timedelta(days=2)), up_to_the_end(begin)
    assert part == [moment for moment in whole if moment > begin]
    assert part == sorted(set(part))


# Intervals


def test_an_interval_counts_from_its_start_and_includes_it():
    times = Times(name="a", every_s=90, start=NOON)
    assert times.next(NOON - timedelta(days=1)) == NOON
    assert times.next(NOON) == NOON + timedelta(seconds=90)
    assert times.next(NOON + timedelta(seconds=89.999)) == NOON + timedelta(seconds=90)


def test_an_interval_without_a_start_is_the_same_on_every_gateway():
    assert Times(name="a", every_s=300).next(NOON + timedelta(seconds=7)) == NOON + timedelta(seconds=300)
    assert Times(name="a", every_s=86_400).next(EPOCH) == EPOCH + timedelta(days=1)


def test_an_interval_of_less_than_even_milliseconds_stays_exact():
    times = Times(name="a", every_s=1.1, start=NOON)
    found = list(itertools.islice(times.upcoming(NOON), 1000))
    assert found[-1] == NOON + timedelta(seconds=1100)


def test_nothing_is_due_before_the_start_and_after_the_end():
    times = Times(name="a", cron="0 * * * *", start=NOON, until=NOON + timedelta(hours=2))
    assert list(times.upcoming(NOON - timedelta(days=9))) == [NOON + timedelta(hours=n) for n in range(3)]
    assert times.next(NOON + timedelta(hours=2)) is None


# The last few of a long time


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    every_s=st.integers(1, 5000),
    jitter_s=st.sampled_from([0, 0, 1, 100, 4000]),
    span_s=st.integers(0, 40_000),
    most=st.integers(1, 20),
    until_s=st.one_of(st.none(), st.integers(-1000, 50_000)),
)
def test_the_latest_are_the_last_of_all(every_s, jitter_s, span_s, most, until_s):
    until = None if until_s is None else NOON + timedelta(seconds=until_s)
    times = Times(name="a", every_s=every_s, jitter_s=jitter_s, until=until)
    now = NOON + timedelta(seconds=span_s)
    everything = list(itertools.takewhile(lambda due: due <= now, times.upcoming(NOON)))
    assert times.latest(NOON, now, most) == everything[-most:]


@pytest.mark.parametrize(
    "times",
    [
        Times(name="a", every_s=1),
        Times(name="a", cron="* * * * *", time_zone="Europe/Berlin"),
        Times(name="a", cron="0 3 * * SUN"),
        Times(name="a", cron="* * * * *", until=EPOCH + timedelta(days=300)),
        Times(name="a", cron="0 0 29 2 *", jitter_s=3600),
    ],
)
def test_half_a_century_of_missed_times_takes_no_time(times):
    with counted() as work:
        found = times.latest(EPOCH, NOON, 10)
    assert work.calls < 50_000
    assert len(found) == 10
    assert found == sorted(found)


# Jitter


def test_jitter_is_within_its_bounds_differs_and_is_the_same_everywhere():
    plain, spread = Times(name="a", cron="0 * * * *"), Times(name="a", cron="0 * * * *", jitter_s=600)
    begin = NOON - timedelta(seconds=1)
    bare = list(itertools.islice(plain.upcoming(begin), 100))
    found = list(itertools.islice(spread.upcoming(begin), 100))
    late = [b - a for a, b in zip(bare, found, strict=False)]
    assert all(timedelta(0) <= each <= timedelta(seconds=600) for each in late)
    assert len(set(late)) > 90
    assert found == list(itertools.islice(Times(name="a", cron="0 * * * *", jitter_s=600).upcoming(begin), 100))
    assert found != list(itertools.islice(Times(name="b", cron="0 * * * *", jitter_s=600).upcoming(begin), 100))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(jitter_s=st.integers(0, 5000), begin_s=st.integers(0, 10_000))
def test_with_jitter_longer_than_the_interval_due_times_stay_in_order_and_none_is_lost(jitter_s, begin_s):
    times = Times(name="a", every_s=60, jitter_s=jitter_s)
    begin = NOON + timedelta(seconds=begin_s)
    whole = list(itertools.islice(times.upcoming(NOON), 400))
    assert whole == sorted(whole)
    part = list(itertools.islice(times.upcoming(begin), 50))
    assert part == [due for due in whole if due > begin][:50]


# Messages


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("0 25 * * *", r"field 2 of '0 25 \* \* \*', the hour: '25' does not fit; .* values are 0 to 23"),
        ("60 * * * *", "field 1 .* the minute: '60'"),
        ("0 0 0 * *", "field 3 .* the day of the month: '0'"),
        ("0 0 * FOO *", "field 4 .* the month: 'FOO' .* JAN to DEC"),
        ("0 0 * * MONDAY", "field 5 .* the day of the week: 'MONDAY' .* SUN to SAT"),
        ("*/0 * * * *", r"field 1 .* the minute: '\*/0'"),
        ("5-1 * * * *", "field 1 .* from the lesser to the greater"),
        ("1,,2 * * * *", "field 1"),
        ("* * * *", "has 4 fields, not five"),
        ("", "has 0 fields"),
        ("0 0 0 * * *", "has 6 fields, not five .*; there is none for seconds: use every_s"),
        ("@daily", r"write '0 0 \* \* \*'"),
        ("@reboot", "is not understood; write five fields"),
        ("0 0 31 2 *", "never comes"),
        ("0 0 30 FEB *", "never comes"),
    ],
)
def test_a_bad_cron_expression_says_which_field_and_why(expression, message):
    with pytest.raises(ValueError, match=message):
        check_cron(expression)


@pytest.mark.parametrize(
    "expression",
    [*EXPRESSIONS, "0 0 29 2 *", "0 7 * * MON-FRI", "5/10 * * * *", "0 0 LW * *", "0 0 * * 5L", "* * * * *"],
)
def test_good_cron_expressions_are_taken(expression):
    check_cron(expression)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("berlin", "Europe/Berlin"),
        ("america/new york", "America/New_York"),
        ("Tokio", "Asia/Tokyo"),
    ],
)
def test_an_unknown_time_zone_comes_with_near_names(name, near):
    with pytest.raises(ValueError, match=rf"time_zone: there is no '{name}'; did you mean .*'{near}'"):
        zone(name)


@pytest.mark.parametrize("name", ["", "Europe", "../../etc/passwd", "x" * 5000, "Nowhere/Atall\0"])
def test_what_is_no_time_zone_at_all_is_refused_with_a_message(name):
    with pytest.raises(ValueError, match="time_zone: there is no"):
        zone(name)
