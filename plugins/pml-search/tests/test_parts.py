from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_kit.schema.members import parameters
from pml_search import structure, words
from pml_search._numpy import np
from pml_search.clauses import MOST_CLAUSES, clauses
from pml_search.languages import Languages, languages
from pml_search.piece_vectors import SIZE, table, tokens
from pml_search.rows import Tool, boilerplate
from pml_search.spelling import Speller
from pml_search.thesaurus import Thesaurus
from pml_search.tool_text import DEEPEST, MOST_PARAMETERS, first_sentence, read, without


@pytest.mark.parametrize(
    "spelling", ["readTextFile", "read_text_file", "read-text-file", "ReadTextFile", "READ text File"]
)
def test_identifiers_are_taken_apart(spelling):
    assert words.split(spelling) == ["read", "text", "file"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("files", "file"), ("queries", "query"), ("searches", "search"), ("deleting", "delete"), ("creation", "create"),
     ("boxes", "box"), ("converted", "convert"), ("classes", "class"), ("running", "run")],
)  # fmt: skip
def test_forms_of_a_word_have_one_stem(one, other):
    assert words.stem(one) == words.stem(other)


def test_what_is_no_word_is_left_out():
    assert words.terms("the of a " + "x" * 100) == []


def test_words_with_numbers_are_also_found_by_their_parts():
    assert set(words.terms("sha256")) == {"sha256", "sha", "256"}


def test_scripts_without_spaces_are_taken_apart_by_pairs():
    assert words.terms("天气预报") == ["天气", "气预", "预报"]
    assert words.split("Slackに投稿") == ["slack", "に投稿"]


@given(st.text(max_size=200))
def test_any_text_can_be_split(text):
    assert all(0 < len(word) <= words.LONGEST_WORD for word in words.split(text))
    tokens(text)
    clauses(text)


def test_common_words_mean_more_alike_than_others():
    photo, picture, invoice = table().encode([["photo"], ["picture"], ["invoice"]])
    assert photo @ picture > 0.5 > photo @ invoice


def test_a_text_without_known_pieces_has_no_meaning():
    vectors = table().encode([[], ["\ue000"], ["file"]])
    assert vectors.shape == (3, SIZE)
    assert np.linalg.norm(vectors, axis=1).round(3).tolist() == [0, 0, 1]


def test_texts_are_encoded_alike_alone_and_together():
    texts = [["read", "file"], [], ["zebra"], ["transmogrification"]] * 200
    together = table().encode(texts)
    assert all(np.allclose(together[n], table().encode([texts[n]])[0], atol=1e-6) for n in (0, 1, 2, 3, 799))


@pytest.mark.parametrize(
    ("typed", "meant"), [("sned", "send"), ("emial", "email"), ("repositry", "repository"), ("tranlate", "translate")]
)  # fmt: skip
def test_the_nearest_word_is_found(typed, meant):
    known = ["send", "email", "repository", "translate", "file", "weather", "sent1", "ünicode"]
    assert known[Speller(known).near(typed)[0][0]] == meant


@pytest.mark.parametrize("typed", ["", "abc", "zzzzzz", "wether2", "ü" * 9, "x" * 300])
def test_a_word_that_is_like_none_finds_none(typed):
    assert Speller(["send", "email", "weather"]).near(typed) == []
    assert Speller([]).near("send") == []


def edits(one, other):
    """Plain, slow: mistakes without overlapping swaps."""
    rows = [[max(a, b) if not a or not b else 0 for b in range(len(other) + 1)] for a in range(len(one) + 1)]
    for a in range(1, len(one) + 1):
        for b in range(1, len(other) + 1):
            same = one[a - 1] == other[b - 1]
            rows[a][b] = min(rows[a - 1][b] + 1, rows[a][b - 1] + 1, rows[a - 1][b - 1] + (not same))
            if a > 1 and b > 1 and one[a - 1] == other[b - 2] and one[a - 2] == other[b - 1]:
                rows[a][b] = min(rows[a][b], rows[a - 2][b - 2] + 1)
    return rows[-1][-1]


@given(st.text("abcd", min_size=4, max_size=10), st.lists(st.text("abcd", min_size=4, max_size=10), max_size=8))
def test_only_words_with_few_mistakes_are_found_and_no_nearer_one_is_missed(typed, known):
    allowed = 1 if len(typed) < 7 else 2
    found = {known[place] for place, _ in Speller(known).near(typed)}
    near = {word: edits(typed, word) for word in known if abs(len(word) - len(typed)) <= allowed}
    assert all(near[word] <= allowed for word in found)
    if any(distance <= allowed for distance in near.values()):
        assert min(near[word] for word in found) <= min(near.values()) + 0.5


def test_english_is_left_alone():
    query = words.split("find La Liga matches and list the latest results")
    known = table().__contains__
    assert not languages().is_foreign(query, known)


@pytest.mark.parametrize(
    "query",
    ["Datei lesen", "supprimer un fichier", "buscar archivos en el directorio", "kalendertermin erstellen", "读取文件"],
)
def test_other_languages_are_noticed(query):
    assert languages().is_foreign(words.split(query), table().__contains__)


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("rechne 20 Dollar in Euro um", {"convert", "dollar", "euro"}),
        ("was habe ich geändert", {"change"}),
        ("crée une nouvelle présentation", {"create", "presentation"}),
        ("réserve un hôtel à Lyon", {"book", "hotel"}),
        ("combien font 200 dollars en euros", {"dollar", "euro"}),
        ("pide una pizza", {"order", "pizza"}),
    ],
)
def test_words_that_languages_share_do_not_make_a_query_english(query, meant):
    said = words.split(query)
    known = table().__contains__
    assert languages().is_foreign(said, known, words.accented(query))
    found = languages().translate(said, known, foreign=True)
    assert meant <= {word for _, meanings in found for word in meanings.split()}


def test_words_phrases_beginnings_and_compounds_are_translated():
    meanings = "file: datei\ncalendar: kalender*\nevent: termin*\npassword: mot-de-passe\nread: 读取\n"
    some = Languages(f"{meanings}task: aufgabe*\nlist: liste", "de: die\nfr: le")

    def translate(*query):
        return some.translate(query, lambda _: False, foreign=True)

    assert translate("die", "datei") == [("die", ""), ("datei", "file")]
    assert translate("kalendern") == [("kalendern", "calendar")]
    assert translate("kalendertermin") == [("kalendertermin", "calendar event")]
    assert translate("aufgabenliste") == [("aufgabenliste", "task list")]
    assert translate("le", "mot", "de", "passe") == [("le", ""), ("mot de passe", "password")]
    assert translate("读取文") == [("读取文", "read 文")]
    assert translate("unbekannt") == [("unbekannt", "unbekannt")]


def test_the_word_lists_are_well_formed():
    assert len(languages()._exact) > 2000
    assert all(word == word.strip() and word for word in languages()._exact)


def test_a_thesaurus_knows_words_and_phrases():
    some = Thesaurus("delete remove: get-rid-of toss\n# note\ntoss: throw")
    assert dict(some.meanings(["get", "rid", "of", "it"])) == {("get", "rid", "of"): ("delet", "remov")}
    assert dict(some.meanings(["tossing"])) == {("toss",): ("delet", "remov")}


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("read a file", 0),
        ("Read the file. Send it by mail.", 2),
        ("get the weather forecast, translate the text and post a message", 3),
        ("lies die Datei und dann schicke eine Nachricht", 2),
        ("version 1.5 of the file", 0),
        ("first thing to do\nsecond thing to do", 2),
    ],
)
def test_long_requests_are_taken_apart(query, parts):
    assert len(clauses(query)) == parts


def test_there_is_an_end_to_clauses():
    assert len(clauses(". ".join(f"read the file number {n}" for n in range(1000)))) == MOST_CLAUSES


@pytest.mark.parametrize(
    ("definition", "effect"),
    [
        ({"name": "x", "annotations": {"readOnlyHint": True}}, "read"),
        ({"name": "get_x", "annotations": {"readOnlyHint": False}}, "write"),
        ({"name": "x", "annotations": {"destructiveHint": True}}, "write"),
        ({"name": "list_files"}, "read"),
        ({"name": "deleteFile"}, "write"),
        ({"name": "thing", "description": "Searches the web"}, "read"),
        ({"name": "thing"}, "write"),
        ({}, "write"),
    ],
)
def test_the_effect_is_told_by_hints_and_verbs(definition, effect):
    assert structure.effect(definition) == effect


@pytest.mark.parametrize(
    "query",
    [
        "takes a path, returns text",
        "accepts a path and gives back text",
        "path -> text",
        "given a path, it outputs text",
    ],
)
def test_shapes_that_are_asked_for_are_read(query):
    taken, given_back = structure.asked_shapes(query)
    assert taken & structure.SHAPE_BITS["path"]
    assert given_back & structure.SHAPE_BITS["text"]
    assert not taken & structure.SHAPE_BITS["text"]


def test_other_queries_ask_for_no_shapes():
    assert structure.asked_shapes("take the file from the folder") == (0, 0)


@pytest.mark.parametrize(
    ("query", "shape"),
    [("open https://example.com/a", "url"), ("mail to a.b@example.com", "email"), ("show report.pdf", "path"),
     ("show /var/log/syslog", "path"), ("on 2026-02-03", "date"), ("at 48.1351, 11.5820", "location")],
)  # fmt: skip
def test_values_in_a_query_have_shapes(query, shape):
    assert structure.given_shapes(query) == structure.SHAPE_BITS[shape]


def test_shapes_of_a_schema_come_from_names_types_and_formats():
    schema = {"properties": {"filePath": {"type": "string"}, "when": {"format": "date-time"}, "n": {"type": "integer"}}}
    bits = structure.input_shapes({"inputSchema": schema})
    assert all(bits & structure.SHAPE_BITS[shape] for shape in ("path", "date", "number"))


@pytest.mark.parametrize(
    ("description", "sentence"),
    [
        ("Reads a text file. More.", "Reads a text file."),
        ("E.g. this. And that. Third.", "E.g. this. And that."),
        ("", ""),
        ("x" * 999, "x" * 240),
    ],
)
def test_the_first_sentence(description, sentence):
    assert first_sentence(description) == sentence


def test_schemas_that_contain_themselves_or_are_huge_come_to_an_end():
    schema = {"properties": {}}
    schema["properties"]["again"] = schema
    bounds = {"deepest": DEEPEST, "most": MOST_PARAMETERS}
    assert len(list(parameters(schema, **bounds))) == 3
    wide = {"properties": {f"p{n}": {"type": "string"} for n in range(5000)}}
    assert len(list(parameters(wide, **bounds))) == 200


def test_a_huge_definition_is_cut():
    text = read("s", {"name": "n" * 9000, "description": "word " * 90_000, "title": "t"})
    assert len(text.name) <= 1000
    assert len(text.first) + len(text.rest) <= 2000


def test_sentences_that_many_tools_share_are_left_out():
    tools = [
        Tool(str(n), "s", {"name": "x", "description": f"Tool number {n}. Contact us for a license key!"}, "")
        for n in range(5)
    ]
    common = boilerplate(tools)
    assert common == {"Contact us for a license key!"}
    assert without("Tool number 1. Contact us for a license key!", common) == "Tool number 1."
    assert without("Contact us for a license key!", common) == "Contact us for a license key!"


def test_abbreviations_are_written_out():
    known = Thesaurus("", "# comment\npull request: pr prs\ndatabase: db")
    assert known.written_out(["open", "pr", "db"]) == ["pull", "request", "database"]
    assert known.written_out(["prefer"]) == []


@pytest.mark.parametrize(
    ("query", "making"),
    [
        ("Summarize the page and save it to /tmp/notes/page.md", "write file"),
        ("write a report in ~/out.pdf", "create pdf"),
        ("create slides as ./talks/summary.pptx please", "create presentation save"),
        ("Make a table of the sales in report.xlsx", "write excel spreadsheet"),
        ("read /etc/hosts.txt", ""),
        ("what is in config.yaml", ""),
        ("convert the file notes.docx", ""),
        ("open https://example.com/in/page.html", ""),
        ("save it", ""),
        ("use version 1.2.md5", ""),
    ],
)
def test_a_file_that_is_to_be_made_is_noticed(query, making):
    assert structure.file_to_make(query) == making


@given(st.text(max_size=300))
def test_any_text_can_be_looked_through_for_a_file(text):
    assert isinstance(structure.file_to_make(text + "/" * 50 + "a." * 50 + text), str)
