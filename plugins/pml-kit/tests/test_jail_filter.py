"""The seccomp filters of both machines, run here instruction by instruction as the kernel would."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from pml_kit.jail._numbers import ARCHITECTURE, NUMBERS
from pml_kit.jail._seccomp import PRETENDED, REFUSED, Filter, build

ALLOWED, KILLED = 0x7FFF0000, 0x80000000
OWN = 4242
NR = {machine: dict(numbers) for machine, numbers in NUMBERS.items()}
HARMLESS = {
    "x86_64": {"read": 0, "write": 1, "mmap": 9, "futex": 202, "execve": 59, "exit_group": 231, "getrandom": 318},
    "aarch64": {"read": 63, "write": 64, "mmap": 222, "futex": 98, "execve": 221, "exit_group": 94, "getrandom": 278},
}


def verdict(made: Filter, machine: str, call: int, *arguments: int, architecture: int | None = None) -> int:
    """What the filter returns for a system call; the process's id is put in as it is in the child."""
    code = bytearray(made.code)
    for at in made.ids:
        struct.pack_into("=I", code, at, OWN)
    lines = [struct.unpack_from("=HBBI", code, 8 * n) for n in range(made.length)]
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", call, architecture or ARCHITECTURE[machine], 0, *padded)
    at, held = 0, 0
    while True:
        kind, yes, no, value = lines[at]
        at += 1
        if kind == 0x20:
            held = struct.unpack_from("=I", data, value)[0]
        elif kind == 0x54:
            held &= value
        elif kind == 0x06:
            return value
        else:
            holds = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[kind]
            at += yes if holds else no


def refused(number: int) -> int:
    return 0x00050000 | number


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def made(machine: str) -> Filter:
    return build(machine, processes=False, truncate=True)


def test_space_is_not_taken_without_writing(machine: str, made: Filter) -> None:
    assert verdict(made, machine, NR[machine]["fallocate"], 3, 0, 0, 1 << 40) == refused(errno.EOPNOTSUPP)


def test_the_usual_calls_are_allowed(machine: str, made: Filter) -> None:
    assert {verdict(made, machine, number) for number in HARMLESS[machine].values()} == {ALLOWED}


@pytest.mark.parametrize("group", REFUSED)
def test_every_listed_call_is_refused(machine: str, made: Filter, group: str) -> None:
    number = refused(errno.EACCES if group in {"the network", "taking connections"} else errno.EPERM)
    known = [name for name in REFUSED[group].split() if name in NR[machine]]
    assert known
    assert {verdict(made, machine, NR[machine][name]) for name in known} == {number}


def test_changes_of_owners_and_modes_are_for_show(machine: str, made: Filter) -> None:
    known = [name for name in PRETENDED.split() if name in NR[machine]]
    assert {verdict(made, machine, NR[machine][name]) for name in known} == {refused(0)}


def test_another_architecture_is_killed(machine: str, made: Filter) -> None:
    assert verdict(made, machine, 0, architecture=0x40000003) == KILLED


def test_calls_that_are_newer_than_the_list_do_not_exist(machine: str, made: Filter) -> None:
    assert verdict(made, machine, 463) == refused(errno.ENOSYS)
    assert verdict(made, machine, 0x40000000 + 41) == refused(errno.ENOSYS)


@pytest.mark.parametrize(
    ("flags", "more", "expected"),
    [
        (0x003D0F00, "", ALLOWED),  # what pthread_create passes
        (17, "", refused(errno.EAGAIN)),
        (17, "processes", ALLOWED),
        (0x10000000 | 17, "processes", refused(errno.EPERM)),
        (0x40000000 | 0x00010000, "", refused(errno.EPERM)),
    ],
)
def test_threads_start_and_processes_only_where_wanted(machine: str, flags: int, more: str, expected: int) -> None:
    made = build(machine, processes=more == "processes", truncate=True)
    assert verdict(made, machine, NR[machine]["clone"], flags) == expected
    assert verdict(made, machine, NR[machine]["clone3"], flags) == refused(errno.ENOSYS)


@pytest.mark.parametrize("call", ["kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"])
def test_signals_go_to_itself_only(machine: str, made: Filter, call: str) -> None:
    number = NR[machine][call]
    assert verdict(made, machine, number, OWN, 9) == ALLOWED
    assert verdict(made, machine, number, OWN + 1, 9) == refused(errno.EPERM)
    assert verdict(made, machine, number, 2**64 - 1, 9) == refused(errno.EPERM)


def test_arguments_are_looked_at_whole(machine: str, made: Filter) -> None:
    numbers = NR[machine]
    assert verdict(made, machine, numbers["prlimit64"], 0) == ALLOWED
    assert verdict(made, machine, numbers["prlimit64"], 7) == refused(errno.EPERM)
    assert verdict(made, machine, numbers["sendto"], 3, 0, 0, 0, 0) == ALLOWED
    assert verdict(made, machine, numbers["sendto"], 3, 0, 0, 0, 1 << 32) == refused(errno.EPERM)
    assert verdict(made, machine, numbers["socketpair"], 1, 1 | 0o2000000) == ALLOWED
    assert verdict(made, machine, numbers["socketpair"], 1, 2) == refused(errno.EACCES)
    assert verdict(made, machine, numbers["ioctl"], 0, 0x5401) == ALLOWED
    assert verdict(made, machine, numbers["ioctl"], 0, 0x5412) == refused(errno.EPERM)


def test_files_are_not_cut_by_name_where_landlock_does_not_look(machine: str) -> None:
    number = NR[machine]["truncate"]
    assert verdict(build(machine, processes=False, truncate=True), machine, number) == ALLOWED
    assert verdict(build(machine, processes=False, truncate=False), machine, number) == refused(errno.EPERM)


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


def test_numbers_are_those_of_the_systems_own_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("no headers of the kernel here")
    there = re.findall(r"^#define __NR(?:3264)?_(\w+) (\d+)$", HEADERS[machine].read_text(), re.MULTILINE)
    numbers = {name: int(number) for name, number in there}
    wrong = {name: number for name, number in NR[machine].items() if numbers.get(name, number) != number}
    assert (wrong, len(numbers.keys() & NR[machine].keys()) > 100) == ({}, True)


def test_with_sockets_those_of_the_internet_connect_and_none_listens(machine: str) -> None:
    made = build(machine, processes=True, truncate=True, sockets=True)
    call = NR[machine]
    assert {verdict(made, machine, call["socket"], family) for family in (2, 10)} == {ALLOWED}
    refusals = [verdict(made, machine, call["socket"], family) for family in (1, 16, 17, 38, 40)]
    refusals += [verdict(made, machine, call[name]) for name in ("listen", "accept", "accept4")]
    assert set(refusals) == {refused(errno.EACCES)}
    assert {verdict(made, machine, call[name]) for name in ("connect", "bind", "sendto")} == {ALLOWED}
