//! Tests by kind of record.

#![expect(clippy::panic, clippy::unchecked_time_subtraction, clippy::unwrap_used, reason = "tests")]

pub mod clients;
pub mod codes;
mod fixtures;
pub mod model;
pub mod refresh_tokens;
pub mod revocations;
pub mod sessions;
pub mod users;

/// Lists each test once and defines the macro that generates them.
macro_rules! tests {
    ($d:tt $($module:ident: $($name:ident)*;)*) => {
        /// Generates a test per guarantee, for the store that a function of limits creates.
        /// `unless` names a function that returns whether the store is unavailable for tests.
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
        unused_new_client_expires_within_minutes
        known_client_expires_after_idle_lifetime
        registration_flood_evicts_new_clients_only
        full_store_evicts_idle_clients_only
        login_is_taken_once_by_concurrent_callers
        login_expires
        login_advances_once_for_concurrent_callers
        address_limit_evicts_its_oldest_login
        login_limit_evicts_oldest_login
        first_upstream_registration_stays_until_removed
        registration_lifetime_may_exceed_all_dates;
    codes:
        concurrent_redemptions_yield_the_code_once
        redemption_returns_the_presenting_client
        same_redeemer_may_repeat_without_revocation
        replay_by_other_client_stops_redemption
        replay_with_other_verifier_stops_redemption
        replay_after_grant_revokes_the_grant
        invalidated_code_ends_its_session
        unredeemed_code_starts_no_grant
        rejects_grant_of_other_session
        rejects_code_of_ended_session
        session_end_during_redemption_prevents_grant
        redeemed_code_outlives_expired_code
        revokes_grant_without_refresh_tokens
        limits_codes_and_grants;
    refresh_tokens:
        concurrent_rotations_yield_one_successor
        rotation_can_be_repeated_within_grace
        old_token_revokes_the_family
        token_with_used_successor_revokes_the_family
        accepts_token_newer_than_the_record
        idle_family_expires
        family_ends_despite_rotations
        session_outlives_last_access_token_of_grant
        revoked_family_is_gone_at_every_replica
        rotation_extends_the_client;
    model:
        refresh_family_matches_its_model;
    users:
        concurrent_logins_of_subject_yield_one_user
        similar_subjects_are_distinct_users
        separates_users_of_issuers_with_one_name
        reports_conflicting_issuer_of_provider_name
        login_updates_the_profile
        browser_has_its_user_and_consents
        consent_limit_evicts_oldest_consent
        removes_consents_per_client
        limits_users_and_browsers;
    sessions:
        replaces_tokens_by_version
        one_of_concurrent_replacements_succeeds
        removes_one_token_only
        lock_has_one_owner_at_a_time
        unreleased_lock_expires
        tokens_expire_with_unextended_session
        ended_session_rejects_refreshed_token
        lists_sessions_of_user_newest_first
        session_limit_revokes_first_to_expire
        limits_tokens_of_a_session
        finds_latest_token_across_sessions
        ending_a_session_revokes_its_grant
        counts_stored_records;
    revocations:
        stream_starts_with_recent_revocations
        other_replica_receives_each_revocation
        revocations_outlive_access_tokens
        revocations_never_evict_each_other;
}
