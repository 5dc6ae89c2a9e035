from __future__ import annotations

import shutil
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

MODULES = (
    "good_documents.py",
    "good_history.py",
    "watching.py",
    "wrong_stores.py",
    "wrong_catalogs.py",
    "wrong_documents.py",
    "wrong_history.py",
)
AT_ONCE = 2
"""Processes among which the stores are divided."""
HEAD = """
import pytest
import watching, wrong_catalogs, wrong_documents, wrong_history, wrong_stores
from pml_testing.store import StoreContract

MODULES = wrong_stores, wrong_catalogs, wrong_documents, wrong_history
"""
TEMPLATE = """

class Test{name}({watched}StoreContract):
    kind = next(getattr(module, "{name}") for module in MODULES if hasattr(module, "{name}"))

    @pytest.fixture
    def store_type(self):
        return self.kind

    @pytest.fixture
    def settings(self, tmp_path):
        return wrong_stores.Settings(path=str(tmp_path / "journal"))
"""
LONG = (
    "test_pruning_by_size_deletes_the_oldest_first",
    "test_what_was_put_survives_a_kill",
    "test_writing_goes_on_while_old_executions_are_deleted",
)
"""Tests that only those stores have whose fault they find, and the good one: they make a process, or much to delete."""
FILTER = {"test_find_agrees_with_a_plain_filter"}
FILTERS = {*FILTER, "test_activity_agrees_with_a_plain_filter"}
ALL_FILTERS = {*FILTERS, "test_totals_agree_with_a_plain_filter"}
HISTORY: dict[str, set[str]] = {
    "HasNoSharedAgents": {
        "test_numbers_are_exact_whatever_the_time_asked_for",
        "test_shared_agents_are_seen_besides",
        "test_sums_and_totals_have_all_that_was_recorded_before",
        *ALL_FILTERS,
    },
    "TakesAnyNameForASharedAgent": {
        "test_a_name_that_a_client_gave_itself_is_no_shared_agent",
        "test_numbers_are_exact_whatever_the_time_asked_for",
        "test_shared_agents_are_seen_besides",
        "test_sums_and_totals_have_all_that_was_recorded_before",
        *ALL_FILTERS,
    },
    "TellsTranscripts": {"test_a_transcript_is_read_only_when_asked_for"},
    "ListsTranscripts": {"test_a_transcript_is_read_only_when_asked_for"},
    "KeepsTheOldTranscript": {"test_a_transcript_goes_with_the_record_that_is_replaced"},
    "LosesTokens": {
        "test_every_field_of_a_record_comes_back",
        "test_numbers_are_exact_whatever_the_time_asked_for",
        "test_numbers_too_large_to_add_up_lose_nothing",
        "test_sums_and_totals_have_all_that_was_recorded_before",
        "test_sums_follow_what_is_replaced",
        "test_totals_add_up_what_is_in_each_group",
        "test_totals_agree_with_a_plain_filter",
    },
    "TakesServersForPatterns": {"test_servers_are_told_apart_to_the_letter"},
    "EndsLater": {
        "test_numbers_are_exact_whatever_the_time_asked_for",
        "test_sums_and_totals_have_all_that_was_recorded_before",
        "test_until_is_exclusive",
        *ALL_FILTERS,
    },
    "SearchesIntentsOnly": {
        "test_a_word_ends_where_letters_and_digits_do",
        "test_all_the_words_must_occur_in_whatever_part",
        "test_the_first_2048_characters_of_each_part_are_searched",
        "test_what_is_replaced_is_found_by_its_new_words",
        "test_words_are_found_wherever_they_are",
    },
    "SearchesInsideWords": {"test_text_is_never_syntax", "test_words_are_found_whole_and_by_their_beginning_only"},
    "NeedsOneOfTheWords": {
        "test_all_the_words_must_occur_in_whatever_part",
        "test_scope_limits_what_is_found_by_text",
        "test_text_is_never_syntax",
        "test_what_is_found_by_text_is_counted_up_to_a_thousand_at_least",
        "test_words_are_found_whole_and_by_their_beginning_only",
        *ALL_FILTERS,
    },
    "MindsCase": {
        "test_all_the_words_must_occur_in_whatever_part",
        "test_text_is_never_syntax",
        "test_words_are_found_wherever_they_are",
        "test_words_are_found_whole_and_by_their_beginning_only",
        *ALL_FILTERS,
    },
    "SearchesAllOfTheIntent": {"test_the_first_2048_characters_of_each_part_are_searched"},
    "FindsWhatRanInside": {"test_only_what_a_client_asked_for_is_found", *ALL_FILTERS},
    "FindsNothingForNoWords": {
        "test_no_words_find_everything",
        "test_text_is_never_syntax",
        "test_what_is_found_by_text_is_counted_up_to_a_thousand_at_least",
    },
    "TakesTextForSyntax": {"test_text_is_never_syntax"},
    "SplitsAtBlanksOnly": {
        "test_a_word_ends_where_letters_and_digits_do",
        "test_all_the_words_must_occur_in_whatever_part",
        "test_text_is_never_syntax",
        "test_what_is_replaced_is_found_by_its_new_words",
        "test_words_are_found_wherever_they_are",
    },
    "FindsTextForEveryone": {
        "test_scope_limits_what_is_added_up_by_text",
        "test_scope_limits_what_is_found_by_text",
        "test_sums_and_totals_have_all_that_was_recorded_before",
        *ALL_FILTERS,
    },
    "CountsTextForEveryone": {
        "test_find_agrees_with_a_plain_filter",
        "test_scope_limits_what_is_found_by_text",
        "test_sums_and_totals_have_all_that_was_recorded_before",
    },
    "AddsUpTextForEveryone": {
        "test_scope_limits_what_is_added_up_by_text",
        "test_sums_and_totals_have_all_that_was_recorded_before",
        "test_totals_agree_with_a_plain_filter",
    },
    "AddsUpForEveryone": {
        "test_a_name_that_a_client_gave_itself_is_no_shared_agent",
        "test_numbers_are_exact_whatever_the_time_asked_for",
        "test_scope_limits_totals",
        "test_scope_limits_what_is_added_up_by_text",
        "test_shared_agents_are_seen_besides",
        "test_sums_and_totals_have_all_that_was_recorded_before",
        "test_totals_agree_with_a_plain_filter",
    },
    "TakesSimulatedForFailed": {
        "test_sums_and_totals_have_all_that_was_recorded_before",
        "test_totals_add_up_what_is_in_each_group",
        "test_totals_agree_with_a_plain_filter",
    },
    "LosesSmallCosts": {
        "test_numbers_are_exact_whatever_the_time_asked_for",
        "test_scope_limits_totals",
        "test_totals_agree_with_a_plain_filter",
    },
    "CountsServersOfEverything": {"test_totals_agree_with_a_plain_filter"},
    "MostExecutionsFirst": {
        "test_numbers_are_exact_whatever_the_time_asked_for",
        "test_sums_and_totals_have_all_that_was_recorded_before",
        "test_the_dearest_comes_first_and_days_come_in_order",
        "test_totals_agree_with_a_plain_filter",
    },
    "TakesDaysForHours": {
        "test_numbers_are_exact_whatever_the_time_asked_for",
        "test_sums_and_totals_have_all_that_was_recorded_before",
        "test_totals_agree_with_a_plain_filter",
    },
    "AddsWhatIsReplaced": {
        "test_numbers_too_large_to_add_up_lose_nothing",
        "test_sums_and_totals_have_all_that_was_recorded_before",
        "test_sums_follow_what_is_replaced",
        "test_what_moves_to_another_time_is_counted_there",
    },
    "DeletesWhatIsRunning": {
        "test_pruning_by_size_deletes_the_oldest_first",
        "test_pruning_spares_those_inside_which_something_still_runs",
        "test_pruning_spares_what_has_not_ended",
        "test_pruning_takes_runs_of_agents_along_with_what_they_ran_in",
    },
    "DeletesWhatRunsInside": {"test_pruning_spares_those_inside_which_something_still_runs"},
    "LeavesChildrenBehind": {
        "test_pruning_spares_those_inside_which_something_still_runs",
        "test_pruning_spares_what_has_not_ended",
        "test_pruning_takes_runs_of_agents_along_with_what_they_ran_in",
        "test_pruning_takes_what_ran_inside_along_and_nothing_else",
        "test_writing_goes_on_while_old_executions_are_deleted",
    },
    "LeavesGrandchildrenBehind": {
        "test_pruning_spares_those_inside_which_something_still_runs",
        "test_pruning_takes_runs_of_agents_along_with_what_they_ran_in",
        "test_pruning_takes_what_ran_inside_along_and_nothing_else",
    },
    "DeletesTheNewestFirst": {"test_pruning_by_size_deletes_the_oldest_first"},
    "DeletesOneTooMany": {
        "test_pruning_by_size_stops_where_age_says_nothing",
        "test_pruning_deletes_what_started_earlier",
        "test_pruning_spares_those_inside_which_something_still_runs",
        "test_pruning_spares_what_has_not_ended",
        "test_pruning_takes_runs_of_agents_along_with_what_they_ran_in",
        "test_pruning_takes_what_ran_inside_along_and_nothing_else",
        "test_writing_goes_on_while_old_executions_are_deleted",
    },
    "CountsEverythingDeleted": {
        "test_pruning_spares_those_inside_which_something_still_runs",
        "test_pruning_spares_what_has_not_ended",
        "test_pruning_takes_runs_of_agents_along_with_what_they_ran_in",
        "test_pruning_takes_what_ran_inside_along_and_nothing_else",
        "test_writing_goes_on_while_old_executions_are_deleted",
    },
    "DeletesDocumentsToo": {"test_pruning_leaves_all_but_executions_alone"},
}
"""Of the stores in ``wrong_history``."""
EXPECTED: dict[str, set[str]] = {
    "Good": set(),
    "BlocksTheLoop": {"test_keeps_the_event_loop_for_nothing"},
    "LosesFailures": {"test_every_field_of_a_record_comes_back", "test_words_are_found_wherever_they_are"},
    "LosesTheEndpoint": {"test_every_field_of_a_record_comes_back"},
    "TakesFalseForNothing": {"test_any_json_comes_back_as_a_response"},
    "SortsMembers": {"test_raw_objects_come_back_member_by_member"},
    "CutsLongResponses": {"test_large_requests_and_responses_come_back", "test_words_are_found_wherever_they_are"},
    "StoresLatinOne": {"test_text_in_any_script_comes_back", "test_words_are_found_whole_and_by_their_beginning_only"},
    "LosesWhatIsNotUtf8": {"test_text_without_a_utf8_form_does_not_hide_an_execution"},
    "ReadsWhatIsWritten": {
        "test_a_record_replaces_an_earlier_one_with_its_id",
        "test_a_transcript_goes_with_the_record_that_is_replaced",
        "test_scope_limits_spans",
        "test_text_without_a_utf8_form_does_not_hide_an_execution",
        "test_what_is_recorded_is_read_at_once",
    },
    "KeepsTheFirst": {
        "test_a_record_replaces_an_earlier_one_with_its_id",
        "test_a_transcript_goes_with_the_record_that_is_replaced",
        "test_numbers_too_large_to_add_up_lose_nothing",
        "test_pruning_spares_those_inside_which_something_still_runs",
        "test_sums_and_totals_have_all_that_was_recorded_before",
        "test_sums_follow_what_is_replaced",
        "test_what_is_replaced_is_found_by_its_new_words",
        "test_what_moves_to_another_time_is_counted_there",
    },
    "Blocks": {"test_recording_costs_the_caller_little"},
    "LosesAWholeBatch": {"test_a_record_that_is_not_json_is_lost_alone"},
    "LosesUpdates": {"test_fifty_writers_lose_nothing", "test_writing_goes_on_while_old_executions_are_deleted"},
    "GetsForEveryone": {
        "test_a_name_that_a_client_gave_itself_is_no_shared_agent",
        "test_a_transcript_is_read_only_when_asked_for",
        "test_get_does_not_tell_out_of_scope_from_unknown",
        "test_shared_agents_are_seen_besides",
    },
    "CountsForEveryone": {
        "test_a_name_that_a_client_gave_itself_is_no_shared_agent",
        "test_no_words_find_everything",
        "test_numbers_are_exact_whatever_the_time_asked_for",
        "test_scope_limits_items_and_totals",
        "test_scope_limits_what_is_found_by_text",
        "test_shared_agents_are_seen_besides",
        "test_sums_and_totals_have_all_that_was_recorded_before",
        "test_text_is_never_syntax",
        "test_the_last_page_has_no_cursor_and_every_page_has_the_total",
        *FILTER,
    },
    "SumsForEveryone": {
        "test_a_name_that_a_client_gave_itself_is_no_shared_agent",
        "test_activity_agrees_with_a_plain_filter",
        "test_numbers_are_exact_whatever_the_time_asked_for",
        "test_scope_limits_summaries",
        "test_scope_limits_what_is_added_up_by_text",
        "test_shared_agents_are_seen_besides",
        "test_sums_and_totals_have_all_that_was_recorded_before",
    },
    "FindsLaterOnly": {
        "test_numbers_are_exact_whatever_the_time_asked_for",
        "test_since_is_inclusive",
        "test_sums_and_totals_have_all_that_was_recorded_before",
        "test_what_moves_to_another_time_is_counted_there",
        *ALL_FILTERS,
    },
    "TakesAnyLimit": {"test_a_limit_out_of_range_is_refused"},
    "GivesFiftyAtMost": {"test_a_page_is_as_long_as_asked_for", *FILTER},
    "TakesAnyCursor": {"test_a_foreign_cursor_is_refused"},
    "CountsRows": {
        "test_a_transcript_is_read_only_when_asked_for",
        "test_pages_neither_skip_nor_repeat_while_rows_are_added",
    },
    "CountsAHundredAtMost": {"test_what_is_found_by_text_is_counted_up_to_a_thousand_at_least"},
    "CountsWhatIsLeft": {
        "test_pages_of_a_search_neither_skip_nor_repeat",
        "test_pruning_spares_those_inside_which_something_still_runs",
        "test_the_last_page_has_no_cursor_and_every_page_has_the_total",
        "test_what_is_found_by_text_is_counted_up_to_a_thousand_at_least",
        "test_writing_goes_on_while_old_executions_are_deleted",
    },
    "PagesByTimeOnly": {
        "test_pages_neither_skip_nor_repeat_while_rows_are_added",
        "test_pages_of_a_search_neither_skip_nor_repeat",
    },
    "TakesRunningForFailed": {"test_activity_counts_what_each_agent_did"},
    "NeedsItsArguments": {"test_construction_takes_settings_and_services"},
    "LeavesTheQueue": {"test_leaving_writes_what_is_queued"},
    "RemembersNothing": {
        "test_leaving_writes_what_is_queued",
        "test_everything_is_there_the_next_time",
        "test_what_was_put_survives_a_kill",
    },
    "WritesWhenItIsLeft": {"test_what_was_put_survives_a_kill"},
    "IsSlowToSayHowItIs": {"test_health_is_json_and_cheap"},
    "OrdersSpansByArrival": {
        "test_spans_come_in_start_order_and_only_of_the_execution",
        "test_every_field_of_a_span_comes_back",
    },
    "KeepsSpansTwice": {"test_spans_seen_twice_are_kept_once"},
    "ConfusesTraces": {"test_spans_seen_twice_are_kept_once", "test_everything_is_there_the_next_time"},
    "ShowsSpansToEveryone": {
        "test_a_name_that_a_client_gave_itself_is_no_shared_agent",
        "test_scope_limits_spans",
        "test_shared_agents_are_seen_besides",
    },
    "KeepsToolsAsTheyCame": {"test_tools_come_back_as_they_came_and_by_name"},
    "IgnoresTheFingerprint": {"test_tools_are_known_under_their_fingerprint_only"},
    "AddsTools": {"test_tools_are_replaced_and_not_added_to", "test_tools_are_replaced_all_at_once"},
    "ReplacesToolsInTwoSteps": {"test_tools_are_replaced_all_at_once"},
    "KeepsTheFirstReport": {"test_the_last_report_of_each_server_is_kept"},
    "ForgetsDescriptions": {"test_the_last_report_of_each_server_is_kept"},
    "KeepsTheFirstSecret": {"test_a_secret_takes_the_place_of_the_one_before"},
    "ForgetsNoSecret": {"test_a_secret_is_forgotten"},
    "TakesNothingForEmpty": {"test_any_text_comes_back_as_a_secret"},
    "SharesSecrets": {"test_owners_do_not_see_each_other_s_secrets"},
    "RunsOwnerAndNameTogether": {"test_owners_do_not_see_each_other_s_secrets"},
    "KeepsSecretsInMemory": {"test_everything_is_there_the_next_time", "test_what_was_put_survives_a_kill"},
    "TellsSecrets": {"test_secrets_show_nowhere_else"},
    "KeepsOneMark": {"test_a_document_says_since_when_and_with_what_it_is_kept"},
    "DecodesToText": {"test_any_object_comes_back_as_a_document"},
    "StripsNames": {"test_any_text_is_a_name_for_documents"},
    "MakesItselfAnewWithEachChange": {"test_a_change_takes_the_place_of_all_but_the_beginning"},
    "AddsMarks": {"test_a_change_takes_the_place_of_all_but_the_beginning"},
    "CountsFromZero": {"test_each_change_makes_the_version_one_more", "test_fifty_counters_lose_nothing"},
    "KeepsTheCallersObject": {"test_what_is_changed_in_a_value_after_it_was_put_is_not_kept"},
    "RunsCollectionAndKeyTogether": {"test_collections_are_apart"},
    "IgnoresTheVersion": {
        "test_a_write_for_another_version_changes_nothing",
        "test_of_many_who_try_one_succeeds",
    },
    "LooksAndThenWrites": {"test_of_many_who_try_one_succeeds", "test_fifty_counters_lose_nothing"},
    "HoldsDocumentsBack": {
        "test_what_is_put_soon_is_read_at_once",
        "test_each_change_makes_the_version_one_more",
        "test_what_is_changed_in_a_value_after_it_was_put_is_not_kept",
        "test_leaving_writes_what_is_queued",
    },
    "BlocksOnDocuments": {"test_putting_soon_costs_the_caller_little"},
    "RaisesSoon": {"test_putting_soon_never_raises_and_loses_only_what_is_wrong"},
    "TakesAnyKey": {"test_a_document_that_cannot_be_kept_is_refused"},
    "FindsWithAnyMark": {"test_only_documents_with_all_the_marks_are_found"},
    "FindsTheLastMadeFirst": {
        "test_the_last_changed_come_first",
        "test_pruning_keeps_the_last_changed_and_nothing_expired",
    },
    "CountsDocumentRows": {"test_pages_neither_skip_nor_repeat_while_documents_are_put"},
    "CountsDocumentsThatAreLeft": {"test_the_last_page_of_documents_has_no_cursor_and_every_page_has_the_total"},
    "GivesAHundredDocuments": {"test_a_page_of_documents_out_of_range_is_refused"},
    "BeginsAgainAtAForeignCursor": {"test_a_foreign_cursor_of_documents_is_refused"},
    "CountsWhatHasExpired": {"test_what_has_expired_is_not_found"},
    "ExpiresOnlyWhatIsWritten": {"test_a_document_expires_while_nothing_is_written"},
    "GoesOnAfterTheEnd": {"test_what_has_expired_makes_room_for_a_new_one"},
    "DeletesNoDocument": {
        "test_a_document_is_deleted",
        "test_collections_are_apart",
        "test_what_is_put_soon_is_read_at_once",
    },
    "PrunesTheLast": {"test_pruning_keeps_the_last_changed_and_nothing_expired"},
    "KeepsDocumentsInMemory": {
        "test_leaving_writes_what_is_queued",
        "test_everything_is_there_the_next_time",
        "test_what_was_put_survives_a_kill",
    },
    **HISTORY,
}
"""Store to the contract tests that fail when called."""


def contract_of(store: str) -> str:
    spared = [] if store == "Good" else [test for test in LONG if test not in EXPECTED[store]]
    made = TEMPLATE.format(name=store, watched="watching.CallRecorder, " if store == "Good" else "")
    return made + "\n" + "".join(f"    {test} = None\n" for test in spared)


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Store to the tests that failed: of the good one all of the contract, of others, in a few processes at once, all
    that has to do with what they do otherwise.
    """
    first = tmp_path_factory.mktemp("contract")
    found = failures(first, ["Good"])
    stores = [store for store in EXPECTED if store != "Good"]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        parts = [stores[n::AT_ONCE] for n in range(AT_ONCE)]
        folders = [tmp_path_factory.mktemp("contract") for _ in parts]
        for folder in folders:
            shutil.copy(first / "called.json", folder)
            (folder / "conftest.py").write_text("from watching import pytest_collection_modifyitems")
        for one in threads.map(failures, folders, parts):
            found |= one
    return found


def failures(folder: Path, stores: list[str]) -> dict[str, set[str]]:
    """Store to the tests that failed, of some stores."""
    for module in MODULES:
        shutil.copy(Path(__file__).with_name(module), folder)
    (folder / "test_stores.py").write_text(HEAD + "".join(map(contract_of, stores)))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q --import-mode=importlib\npythonpath = .\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=run.xml", "test_stores.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=3600, check=False)
    wanted = pytest.ExitCode.TESTS_FAILED if any(map(EXPECTED.get, stores)) else pytest.ExitCode.OK
    assert done.returncode == wanted, done.stdout + done.stderr
    found = defaultdict(set)
    for case in ET.parse(folder / "run.xml").iter("testcase"):
        store = case.attrib["classname"].rpartition(".Test")[2]
        found[store] |= {case.attrib["name"].partition("[")[0]} if case.find("failure") is not None else set()
    return found


def test_every_store_was_tested(failed: dict[str, set[str]]) -> None:
    assert failed.keys() == EXPECTED.keys()


@pytest.mark.parametrize("store", EXPECTED)
def test_a_wrong_store_fails_exactly_the_tests_that_name_its_fault(store: str, failed: dict[str, set[str]]) -> None:
    assert failed[store] == EXPECTED[store]
