//! The tests, one file per kind of record.

#![expect(clippy::panic, clippy::unchecked_time_subtraction, clippy::unwrap_used, reason = "tests")]

pub mod clients;
pub mod codes;
pub mod families;
mod given;
pub mod model;
pub mod people;
pub mod revocations;
pub mod sessions;

/// Names each test once, and makes the macro that runs them.
macro_rules! tests {
    ($d:tt $($module:ident: $($name:ident)*;)*) => {
        /// A test per sentence of the contract, against what a function of limits makes; `unless` another one
        /// says that there is nothing to test with.
        #[macro_export]
        macro_rules! contract {
            ($d fresh:path $d(, unless $d skipped:path)?) => {
                $($(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $name() {
                        $d(if $d skipped() {
                            return;
                        })?
                        $d crate::contract::tests::$module::$name($d fresh).await;
                    }
                )*)*
            };
        }
    };
}

tests! { $
    clients:
        a_registered_client_that_nobody_uses_goes_within_minutes
        a_client_that_redeemed_a_code_is_found_until_nobody_used_it_for_its_lifetime
        a_flood_of_registrations_evicts_its_own_kind
        when_full_a_client_at_rest_makes_room_and_no_other
        a_login_is_taken_once_however_many_ask
        a_login_that_waited_too_long_is_not_there
        a_login_advances_once_however_many_ask
        the_oldest_login_of_an_address_makes_room
        logins_are_capped_together_and_the_oldest_makes_room
        the_first_registration_upstream_stays_until_it_is_dropped
        a_registration_may_outlive_all_dates;
    codes:
        a_code_redeemed_a_hundred_times_in_parallel_is_fresh_once
        a_code_comes_with_the_client_that_presents_it
        who_redeems_a_code_may_present_it_again_without_harm
        a_replay_by_another_stops_the_redeeming
        a_replay_by_another_verifier_stops_the_redeeming
        a_replay_after_the_grant_revokes_what_the_code_gave
        a_burnt_code_gives_nothing_and_ends_its_session
        a_code_that_nobody_took_starts_no_grant
        a_grant_of_another_session_is_not_started
        a_code_of_an_ended_session_is_not_kept
        a_session_that_ends_while_its_code_is_redeemed_gives_no_grant
        a_code_that_expired_is_unknown_and_a_taken_one_is_known_longer
        a_grant_without_refresh_tokens_can_be_revoked
        codes_and_grants_are_capped;
    families:
        five_hundred_rotations_of_one_token_make_one_new_member
        a_lost_answer_can_be_had_again_within_the_grace
        a_token_of_the_past_revokes_the_family
        a_token_whose_successor_was_used_revokes_the_family
        a_token_newer_than_the_store_remembers_is_good
        a_family_that_lies_idle_ends
        a_family_ends_whatever_is_done
        a_session_outlives_the_last_access_token_of_its_grant
        a_revoked_family_is_gone_for_every_replica
        a_use_renews_the_client;
    model:
        the_refresh_family_does_what_its_model_does;
    people:
        a_subject_is_one_person_however_many_ask
        subjects_that_look_alike_are_apart
        separates_people_of_issuers_with_one_provider_name
        reports_other_issuer_of_known_provider_name
        a_profile_follows_its_provider
        a_browser_knows_who_uses_it_and_their_consents
        the_oldest_consent_makes_room
        consents_are_forgotten_per_client
        people_and_browsers_are_capped;
    sessions:
        rows_are_counted_and_replaced_by_version
        of_many_that_replace_a_version_one_does
        a_row_is_dropped_alone
        a_lock_is_one_replicas_at_a_time
        a_lock_nobody_gave_back_expires
        rows_go_with_their_session_unless_it_is_kept
        a_session_that_ended_takes_no_refreshed_row
        sessions_of_a_person_are_listed_newest_first
        the_session_that_ends_first_makes_room_and_is_revoked
        rows_of_a_session_are_capped
        the_newest_row_of_a_person_is_found_across_sessions
        dropping_a_session_revokes_its_grant
        what_is_stored_is_counted;
    revocations:
        what_was_revoked_lately_is_told_first
        another_replica_hears_of_each_revocation
        a_revocation_is_told_for_as_long_as_access_tokens_last
        no_number_of_revocations_makes_one_forgotten;
}
