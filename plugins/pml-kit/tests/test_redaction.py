from __future__ import annotations

import json
import tracemalloc
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_hookspecs import ExecutionQuery, Scope, encode
from pml_kit.system.redaction import MASK, SHORTEST, Redactor
from pml_testing.gateway import Client, ScriptedServer, running

secrets = st.text(min_size=SHORTEST, max_size=20)


def knowing(*values: str) -> Redactor:
    made = Redactor()
    made.learn(values)
    return made


def test_a_secret_is_replaced_wherever_it_stands():
    one = knowing("hunter22")
    assert one.text("a hunter22, hunter22hunter22") == f"a {MASK}, {MASK}{MASK}"
    assert one.raw(b'{"hunter22":["x hunter22"]}') == f'{{"{MASK}":["x {MASK}"]}}'.encode()
    nested = {"hunter22": ["hunter22", ("x", 5, None, {"y": "hunter22"})]}
    assert one.value(nested) == {MASK: [MASK, ["x", 5, None, {"y": MASK}]]}


def test_short_values_are_not_taken_for_secrets():
    one = knowing("x" * (SHORTEST - 1), "")
    assert one.text("xxxxx 1") == "xxxxx 1"
    assert knowing("x" * SHORTEST).text("xxxxxx") == MASK


def test_of_two_secrets_the_longer_is_replaced_first_so_that_no_part_shows():
    for order in (("secret", "secret-and-more"), ("secret-and-more", "secret")):
        assert knowing(*order).text("secret-and-more secret") == f"{MASK} {MASK}"
        assert knowing(*order).raw(b'["secret-and-more"]') == f'["{MASK}"]'.encode()


def test_secrets_can_be_learnt_later_and_earlier_ones_stay():
    one = knowing("first-one")
    one.learn(["second-one"])
    assert one.text("first-one second-one") == f"{MASK} {MASK}"
    assert one.raw(b'"first-one second-one"') == f'"{MASK} {MASK}"'.encode()


@given(secrets, st.text(max_size=5), st.text(max_size=5), st.booleans())
def test_a_secret_is_found_in_json_however_it_is_escaped_by_python(secret, before, after, ascii_only):
    raw = json.dumps({"k": before + secret + after, "n": 1}, ensure_ascii=ascii_only).encode()
    cleaned = json.loads(knowing(secret).raw(raw))
    assert secret not in cleaned["k"].replace(MASK, "")


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("abc/def+ghi", r"abc\/def+ghi"),
        ("pässwörd", r"p\u00E4ssw\u00F6rd"),
        ("pässwörd", r"p\u00e4sswörd"),
        ("tab\tsecret", r"tab\u0009secret"),
        ("plain-secret", r"plain\u002dsecret"),
    ],
)
def test_a_secret_is_found_in_json_as_other_languages_escape_it(secret, text):
    raw = f'{{"k":"{text}"}}'.encode()
    assert json.loads(raw) == {"k": secret}
    assert secret not in json.loads(knowing(secret).raw(raw))["k"]


@given(
    st.integers(10**5, 10**8) | st.floats(0.1, 9, allow_nan=False),
    st.sampled_from(["[{}]", '{{"n":{}7}}', '{{"n":1{}}}']),
)
def test_a_number_that_is_a_secret_leaves_json_that_is_still_json(secret, template):
    json.loads(knowing(str(secret)).raw(template.format(secret).encode()))


@pytest.mark.parametrize("secret", ['","b":"', '":null,', "true,true", "[[[[[[", '\\\\\\"\\\\\\"'])
def test_a_secret_that_looks_like_json_leaves_json_that_is_still_json(secret):
    raw = json.dumps(
        {"a": "", "b": "", "c": None, "d": [True, True], "e": [[[[[[[]]]]]]], "f": secret}, separators=(",", ":")
    )
    cleaned = json.loads(knowing(secret).raw(raw.encode()))
    assert secret not in cleaned["f"]


def test_what_knows_nothing_changes_nothing():
    one = Redactor()
    value = {"a": [1, "x"]}
    assert (one.text("x"), one.raw(b"x"), one.value(value)) == ("x", b"x", value)


# PML's own keys, of which the gateway has only the hashes

OWN_KEY = f"pml_{'a2' * 8}_{'bcd7' * 13}"


def test_an_own_key_is_replaced_wherever_it_stands_though_nobody_told_of_it():
    one = Redactor()
    assert one.text(f"Bearer {OWN_KEY}, and\n{OWN_KEY}.") == f"Bearer {MASK}, and\n{MASK}."
    assert one.raw(encode({OWN_KEY: [f"x{OWN_KEY}y"]})) == encode({MASK: [f"x{MASK}y"]})
    assert one.value({OWN_KEY: [OWN_KEY, 1]}) == {MASK: [MASK, 1]}


@pytest.mark.parametrize("plain", ["pml_", "pml__list_tools", "pml_short_key", "pml_core", OWN_KEY[:-1]])
def test_what_only_begins_like_an_own_key_stays(plain):
    raw = encode({"text": f"{plain} \u00e4 \\ "})
    assert Redactor().text(plain) == plain
    assert Redactor().raw(raw) == raw


@pytest.mark.parametrize("position", [0, 1, 2, 3, 5, 30])
@pytest.mark.parametrize("form", ["\\u{:04x}", "\\u{:04X}"])
def test_an_own_key_is_found_in_json_however_it_is_escaped(position, form):
    written = OWN_KEY[:position] + form.format(ord(OWN_KEY[position])) + OWN_KEY[position + 1 :]
    raw = f'{{"k":"{written}"}}'.encode()
    assert json.loads(raw) == {"k": OWN_KEY}
    assert json.loads(Redactor().raw(raw)) == {"k": MASK}


def test_an_own_key_at_the_end_of_a_text_that_was_cut_is_replaced():
    assert OWN_KEY.encode() not in Redactor().raw(f'{{"k":"{OWN_KEY}'.encode())


@pytest.mark.anyio
async def test_an_own_key_that_an_agent_sends_is_in_no_record():
    async with running({"one": ScriptedServer(["a"])}) as gateway:
        assert "isError" not in await Client(gateway).call("one__a", {"text": f"my key is {OWN_KEY}"})
        (record,) = (await gateway.store.executions.find(ExecutionQuery(scope=Scope(principals=None)))).items
        kept = encode({"request": record.request, "response": record.response}).decode()
        assert (OWN_KEY in kept, MASK in kept) == (False, True)


def test_a_secret_is_found_in_json_that_was_cut_behind_a_backslash():
    redactor = Redactor()
    redactor.learn(["hunter2-secret"])
    assert b"hunter2" not in redactor.raw(b'{"a": "the hunter2-secret\\')


def test_a_long_string_with_escapes_takes_no_multiple_of_its_memory():
    """A pattern that keeps each character to come back to it takes a hundred bytes for one."""
    redactor = Redactor()
    redactor.learn(["hunter2-secret"])
    text = json.dumps({"text": "a line of it\n" * 80_000 + "hunter2-secret"}).encode()
    tracemalloc.start()
    try:
        cleaned = redactor.raw(text)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert b"hunter2" not in cleaned
    assert most < 10 * len(text)


@pytest.mark.parametrize("secret", ['pass"word\\1', "päss/word+1", 'pä"ss&word'])
def test_a_secret_in_json_within_a_text_or_in_an_address_is_taken_out(secret):
    redactor = Redactor()
    redactor.learn([secret])
    for ascii_only in (True, False):
        inside = json.dumps({"token": secret}, ensure_ascii=ascii_only)
        assert redactor.text(inside) == json.dumps({"token": MASK})
        assert json.loads(redactor.raw(json.dumps({"text": inside}).encode())) == {"text": json.dumps({"token": MASK})}
    assert redactor.text(f"https://h/?t={quote(secret, safe='')}&x") == f"https://h/?t={MASK}&x"


def test_a_short_secret_is_none_in_any_shape():
    redactor = Redactor()
    redactor.learn(["a/b+c"])
    assert redactor.text("a/b+c a%2Fb%2Bc") == "a/b+c a%2Fb%2Bc"


@pytest.mark.parametrize(
    "value",
    ["production", "warning", "us-east-1", "/home/me/project-1/files", "~/project-1-files-of-mine", "20261126000000000",
     "https://api.example.com/v1/things", r"C:\\projects\\number-1\\files", "a text of several words 1"],
)  # fmt: skip
def test_a_description_keeps_words_paths_addresses_and_numbers(value):
    redactor = knowing(value)
    assert redactor.description(f"Lists {value}.") == f"Lists {value}."
    assert redactor.text(f"Lists {value}.") == f"Lists {MASK}."


@pytest.mark.parametrize("value", ["ghp_0123456789abcdef", 'near-s3cret"with/all+1', "0123456789abcdefABCDEF"])
def test_a_description_has_no_token(value):
    assert knowing(value).description(f"Lists {value}.") == f"Lists {MASK}."
