"""Kinds of store: each test that opens one runs on all kinds that need no server; what does not is listed here.

A test asks for the fixture `url`, the URL of one empty store, or for `new_url`, which makes several. Only the URL
differs: where a test has an expectation of its own for a kind, it asks for `kind_of_store`.
"""

from hashlib import blake2b
from uuid import uuid4

from oneread import connect
from oneread.engines import memory, one_row_memory
from tests.rooms import RoomOfKeys

KINDS = ("memory", "lmdb", "row")
"""Two that change all rows of a commit at once, and one that changes a row at a time, as HBase and Bigtable do."""

SERVERS = ("bigtable", "hbase")
ON_SERVERS = {
    "docs/test_which_store.py",
    "unit/console/test_acting.py",
    "unit/console/test_erasures.py",
    "unit/console/test_deleted.py",
    "unit/console/test_member.py",
    "unit/console/test_personal.py",
    "unit/console/test_forms.py",
    "unit/console/test_pages.py",
    "unit/copying/test_copies_on_servers.py",
    "unit/counters/test_cache_first.py",
    "unit/database/test_continued_erasures.py",
    "unit/database/test_costs_of_former_generations.py",
    "unit/database/test_edited_marks.py",
    "unit/database/test_edited_under_load.py",
    "unit/database/test_expiring_groups.py",
    "unit/database/test_erasing.py",
    "unit/database/test_feeds_by_percent.py",
    "unit/database/test_launched_views.py",
    "unit/database/test_launches.py",
    "unit/database/test_logged_models.py",
    "unit/database/test_places.py",
    "unit/database/test_places_of_deleted.py",
    "unit/database/test_references.py",
    "unit/database/test_references_in_keys.py",
    "unit/database/test_replaced_views.py",
    "unit/database/test_scrubbed_rows.py",
    "unit/database/test_set_aside.py",
    "unit/database/test_swept_while_building.py",
    "unit/database/test_task_turns.py",
    "unit/database/test_typed_patches.py",
    "unit/database/test_undeclared_views.py",
    "unit/database/test_variants.py",
    "unit/database/test_writes_by_percent.py",
    "unit/derivations/test_holds.py",
    "unit/derivations/test_key_arguments.py",
    "unit/derivations/test_last_values.py",
    "unit/derivations/test_number_conditions.py",
    "unit/derivations/test_rollups.py",
    "unit/derivations/test_selections.py",
    "unit/evolution/test_keys_that_refer.py",
    "unit/heat/test_causes.py",
    "unit/heat/test_doctor.py",
    "unit/heat/test_doctor_copies.py",
    "unit/heat/test_recorder.py",
    "unit/jobs/test_jobs.py",
    "unit/verify/test_feed_member.py",
    "unit/web/test_breaking_deployment.py",
}
"""What runs on these as well, but for what is left out on "row": a request takes them a millisecond or more."""

REQUESTS = "counts or names what is asked of a store whose commits span rows; tests/unit/costs counts for the others"
TRANSACTIONS = "one transaction changes entities of no group, or a counter, which such a store refuses: which-store.md"
BATCHES = "`save_all` and a batch of `bulk` are one commit: which-store.md says what they are elsewhere"
CONSTRAINTS = "a total with a constraint is refused when the schema is declared: which-store.md"
ROWS = "reads or changes rows behind the library's back, and they look otherwise on such a store"
PROCESSES = "is about files of LMDB, or a process of its own opens the store"
PARTS = "is about a part that only stores have whose commits span rows"

_LEFT_OUT = {
    ("lmdb row", "is about stores in memory"): """
        unit/database/test_scrubbed_rows.py test_a_store_in_memory_keeps_nothing
    """,
    ("row", REQUESTS): """
        unit/database/test_costs.py
        unit/database/test_deleted_with_source.py test_a_change_that_copies_show_does_not_visit_those_who_take_nothing
            test_a_change_of_a_source_visits_no_holder_that_takes_nothing test_what_a_delete_costs
        unit/database/test_expiry_sweep.py test_bounds_hold_for_what_expires
            test_reads_cost_what_they_cost_without_a_ttl test_an_entity_that_expires_costs_one_row_more
            test_a_sweep_costs_a_scan_and_a_commit_for_each_batch
        unit/database/test_explaining.py test_what_is_read_with_a_save_is_named test_known_holders_make_a_rename_exact
            test_counters_are_explained_without_a_request
        unit/database/test_freshness.py test_a_page_includes_ones_own_publish
        unit/database/test_log_sweep.py test_what_a_sweep_costs
            test_a_worker_sweeps_logs_where_views_are_watched_and_asks_nothing_elsewhere
        unit/database/test_marking.py test_costs
        unit/database/test_marking_large_groups.py
        unit/database/test_own_version.py test_rows_that_follow_are_read_in_the_one_request_that_compares
        unit/database/test_sequences.py test_costs_are_exact test_several_children_read_their_rows_together
            test_several_children_of_several_groups_and_models_read_their_rows_together
            test_a_transaction_numbers_several_with_one_read_at_its_commit test_bulk_reads_the_rows_of_a_batch_together
        unit/database/test_variants.py test_a_lookup_of_a_variant_costs_nothing_more
        unit/database/test_watching.py test_what_a_write_costs_where_no_view_is_watched_and_where_one_is
            test_what_following_costs test_watchers_of_a_process_share_a_look
            test_a_transaction_is_one_entry_and_a_large_one_several
        unit/database/test_worker.py test_the_worker_sweeps_the_tokens_of_counters
        unit/costs/test_budgets.py test_a_transaction_is_counted_with_its_body
        unit/counters/test_counters.py test_what_each_verb_asks test_reads_ask_for_a_row_for_each_shard_that_exists
            test_what_a_delete_asks
        unit/evolution/test_building_feeds.py test_a_feed_that_can_be_read_follows_while_another_is_built
        unit/evolution/test_rolling.py test_reads_the_schema_row_once
        unit/feeds/test_following.py test_publishing_to_a_hundred_members test_deleting_an_item_of_a_hundred_members
            test_joining test_leaving test_a_page_is_one_range_read
        unit/web/test_streams.py test_a_stream_begins_behind_its_cursor_and_ends_by_itself
            test_a_browser_that_connects_again_continues_behind_the_last_event
            test_what_is_shown_of_a_change_is_the_programs_choice test_large_changes_come_in_several_events
            test_entities_of_a_logged_model_are_streamed
        unit/derivations/test_changes.py test_a_patch_decodes_its_row_and_applies_its_function_once
        unit/derivations/test_counter_fields.py test_what_each_call_asks test_copies_and_adds_stay_below_bounds
        unit/derivations/test_extrema.py test_a_commit_writes_a_row_and_reads_the_first_ones_only_for_an_index
        unit/derivations/test_group_indexes.py test_a_commit_without_such_an_index_costs_what_it_did
            test_an_index_of_sums_costs_its_rows_and_no_request test_an_extremum_costs_one_scan_for_each_changed_group
            test_a_batch_writes_one_row_for_each_group
        unit/derivations/test_rollups.py test_a_vote_takes_nine_requests_for_three_levels
            test_a_child_without_a_parent_costs_one_read_and_leaves_it_alone
            test_a_batch_of_children_writes_what_shows_them_once
        unit/derivations/test_selections.py test_a_change_visits_only_the_holders_that_show_it
            test_one_selection_is_one_scan_as_ever test_bounds_know_selections
        unit/transfer/test_bulk.py test_costs_what_save_all_costs test_costs_one_row_more_each_batch
            test_costs_a_few_transactions_and_never_one_for_each_of_the_others
            test_costs_the_same_however_many_are_refused
    """,
    ("row", TRANSACTIONS): """
        unit/database/test_attempts.py test_reads_outside_are_compared_at_the_commit
        unit/database/test_deleted_with_source.py test_a_transaction_sees_what_will_go
        unit/database/test_marking.py test_a_transaction_marks
        unit/database/test_own_version.py test_a_transaction_is_run_again_for_a_holder_that_it_touched
            test_a_transaction_is_run_again_when_a_copy_that_it_read_has_followed
            test_a_transaction_is_run_again_for_a_new_source_that_it_took_values_from
            test_the_version_is_that_of_the_last_own_write_in_any_history
        unit/database/test_portable_schemas.py test_it_is_a_property_of_the_program
        unit/database/test_references.py test_the_body_of_a_transaction_takes_them
        unit/database/test_refused_in_transactions.py
        unit/database/test_saved_together.py
        unit/feeds/test_following.py test_everything_in_one_transaction
        unit/database/test_sequences.py test_a_transaction_sees_its_numbers
            test_a_transaction_that_reads_two_moments_runs_again
        unit/database/test_transaction.py test_a_transaction_alone_sees_its_writes
            test_a_refusal_that_the_body_handles_is_not_part_of_the_transaction
            test_a_transaction_that_only_reads_sees_one_state_of_everything
            test_transactions_of_several_threads_are_run_again_until_they_fit
        unit/database/test_transaction_counters.py
        unit/derivations/test_group_indexes.py test_a_transaction_that_fails_changes_no_row
        unit/derivations/test_rollups.py test_two_transactions_conflict_over_a_total_only_if_one_reads_it
            test_a_transaction_sees_the_totals_of_its_own_writes
    """,
    ("row", BATCHES): """
        unit/transfer/test_bulk.py test_is_one_transaction_however_many_changes
            test_ends_the_work_and_what_was_given_before_it_is_stored
            test_refuses_together_what_lies_between_two_positions test_is_one_programs_at_a_time
        unit/database/test_deleted_with_source.py test_what_is_made_again_in_its_batch_deletes_no_holder
        unit/database/test_sequences.py test_a_batch_takes_numbers_in_its_order_or_none
        unit/feeds/test_following.py test_a_commit_of_many_changes_leaves_the_rest_to_tasks
        unit/derivations/test_rollups.py test_a_batch_shows_each_entity_as_it_is_at_the_end
    """,
    ("row", CONSTRAINTS): """
        unit/derivations/test_rollups.py test_a_total_that_breaks_its_constraint_refuses_the_commit_that_caused_it
            test_holders_whose_change_a_total_refuses_are_set_aside
    """,
    ("row", ROWS): """
        unit/counters/test_counters.py test_expired_windows_are_removed_by_later_adds
        unit/counters/test_rows.py test_the_bytes_of_every_row test_a_damaged_counter_is_refused_not_guessed
        cli/test_failures.py test_a_torn_schema_row_is_code_3
        cli/test_tasks.py test_nothing_waits_in_a_store_at_rest test_is_listed_with_its_source_and_error
            test_is_tried_again_on_request
            test_a_task_of_a_dead_worker_is_waited_for_and_taken_over
            test_a_task_that_another_worker_has_begun_is_shown_with_it test_a_task_that_cannot_be_read_is_listed
        cli/test_verify.py test_a_view_alone_may_be_verified test_every_fault_is_written_to_a_new_file
            test_faults_are_counted_shown_and_code_1 test_faults_as_json_are_bounded_and_counted
            test_nothing_is_dropped_without_a_yes test_repair_mends_and_a_second_verify_is_clean
            test_what_cannot_be_mended_is_dropped_and_the_store_is_clean test_what_cannot_be_mended_is_said_in_words
            test_a_timeout_is_reported_with_how_to_resume
            test_a_verification_that_is_stopped_says_its_cursor_as_json test_repair_of_what_took_too_long_is_code_1
            test_what_cannot_be_mended_is_left_and_code_1
        unit/transfer/test_bulk.py test_is_found_among_values_that_are_taken test_that_is_damaged_says_so
        unit/database/test_deleted_with_source.py test_repair_deletes_a_holder_whose_task_was_lost
        unit/database/test_log_sweep.py test_a_schema_that_changes_meanwhile_ends_the_removal_of_unknown_logs
        unit/database/test_own_version.py test_a_copy_that_follows_changes_the_rows_version_alone
            test_a_document_stamped_later_than_its_row_is_found_and_mended test_a_repair_keeps_versions
        unit/database/test_sequences.py test_a_count_behind_its_children_refuses_to_number
            test_a_count_that_cannot_be_read_and_has_no_children_starts_again
        unit/database/test_spread.py test_an_entity_in_another_range_is_found_and_mended
        unit/database/test_survey.py
        unit/evolution/test_added_ttl.py test_verify_and_repair_see_damaged_rows_of_what_expires
        unit/feeds/test_parts.py test_repair_makes_what_an_expired_membership_shows
        unit/database/test_watching.py test_a_repair_is_logged
        unit/database/test_worker.py test_a_task_that_cannot_be_read_does_not_hold_up_those_behind_it
        unit/derivations/test_counter_fields.py
            test_verify_finds_what_is_neither_marked_nor_shown_and_repair_mends_it
            test_a_repair_makes_adds_mark_the_counter_again test_a_counter_that_is_no_longer_shown_is_no_longer_marked
        unit/derivations/test_new_kind_of_view.py test_verify_finds_a_wrong_row_and_repair_mends_it
        unit/derivations/test_new_kinds_with_keyspaces.py
        unit/derivations/test_selections.py test_a_holder_with_two_selections_of_one_source_follows_once
            test_a_task_visits_only_the_holders_that_wait test_a_task_that_waits_is_not_forgotten_for_one_of_others
            test_a_stale_copy_waits_for_a_task_only_if_the_task_is_for_it
    """,
    ("row", PARTS): """
        unit/counters/test_copying.py test_two_workers_do_not_copy_twice
        unit/database/test_pages.py test_the_fast_path_of_page_answers_as_the_plan
        unit/database/test_sequences.py test_the_count_outlives_the_root_and_its_purge
        unit/database/test_unfinished_commits.py test_where_transactions_span_rows_there_are_none
        unit/database/test_waiting.py test_a_store_that_spans_rows_has_nothing_to_leave
    """,
    ("row", "root rows of deleted entities stay, and what has any is not dropped: decisions/0076"): """
        unit/evolution/test_changed_feeds.py test_marks_are_taken_away_when_they_are_deleted
        unit/evolution/test_migrate.py test_a_model_once_it_is_empty test_again_of_a_model_is_nothing_to_do
            test_an_entity_that_comes_to_be_while_its_model_is_dropped_is_kept_and_the_drop_refused
            test_a_model_without_living_entities_is_dropped_with_what_is_left_of_deleted_ones
    """,
    (
        "row",
        "takes a minute, as many programs die in turn; test_building_changed_feeds.py",
    ): """
        unit/evolution/test_building_feeds.py test_a_backfill_is_killed_again_and_again_beside_live_writes
    """,
    ("row", "its world does tasks as stores do whose commits span rows; properties/test_row_large_groups.py"): """
        unit/feeds/test_counting.py
        unit/feeds/test_merging.py
    """,
    ("row", "versions that the entities of two stores get by themselves differ"): """
        unit/database/test_expiry_sweep.py test_a_dump_holds_what_has_expired_as_it_is_stored
    """,
    ("lmdb", "LMDB says how many pages a table has, not the bytes of its rows"): """
        unit/database/test_survey.py test_memory_says_bytes_of_keys_columns_and_values
    """,
    ("memory row", "another process writes, which does not see a store in memory"): """
        unit/transfer/test_bulk.py test_a_killed_import_resumes_and_does_every_line_once
    """,
    ("memory lmdb", "is about what only stores do that change one row at a time"): """
        unit/database/test_portable_schemas.py
            test_a_store_that_changes_one_row_at_a_time_refuses_it_under_any_schema
        unit/database/test_drains_after_refusals.py
            test_a_drain_waits_for_a_commit_that_shares_the_marker_of_a_refused_write
        unit/counters/test_counters_approximate.py test_an_add_is_one_request
            test_one_that_entities_began_to_show_is_added_to_exactly_and_copied
        unit/evolution/test_building_totals.py test_what_older_programs_write_until_their_lease_is_over_counts_too
    """,
    ("memory row", PROCESSES): """
        cli/test_backup.py
        cli/test_bars.py test_a_terminal_sees_a_bar_and_stdout_does_not
            test_colours_are_left_out_where_that_is_asked_for test_json_and_quiet_see_no_bar
        cli/test_copy.py test_a_killed_copy_is_resumed
        cli/test_jobs.py test_ctrl_c_ends_a_worker_of_jobs_in_order
        cli/test_sweep.py test_a_worker_sweeps_as_often_as_it_is_asked_to
        cli/test_dump_and_load.py test_a_load_that_was_stopped_says_how_to_go_on
            test_what_is_written_is_for_its_owner_alone test_a_killed_load_loads_or_rejects_each_record_once
        cli/test_failures.py test_ctrl_c_is_code_130 test_ctrl_c_is_not_lost_in_a_finalizer
            test_a_reader_that_stops_is_not_a_failure
            test_code_that_fails_in_the_shell_is_shown_without_this_programs_frames
            test_ctrl_c_that_arrives_twice_counts_once test_ctrl_c_again_ends_what_the_first_one_waits_for
            test_a_command_whose_stream_is_closed_succeeds test_a_store_that_is_damaged_is_code_3
            test_what_a_full_disk_does_not_take_is_code_3_or_that_of_its_failure
            test_a_pipe_that_is_closed_early_does_not_change_the_exit_code
            test_a_write_in_a_shell_for_reading_names_the_option
            test_how_urls_are_written_is_hinted_where_that_is_at_fault
        cli/test_options.py test_who_only_looks_does_not_write test_who_only_looks_may_say_so_in_the_url
        cli/test_stat.py test_a_person_sees_tables_parts_and_facts test_the_engines_counts_are_the_sums_of_the_parts
            test_the_room_of_other_tenants_is_not_called_free
        cli/test_tasks.py test_a_worker_does_the_tasks_until_it_is_stopped
            test_a_worker_that_waits_for_another_stops_in_order test_ctrl_c_stops_a_worker_in_order
            test_a_shell_asks_until_there_is_no_more test_a_quiet_shell_says_nothing_first
            test_a_shell_only_reads_without_the_option_to_write test_tasks_are_done_here_and_now
            test_a_worker_that_runs_once_ends_when_nothing_is_left
        cli/test_terminal.py
        cli/test_verify.py test_on_a_terminal_it_is_shown_and_asked_for
    """,
    ("memory row", "the command line opens stores in memory for writing, too: no other process has them"): """
        cli/test_backfill.py test_who_mends_brings_no_new_schema_in
    """,
    ("row", "removed rows stay until a purge, and those that are passed over count: one-row.md"): """
        unit/database/test_marking.py test_items_that_expired_and_were_not_swept_are_not_counted
        unit/derivations/test_group_indexes.py test_explain_and_survey_and_dump
    """,
    ("row", "what cannot show a number is set aside, and the commit that makes it is made: rollups.md"): """
        unit/derivations/test_group_indexes.py test_numbers_that_cannot_be_in_a_key_refuse_the_commit
            test_holders_whose_change_cannot_be_listed_are_set_aside
        unit/evolution/test_building_group_indexes.py test_a_group_that_cannot_be_listed_is_refused_by_name
    """,
}


def _places(several):
    """The files of a list, and their functions: a word with a slash is a file, the words behind it are functions."""
    path, names = "", []
    for word in [*several.split(), "/"]:
        if "/" not in word:
            names.append(word)
            continue
        yield from [f"{path}::{name}" for name in names] or [path] * bool(path)
        path, names = word, []


LEFT_OUT = {place: left for left, several in _LEFT_OUT.items() for place in _places(several)}
"""Of a folder, a file or one function of it, below tests: the kinds of store on which it does not run, and why."""


_ONE_KIND = "is about what one kind of store does"
_OTHERS = "opens the stores that it is about: a further engine, a server, a file or a process each"

BY_HAND = {
    **dict.fromkeys(
        ("benchmarks", "conformance", "failures", "golden", "power", "simulation", "soak", "tidy", "typing"), _OTHERS
    ),
    **dict.fromkeys(("schemas", "unit/engines", "unit/plans", "unit/store", "unit/testing"), _OTHERS),
    **dict.fromkeys(("unit/test_connect.py", "unit/test_loaded_modules.py", "unit/test_named_memory.py"), _OTHERS),
    **dict.fromkeys(("docs", "examples"), "the pages and the sites say on which stores they run"),
    "properties": "each names the stores that it holds against the oracle; tests/schemas holds all of them",
    "unit/costs": "counts what one kind of store is asked; tests/schemas holds the bounds of each verb on all of them",
    "unit/transactions": "the commit of one kind of store each",
    "unit/verify": "plants faults in rows, which look otherwise on each kind: damaged.py, damaged_rows.py, hands.py",
    **dict.fromkeys(
        (
            "unit/database/test_attempts.py", "unit/database/test_cached_reads.py",
            "unit/database/test_fresh_reads.py", "unit/heat/test_recorder.py",
            "unit/heat/test_hot_spots.py", "unit/database/test_one_row_refusals.py",
            "unit/database/test_places_that_change.py",
            "unit/database/test_purge.py", "unit/database/test_recoverer.py", "unit/database/test_repeated_checks.py",
            "unit/database/test_unfinished_commits.py", "unit/database/test_waiting.py",
            "unit/database/test_watching.py", "unit/feeds/test_cell_crossing.py", "unit/feeds/test_entry_ending.py",
            "unit/feeds/test_cell_following.py", "unit/counters/test_counters_approximate.py::Several",
            "unit/counters/test_compiled_adds.py", "unit/counters/test_shard_copying.py",
            "unit/counters/test_shard_counters.py", "unit/counters/test_shard_counters_lost.py",
            "unit/counters/test_sweep.py",
            "unit/transfer/test_single_bulk.py", "unit/transfer/test_bulk.py",
            "unit/copying/test_copies.py::test_stores_of_one_folder_are_copied_into_each_other",
            "unit/copying/test_moves.py", "unit/copying/test_moves_crash.py", "unit/copying/test_moves_on_servers.py",
            "unit/copying/test_next.py", "unit/copying/interleaved.py", "unit/derivations/test_core_programs.py",
        ),
        _ONE_KIND,
    ),
    **dict.fromkeys(
        ("unit/web/applications.py", "unit/web/posts.py", "unit/web/questions.py"), "the store of whoever gives no URL"
    ),
    "cli/test_sweep.py": "an empty store of the kind that the fixtures name",
    "cli/conftest.py": "a store in a folder that tests name, beside those of other kinds",
    **dict.fromkeys(
        (
            "cli/test_on_one_row.py", "cli/test_verify_totals_of_one_row.py", "cli/test_options.py",
            "cli/test_cost.py", "cli/test_heat.py", "cli/test_stat.py::test_a_store_that_lives_in_memory_is_counted",
        ),
        _ONE_KIND,
    ),
    **dict.fromkeys(
        (
            "cli/test_documents.py", "cli/test_interrupted_start.py", "cli/test_streams.py",
            "cli/test_copy.py::test_what_is_refused_is_code_2_and_says_what_to_do",
            "cli/test_migrate.py::test_a_store_that_is_not_there_is_not_made",
            "cli/test_console.py::test_a_schema_that_the_store_does_not_have_shows_its_plan",
        ),
        "a process of its own, or a folder that is not there",
    ),
    "unit/web/test_bodies.py": "bodies are refused before a store is asked",
    "unit/web/test_web.py::test_a_database_that_cannot_be_opened_leaves_none_open": "the second one has no folder",
    "unit/web/test_web.py::test_a_lifespan_without_a_database_is_refused": "a URL is no database",
    "unit/web/test_streams.py::test_a_real_server_streams_and_stops": "a server in a process of its own",
    "unit/evolution/test_backfill.py": "counts, kills and damages requests; its programs share an engine in memory",
    "unit/evolution/test_leased_fence.py": "is about the leases that only stores have which change one row at a time",
    "unit/models/test_references_as_json.py::record_form": "only the catalog of a schema is asked for",
    "unit/database/test_printing.py": "the engine of a URL is in what is printed",
    "unit/database/test_cursors.py": "only the key for cursors of an engine is asked for",
    "unit/database/test_set_aside.py": "two tests are of LMDB, which has a worker by default",
    "unit/database/test_together.py": "runs on a store with latency, too, which sends several requests ahead",
    "unit/derivations/test_conditions_that_never_hold.py": "a save is asked only what it refuses by itself",
    "unit/derivations/test_declaring_is_linear.py": "counts what declaring and opening cost by the number of names",
}  # fmt: skip
"""What opens its stores itself, and why."""


def make_url(kind, folder):
    """The URL of a new, empty store, which stays when it is closed."""
    name = uuid4().hex
    return {
        "memory": f"memory://{name}",
        "lmdb": f"lmdb://{folder}/{name}?durability=none",
        "row": f"memory://{name}?span=row",
        "bigtable": f"bigtable://test/i{name}",
        "hbase": f"hbase://{name}",
    }[kind]


def forget(url):
    """Lets the rows of a store in memory go."""
    name = url.removeprefix("memory://").partition("?")[0]
    memory.forget(name)
    one_row_memory.forget(name)


def kinds_of(path, function):
    """The kinds on which a test runs: all that no entry of its folders, its file or itself leaves out."""
    places = ["", *(each.as_posix() for each in path.parents), path.as_posix(), f"{path.as_posix()}::{function}"]
    left = {kind for place in places for kind in LEFT_OUT.get(place, ("", ""))[0].split()}
    servers = SERVERS if path.as_posix() in ON_SERVERS and "row" not in left else ()
    return [*(kind for kind in KINDS if kind not in left), *servers]


def open_rooms(patch, engine):
    """Lets `hbase://NAME` open the room of a name in the tables of one engine: making tables takes HBase seconds."""

    def open_room(name, _options, _timeout):
        return RoomOfKeys(engine, blake2b(name.encode(), digest_size=8).digest()), True

    patch.setitem(connect.__globals__["_OPENERS"], "hbase", open_room)
