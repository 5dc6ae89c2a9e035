"""Everything that somebody could do to the files, and what is found."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from pml_audit.files import Files
from pml_audit.rows import START, Tip, seal
from pml_audit.trail import Trail, note
from pml_audit.verify import verify


def fill(trail, count=10):
    for n in range(count):
        trail.append([note("denied", principal=f"p{n}", text='é\ud800\n"')])


def lines(folder):
    return (folder / "audit.jsonl").read_bytes().splitlines(keepends=True)


def write(folder, changed):
    (folder / "audit.jsonl").write_bytes(b"".join(changed))


def test_rows_as_they_were_written_are_whole(trail, folder, rows):
    fill(trail)
    report = verify(folder)
    assert report.broken is None
    assert (report.rows, report.files) == (11, 1)
    assert [row["n"] for row in rows()] == list(range(1, 12))
    assert rows()[0]["kind"] == "audit.began"
    assert rows()[0]["previous"] == "0" * 64
    assert [row["previous"] for row in rows()[1:]] == [row["hash"] for row in rows()[:-1]]


def test_the_hash_is_that_of_the_canonical_json_without_it(trail, rows):
    fill(trail, 1)
    row = rows()[-1]
    given = row.pop("hash")
    text = json.dumps(row, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == given


def changed_value(all_lines):
    all_lines[4] = all_lines[4].replace(b'"p3"', b'"p9"')
    return 5, "row 5 was changed"


def changed_value_and_hash(all_lines):
    row = json.loads(all_lines[4])
    bare = {name: value for name, value in row.items() if name not in ("hash", "n", "previous")}
    all_lines[4] = seal({**bare, "principal": "p9"}, Tip(4, row["previous"]))[0]
    return 6, "row 6 does not follow the row 5 that is there"


def taken_out(all_lines):
    del all_lines[4]
    return 5, "row 5 is missing before row 6"


def several_taken_out(all_lines):
    del all_lines[4:7]
    return 5, "rows 5 to 7 are missing before row 8"


def first_taken_out(all_lines):
    del all_lines[0]
    return 1, "row 1 is missing before row 2"


def swapped(all_lines):
    all_lines[4], all_lines[5] = all_lines[5], all_lines[4]
    return 5, "row 5 is missing before row 6"


def put_in(all_lines):
    all_lines.insert(5, all_lines[4])
    return 6, "row 5 comes after row 5"


def cut_off(all_lines):
    del all_lines[-2:]
    return 10, "rows 10 to 11 are missing at the end"


def cut_off_in_a_row(all_lines):
    all_lines[-1] = all_lines[-1][:20]
    return 11, "row 11 is missing at the end"


def emptied(all_lines):
    del all_lines[:]
    return 1, "rows 1 to 11 are missing at the end"


def garbage(all_lines):
    all_lines[4] = b"\0" * len(all_lines[4][:-1]) + b"\n"
    return 5, "not JSON"


def other_json(all_lines):
    all_lines[4] = b"[1]\n"
    return 5, "not JSON of a row"


def blank_line(all_lines):
    all_lines.insert(4, b"\n")
    return 5, "not JSON"


def spelt_otherwise(all_lines):
    all_lines[4] = all_lines[4].replace(b'":', b'": ')
    return 5, "not spelt as it was written"


def a_member_twice(all_lines):
    all_lines[4] = b'{"principal":"somebody else",' + all_lines[4][1:]
    return 5, "not spelt as it was written"


def without_hash(all_lines):
    row = json.loads(all_lines[4])
    del row["hash"]
    all_lines[4] = json.dumps(row, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    return 5, "no hash of its own"


def all_anew(all_lines):
    tip, made = START, []
    for line in all_lines:
        row = json.loads(line)
        bare = {name: value for name, value in row.items() if name not in ("hash", "n", "previous")}
        new, tip = seal({**bare, "principal": "nobody"}, tip)
        made.append(new)
    all_lines[:] = made
    return 11, "all was written anew"


KINDS = [
    changed_value, changed_value_and_hash, taken_out, several_taken_out, first_taken_out, swapped, put_in, cut_off,
    cut_off_in_a_row, emptied, garbage, other_json, blank_line, spelt_otherwise, a_member_twice, without_hash, all_anew,
]  # fmt: skip


@pytest.mark.parametrize("tamper", KINDS, ids=lambda kind: kind.__name__)
def test_tampering_is_found_with_file_and_line(trail, folder, tamper):
    fill(trail)
    all_lines = lines(folder)
    line, problem = tamper(all_lines)
    write(folder, all_lines)
    broken = verify(folder).broken
    assert broken is not None
    assert (broken.file, broken.line) == (str(folder / "audit.jsonl"), line)
    assert problem in broken.problem


@pytest.mark.parametrize("tamper", KINDS, ids=lambda kind: kind.__name__)
def test_tampering_is_still_found_when_a_gateway_has_written_on(trail, folder, tamper):
    fill(trail)
    all_lines = lines(folder)
    tamper(all_lines)
    write(folder, all_lines)
    fill(Trail(folder, file_bytes=10_000_000, sync=False), 3)
    assert verify(folder).broken is not None


@pytest.mark.parametrize("tamper", [cut_off, emptied, taken_out], ids=lambda kind: kind.__name__)
def test_a_writer_that_finds_rows_missing_says_so(trail, folder, rows, tamper):
    fill(trail)
    all_lines = lines(folder)
    tamper(all_lines)
    write(folder, all_lines)
    other = Trail(folder, file_bytes=10_000_000, sync=False)
    (told,) = other.append([note("denied")])
    assert told["kind"] == "audit.broken"
    assert told["expected"]["n"] == 11
    assert rows("audit.broken")


def test_whoever_takes_the_head_along_is_found_by_what_the_store_keeps(trail, folder):
    fill(trail)
    kept = trail.tip
    shorter = lines(folder)[:-3]
    write(folder, shorter)
    head = {"n": 8, "hash": json.loads(shorter[-1])["hash"], "size": sum(map(len, shorter))}
    (folder / "audit.head").write_text(json.dumps(head))
    assert verify(folder).broken is None
    broken = verify(folder, [("the store", kept)]).broken
    assert broken.problem == "rows 9 to 11 are missing at the end; the store knows of them"
    assert verify(folder, [("the store", Tip(8, head["hash"]))]).broken is None


def test_whoever_takes_everything_along_is_found_by_what_the_store_keeps(trail, folder):
    fill(trail)
    shutil.rmtree(folder)
    assert verify(folder).broken is None
    assert "rows 1 to 11 are missing" in verify(folder, [("the store", trail.tip)]).broken.problem


def test_a_writer_notices_while_it_is_running_that_rows_and_head_were_put_back(trail, folder, rows):
    fill(trail, 3)
    saved = {path: path.read_bytes() for path in (folder / "audit.jsonl", folder / "audit.head")}
    fill(trail, 3)
    for path, data in saved.items():
        path.write_bytes(data)
    (told,) = trail.append([note("denied")])
    assert (told["kind"], told["expected"]["n"], told["found"]["n"]) == ("audit.broken", 7, 4)
    assert "rows 5 to 7 are missing" in verify(folder).broken.problem


def test_a_head_that_is_gone_is_told(trail, folder, rows):
    fill(trail, 3)
    (folder / "audit.head").unlink()
    assert "audit.head is missing" in verify(folder).broken.problem
    (told,) = Trail(folder, file_bytes=10_000_000, sync=False).append([note("denied")])
    assert told["kind"] == "audit.head_lost"
    assert "audit.head is missing" in verify(folder).broken.problem


# Half rows


def test_half_a_row_at_the_end_is_a_crash_and_mended(trail, folder, rows):
    fill(trail, 3)
    with (folder / "audit.jsonl").open("ab") as file:
        file.write(b'{"at":"2026-01-01","kind":"den')
    report = verify(folder)
    assert report.broken is None
    assert "line 5: half a row" in report.notes[0]
    (told,) = Trail(folder, file_bytes=10_000_000, sync=False).append([note("denied", principal="after")])
    assert (told["kind"], told["text"]) == ("audit.mended", '{"at":"2026-01-01","kind":"den')
    report = verify(folder)
    assert report.broken is None
    assert "was cut off" in report.notes[0]
    assert [row["kind"] for row in rows()[-2:]] == ["audit.mended", "denied"]


def test_rows_that_were_written_before_a_crash_and_their_head_was_not_are_no_tampering(trail, folder):
    fill(trail, 3)
    head = (folder / "audit.head").read_bytes()
    fill(trail, 2)
    (folder / "audit.head").write_bytes(head)
    assert verify(folder).broken is None
    assert Trail(folder, file_bytes=10_000_000, sync=False).append([note("denied")]) == []
    assert verify(folder).broken is None


def test_a_crash_after_the_very_first_row_is_no_tampering(trail, folder, monkeypatch):
    write_head, calls = trail.files.write_head, []

    def only_once(head, *, sync):
        calls.append(head)
        if len(calls) > 1:
            raise KeyboardInterrupt
        write_head(head, sync=sync)

    monkeypatch.setattr(trail.files, "write_head", only_once)
    with pytest.raises(KeyboardInterrupt):
        trail.append([note("denied")])
    assert verify(folder).broken is None
    assert Trail(folder, file_bytes=10_000_000, sync=False).append([note("denied")]) == []
    report = verify(folder)
    assert (report.broken, report.rows) == (None, 3)


def test_half_a_row_in_a_full_file_is_tampering(folder):
    small = Trail(folder, file_bytes=500, sync=False)
    fill(small, 10)
    first = Files(folder).full()[0]
    first.write_bytes(first.read_bytes()[:-10])
    broken = verify(folder).broken
    assert broken.file == str(first)


# Several files


def test_the_chain_goes_on_over_files(folder, rows):
    small = Trail(folder, file_bytes=1000, sync=False)
    fill(small, 40)
    assert len(Files(folder).full()) > 5
    report = verify(folder)
    assert report.broken is None
    assert report.rows == 41
    assert report.files == len(Files(folder).full()) + 1
    names = [path.name for path in Files(folder).full()]
    assert names[0] == "audit-000000000001.jsonl"
    assert [row["n"] for row in rows()] == list(range(1, 42))


@pytest.mark.parametrize("which", [0, 2, -1])
def test_a_file_that_is_gone_is_found(folder, which):
    small = Trail(folder, file_bytes=1000, sync=False)
    fill(small, 40)
    Files(folder).full()[which].unlink()
    assert "missing before row" in verify(folder).broken.problem


def test_the_newest_file_that_is_gone_is_found(folder):
    small = Trail(folder, file_bytes=1000, sync=False)
    fill(small, 40)
    (folder / "audit.jsonl").unlink()
    assert "missing at the end" in verify(folder).broken.problem


def test_a_crash_between_two_files_is_no_tampering(folder):
    small = Trail(folder, file_bytes=1000, sync=False)
    fill(small, 20)
    files = Files(folder)
    first = json.loads(files.current.read_bytes().splitlines()[0])["n"]
    files.put_away(first)
    assert verify(folder).broken is None
    assert Trail(folder, file_bytes=1000, sync=False).append([note("denied")]) == []
    assert verify(folder).broken is None


def test_a_planted_file_is_not_overwritten(folder):
    small = Trail(folder, file_bytes=500, sync=False)
    fill(small, 1)
    planted = folder / "audit-000000000001.jsonl"
    planted.write_text("mine\n")
    fill(small, 10)
    assert planted.read_text() == "mine\n"
    assert verify(folder).broken.file == str(planted)


def test_nobody_else_may_look_into_the_files(trail, folder):
    fill(trail, 1)
    assert folder.stat().st_mode & 0o077 == 0
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
