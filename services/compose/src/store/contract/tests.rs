//! Tests by subject.

#![expect(clippy::unchecked_time_subtraction, clippy::unwrap_used, reason = "tests")]

mod fixtures;
pub mod leases;
pub mod limits;
pub mod owners;
pub mod results;
pub mod rounds;
pub mod writes;

/// Lists each test once and defines the macro that generates them.
macro_rules! tests {
    ($d:tt $($module:ident: $($name:ident)*;)*) => {
        /// Generates a test per guarantee, for the store that a function of limits creates. `unless` names a function that
        /// returns whether the store is unavailable for tests.
        #[macro_export]
        macro_rules! contract {
            ($d fresh:path $d(, unless $d skipped:path)?) => {
                $($(
                    #[tokio::test]
                    async fn $name() {
                        $d(if $d skipped() {
                            return;
                        })?
                        $d crate::store::contract::tests::$module::$name($d fresh).await;
                    }
                )*)*
            };
        }
    };
}

tests! { $
    leases:
        new_run_is_leased_to_its_creator
        lease_ends_unless_renewed
        write_extends_lease
        later_lease_fences_earlier_one
        released_run_is_interrupted
        concurrent_replicas_get_one_lease
        expired_lease_writes_until_taken;
    writes:
        replica_reads_each_write
        rejected_write_changes_nothing
        finished_run_takes_no_writes
        result_is_kept_on_request_only
        ended_run_keeps_course_without_values
        identifier_is_used_once
        concurrent_writes_are_all_made
        concurrent_write_is_rejected_alone
        waits_for_write_of_replica;
    rounds:
        open_round_gives_lease_back
        round_is_consumed_once
        write_with_consumed_round_changes_nothing
        kept_answers_need_open_round;
    owners:
        run_is_absent_for_others
        owner_lists_newest_first
        cancelled_run_stops_its_holder
        cancel_keeps_earlier_result;
    limits:
        run_without_lease_expires
        ended_run_expires
        leased_run_does_not_expire
        owner_has_limited_runs
        owner_has_half_of_free_runs
        owner_has_half_of_free_bytes
        ended_runs_of_others_take_no_share
        ended_runs_are_evicted_for_new_ones
        last_ended_runs_of_all_remain
        bytes_are_limited
        output_that_is_dropped_frees_its_bytes
        iterations_are_not_counted_twice
        end_of_run_is_never_refused
        counts_runs_and_bytes;
    results:
        oldest_results_of_owner_are_dropped
        result_over_limit_drops_no_other
        largest_owner_loses_results_first
        error_of_run_stays_over_limit;
}
