//! Tests by subject.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

pub mod ends;
pub mod entries;
mod fixtures;
pub mod losses;
pub mod records;
pub mod streams;
pub mod uses;

/// Lists each test once and defines the macro that generates them.
macro_rules! tests {
    ($d:tt $($module:ident: $($name:ident)*;)*) => {
        /// Generates a test per guarantee, for the storage that an asynchronous function creates. `unless` names a function that
        /// returns whether the storage is unavailable for tests.
        #[macro_export]
        macro_rules! contract {
            ($d fresh:path $d(, unless $d skipped:path)?) => {
                $($(
                    #[tokio::test]
                    async fn $name() {
                        $d(if $d skipped() {
                            return;
                        })?
                        $d crate::contract::tests::$module::$name($d fresh().await).await;
                    }
                )*)*
            };
        }
    };
}

tests! { $
    records:
        new_record_is_empty
        record_is_created_once
        replica_restores_each_value
        values_may_have_any_bytes
        missing_record_is_lost_for_each_replica
        write_creates_missing_record
        sessions_are_separate
        record_has_limited_size
        backend_has_limited_subscriptions
        subscription_is_kept_once;
    entries:
        entry_is_replaced_by_its_tag
        concurrent_replicas_store_one_entry
        removed_entry_leaves_others;
    ends:
        ended_session_rejects_each_step
        end_returns_entries_once
        each_replica_learns_of_end
        end_needs_no_record
        other_sessions_of_owner_go_on
        many_ends_end_earlier_sessions_of_owner
        anonymous_ends_keep_sessions_of_others
        concurrent_end_wins_over_writes;
    streams:
        holder_learns_of_changes
        last_holder_has_stream
        former_holder_learns_of_no_change
        other_replicas_learn_of_level;
    losses:
        each_replica_learns_of_lost_record
        merge_enters_what_is_missing
        merge_adds_subscriptions_of_lost_record_once
        merge_takes_stream_of_nobody_else;
    uses:
        left_record_is_removed
        left_record_stays_for_other_replica
        unused_record_is_left_by_last_replica
        touched_record_stays_for_other_replica
        touch_creates_no_record
        touch_takes_many_sessions
        announced_replicas_know_each_other
        messages_are_current;
}
