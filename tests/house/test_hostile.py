"""The tests of each kind of hostile case: attacks on a user's trust, accidents, servers and files that
lie."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRUST = """
children import from the user's folder
  house/test_outputs.py::test_modules_in_the_current_folder_are_not_imported
trust without place and code
  run/test_trust.py::test_a_changed_program_is_asked_about
  run/test_trust.py::test_a_lock_is_trusted_in_its_own_folder_alone
  run/test_trust.py::test_another_build_is_not_resumed
  analysis/test_thresholds.py::test_trials_of_an_earlier_build_are_in_no_number
  journeys/test_trust.py::test_trials_of_another_build_are_left_out
a lock says what a study may not
  run/test_trust.py::test_a_lock_may_say_what_a_study_may
  run/test_trust.py::test_the_agent_refuses_what_no_study_may_set
traffic reconfigures a server
  lab/test_permits.py::test_redis_is_not_reconfigured_by_traffic
  lab/test_permits.py::test_mariadb_refuses_each_statement_that_administrates
  lab/test_permits.py::test_no_method_changes_what_nginx_and_varnish_serve
an output follows a link
  report/test_outputs.py::test_a_link_is_replaced_and_not_followed
  house/test_outputs.py::test_one_module_writes_outputs
an ansible.cfg of anybody
  fleet/test_ansible_config.py::test_who_could_have_written_it
a study reads the environment
  run/test_trust.py::test_what_a_study_reads_of_the_environment_is_asked_for_once
a server repeats a secret
  run/test_trust.py::test_a_secret_is_kept_out_of_the_record
a secret follows a redirect
  journeys/test_load.py::test_a_secret_follows_no_redirect_to_another_host
  drive/test_shares.py::test_a_secret_is_distinguished_from_other_texts
pages of a cluster
  host/test_cluster_pages.py::test_scheduler_and_worker_listen_for_each_other_alone
requests write to the user's server
  study/test_writes.py::test_what_writes_to_a_server_of_the_users_is_named
loopback by a name server
  drive/test_targets.py::test_loopback_needs_no_name_server
links, modes, windows and columns
  run/test_trust.py::test_a_study_that_is_a_link_elsewhere_is_not_shown
  run/test_trust.py::test_runs_go_through_a_link_that_was_named_alone
  run/test_trust.py::test_a_window_without_end_is_damage
  run/test_trust.py::test_a_pack_says_which_columns_may_be_secret
  journeys/test_trust.py::test_nobody_else_may_write_in_a_run
"""
ACCIDENTS = """
an old server answers
  lab/test_answering.py::test_a_worker_that_left_its_session_never_answers_for_the_next_build
  lab/test_answering.py::test_who_ran_before_is_refused
empty control groups
  lab/test_groups.py::test_no_folder_stays_of_a_service_with_limits_that_its_machine_has_not
edited findings
  store/test_verify.py::test_edited_findings_are_regenerated_and_reported
  store/test_verify.py::test_findings_are_never_believed_unseen
damage behind damage
  store/test_verify.py::test_one_damage_hides_no_other
a sealed trial or the journal is gone
  store/test_verify.py::test_a_sealed_trial_that_is_gone_is_not_measured_again
another build after resume
  run/test_trust.py::test_another_build_is_not_resumed
low limits
  cli/test_start_limits.py::test_a_limit_that_is_too_low_is_one_message
  cli/test_start_limits.py::test_processes_of_the_user_count_with_their_threads
deaf code
  cli/test_start_limits.py::test_a_second_signal_ends_what_python_does_not_hear
full memory
  cli/test_mistyped.py::test_full_memory_is_reported
  store/test_sql.py::test_a_query_has_half_of_the_free_memory
the wrong resource is named
  run/test_messages.py::test_a_generator_that_cannot_write_its_tables_names_them
  run/test_messages.py::test_a_sampler_that_cannot_write_says_so_when_it_is_asked
  run/test_messages.py::test_a_link_that_is_cut_is_not_its_service
  run/test_messages.py::test_what_cannot_be_written_there_is_the_users_place
  run/test_messages.py::test_a_log_that_nobody_keeps_is_not_named
  cli/test_streams.py::test_a_file_size_limit_is_no_defect_whoever_writes
a load is made again
  report/test_live.py::test_a_load_that_is_made_again_is_reported
an orphan that wiped its environment
  host/test_journal.py::test_an_orphan_without_environment_is_named_to_a_user
a damaged report
  store/test_verify.py::test_a_report_that_is_not_as_it_was_written_is_named
"""
SERVERS = """
readiness that drips
  host/test_bounded.py::test_a_whole_exchange_has_one_deadline_and_a_limit
readiness without end
  host/test_bounded.py::test_a_status_does_not_wait_for_its_body
monitors that drip or never end
  host/test_bounded.py::test_a_monitors_page_has_one_deadline_and_a_limit
  host/test_bounded.py::test_a_monitors_line_has_one_deadline_and_a_limit
  host/test_bounded.py::test_a_monitor_that_fails_loses_its_own_readings_alone
memory by a cell's value
  store/test_foreign.py::test_memory_is_bounded_by_rows
memory by what is decoded
  study/test_executors.py::test_a_parquet_file_is_bounded_by_what_it_decodes_to
  store/test_foreign_hostile.py::test_long_names_are_bounded_together
odd encodings and damaged gzip
  store/test_foreign_hostile.py::test_it_is_refused_with_its_line
  store/test_foreign_hostile.py::test_a_damaged_gzip_file_is_refused
decimal commas
  cli/test_words.py::test_a_marked_number_is_refused_with_its_readings
  store/test_decimals.py::test_what_fits_both_is_asked_for
queries without end
  store/test_sql.py::test_it_ends_at_once
  store/test_sql.py::test_an_answer_of_too_many_rows_is_refused
durations of nothing
  study/test_quick.py::test_a_contradiction_is_one_sentence
redirects to nowhere
  journeys/test_silent.py::test_a_server_whose_redirects_lead_nowhere_has_answered
HTTP/2 that ends at work
  engine/engine/tests/wire/http2_hostile.rs::streams_of_a_connection_that_ends_at_work_are_not_stale
  engine/engine/tests/wire/http2_hostile.rs::a_head_that_comes_in_part_is_what_the_timeout_cut
users and times of no load
  store/test_foreign_hostile.py::test_it_is_refused_with_its_line
certificates without end
  engine/engine/tests/hostile/main.rs::every_fault_of_tls_has_its_name
responses that are malformed throughout
  analysis/test_load.py::test_a_server_failed_where_requests_could_be_sent_and_else_none_was_measured
  engine/engine/tests/hostile/main.rs::every_fault_of_http_has_its_name
replies that are none
  engine/engine/src/exchange/redis.rs::what_is_no_reply_is_told
  engine/engine/tests/wire/memcached.rs::what_goes_wrong_has_its_name
plans of weeks, odd redirects, a hanging sampler
  run/test_before.py::test_a_measurement_of_weeks_is_not_asked_to_be_longer
  engine/engine/src/redirect.rs::absolute_locations_name_an_origin
  journeys/test_load.py::test_ctrl_c_waits_for_no_sampler_that_hangs
"""


@pytest.mark.parametrize("kind", re.findall(r"^\S.*(?:\n  .+)+", TRUST + ACCIDENTS + SERVERS, re.MULTILINE))
def test_each_kind_of_hostile_case_has_its_tests(kind: str) -> None:
    _, *places = kind.splitlines()
    for place in places:
        file, _, name = place.strip().partition("::")
        if file.endswith(".rs"):
            assert re.search(rf"#\[test\]\n *fn {name}\(", (ROOT / file).read_text(encoding="utf-8")), place
        else:
            tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
            assert name in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}, place
