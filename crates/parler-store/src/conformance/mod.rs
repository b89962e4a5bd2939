//! The conformance suite: one text that every store passes.
//!
//! A store's tests bring a [`Harness`] and call [`crate::conformance!`]`(harness)`, which makes
//! one test of each case in [`ALL`]. A case is told from outside, through the trait only; it gets
//! a fresh database, and may close it and open it again.
#![expect(
    clippy::unwrap_used,
    reason = "a failed expectation is what this module is for"
)]

mod agents;
mod blobs;
mod closing;
mod cursors;
mod directory;
mod events;
mod gates;
mod idempotency;
mod invites;
mod log;
mod memory;
mod random;
mod rooms;
mod services;
mod story;
mod tokens;
mod turn_story;
mod turns;
mod turns_random;
mod unread;
mod upkeep;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::{CommitSink, Store, StoreFuture};

pub use story::Story;

/// How long a case may take before it counts as hanging.
const CASE_DEADLINE: Duration = Duration::from_secs(120);
/// The same when somebody asked for a long story.
const LONG_DEADLINE: Duration = Duration::from_secs(3600);
/// Environment variable: how long the story of turns is to be.
const STEPS: &str = "PARLER_TURNS_STEPS";

/// What a store's tests give to the suite: one database, that can be opened again and again.
pub trait Harness: Send + Sync + 'static {
    /// Opens the database; empty at first, later as it was left. Whatever was opened before is
    /// closed by then.
    fn open(&self, sink: Arc<dyn CommitSink>) -> StoreFuture<'_, Arc<dyn Store>>;
}

/// One case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What it shows.
    pub name: &'static str,
    /// Tells its story; panics where the store departs from it.
    pub run: for<'a> fn(&'a mut Story) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
}

/// Runs a case by its name on a fresh database.
///
/// # Panics
/// When the store fails it, or there is no such case.
pub async fn run(name: &str, harness: Arc<dyn Harness>) {
    let case = ALL.iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("no case is called {name}"));
    let told = async {
        let mut story = Story::begin(harness).await;
        (case.run)(&mut story).await;
        story.store.close().await.unwrap();
    };
    let deadline = match std::env::var_os(STEPS) {
        Some(_) => LONG_DEADLINE,
        None => CASE_DEADLINE,
    };
    let told = tokio::time::timeout(deadline, told).await;
    assert!(told.is_ok(), "{name} did not end within {deadline:?}");
}

macro_rules! cases {
    (($d:tt) $( $module:ident: $( $case:ident )+ ; )+) => {
        /// All cases.
        pub const ALL: &[Case] = &[$($(
            Case { name: stringify!($case), run: |story| Box::pin($module::$case(story)) },
        )+)+];

        /// Makes a test of every case of the conformance suite. The argument is an expression for
        /// an `Arc<dyn Harness>` over a fresh database; the caller's crate needs `tokio` with its
        /// macros and its multi-threaded runtime.
        #[macro_export]
        macro_rules! conformance {
            ($d harness:expr) => { $($(
                #[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::conformance::run(stringify!($case), $d harness).await;
                }
            )+)+ };
        }
    };
}

cases! { ($)
    agents:
        a_login_overwrites_name_and_role
        a_login_makes_the_agent_idle_and_keeps_its_attention
        presence_keeps_the_attention_unless_given
        attention_keeps_status_and_activity
        a_first_presence_or_attention_makes_a_row
        a_touch_refreshes_many_and_changes_nothing_else
        an_older_touch_changes_nothing
        a_login_keeps_texts_as_they_are;
    blobs:
        a_blob_is_for_members_of_the_rooms_it_was_posted_to
        content_counts_once_and_up_to_the_budget
        a_deleted_room_takes_its_bindings_along
        a_step_collects_what_is_unbound_or_unused
        what_was_posted_again_or_fetched_is_young_again
        a_blob_for_a_service_joins_its_author_unless_it_is_refused
        blobs_survive_a_restart;
    rooms:
        an_invite_opens_a_room_with_its_caller_as_member
        membership_tells_the_kind_to_members_only
        rooms_are_listed_by_name_with_their_members
        the_roster_is_for_members_and_ordered_by_name_then_id
        who_never_logged_in_is_in_the_roster_without_a_name
        a_dm_room_is_the_oldest_of_exactly_these_two
        there_is_no_dm_room_with_oneself;
    gates:
        an_owner_admits_refuses_and_thinks_again
        requests_of_one_moment_keep_their_order
        who_leaves_is_no_member_and_may_come_back
        the_last_member_takes_the_room_along
        an_owner_removes_and_bans
        a_room_is_passed_on
        a_deleted_room_leaves_nothing
        invites_are_revoked_by_minter_or_owner;
    services:
        the_first_to_serve_owns_the_service
        serving_again_overwrites_the_role
        an_agent_serves_no_new_room_beyond_its_quota
        a_message_joins_its_author_at_the_head
        who_comes_by_itself_reads_nothing_of_before
        a_refused_message_joins_nobody
        who_was_banned_or_meets_a_gate_does_not_come_by_itself
        work_waits_in_order_for_its_role
        only_an_available_worker_sees_and_takes_work
        a_claim_needs_the_role_that_the_work_is_for
        a_holder_renews_and_nobody_else_takes
        a_lease_that_ran_out_frees_the_work
        an_outdated_take_changes_nothing
        what_is_ended_stays_ended
        one_of_many_claimers_wins_each_piece
        claims_survive_a_restart
        who_leaves_holds_nothing
        a_deleted_service_leaves_no_worker_and_no_work
        work_of_other_rooms_is_unknown
        work_goes_with_its_message;
    directory:
        cards_are_found_and_replaced
        a_card_opens_one_direct_room;
    tokens:
        a_token_is_good_until_its_last_millisecond
        a_room_token_is_for_owners
        an_agent_has_no_more_tokens_than_it_may
        tokens_are_revoked_by_minter_or_owner
        tokens_end_with_their_room
        tokens_end_with_what_their_minter_was
        a_watcher_reads_what_is_there_and_moves_no_cursor
        a_watcher_sees_members_and_their_cards
        cards_and_parts_are_counted_over_all_rooms
        tokens_that_ended_are_swept
        tokens_survive_a_restart;
    invites:
        a_stranger_cannot_invite_into_a_room_that_exists
        any_member_may_invite
        an_agent_owns_no_more_rooms_than_it_may
        a_verbatim_name_counts_for_members_of_a_room_of_that_kind
        an_unknown_code_is_unknown
        a_member_redeems_free_of_charge_whatever_the_code_is_worth
        a_code_ends_after_its_last_millisecond
        a_code_admits_as_often_as_it_says
        an_expired_code_is_expired_even_when_used_up
        a_gated_code_makes_a_request_that_waits
        a_waiting_request_outlives_its_code
        every_request_spends_a_use_and_asking_again_does_not
        an_open_code_admits_who_waits_at_the_gate
        a_gated_room_stays_gated_for_its_members
        a_members_gate_binds_the_others_and_not_the_owner
        a_taken_code_is_refused_and_nobody_else_suffers
        invites_and_requests_survive_a_restart;
    log:
        a_message_is_stored_as_the_wire_has_it
        parts_are_kept_to_the_byte
        a_message_keeps_the_name_its_author_had
        seq_grows_over_all_rooms
        seq_grows_on_after_a_restart
        only_members_append
        only_members_read
        a_read_begins_after_its_place_and_ends_at_its_limit
        a_read_beyond_the_head_is_empty
        a_page_has_no_more_entries_than_any_page_may
        a_page_ends_at_its_bytes_but_not_before_its_first_entry
        a_late_joiner_reads_everything
        concurrent_appends_are_all_stored_once
        messages_are_stored_in_the_order_in_which_they_were_queued;
    cursors:
        a_read_moves_no_cursor
        a_cursor_only_moves_forward
        a_cursor_never_passes_the_head
        a_cursor_may_stand_between_two_messages
        strangers_have_no_cursor
        everybody_has_a_cursor_of_their_own
        an_ack_counts_when_it_is_above_the_cursor_and_not_above_the_head
        cursors_survive_a_restart;
    turns:
        every_handoff_has_exactly_one_turn
        of_claims_that_race_one_wins
        a_claim_is_refused_for_the_first_reason_that_holds
        who_may_claim_by_id_role_and_to_nobody
        a_renewal_keeps_the_take
        a_lease_runs_out_by_the_stored_time
        a_late_holder_changes_nothing
        the_holder_ends_it_and_the_end_is_final
        a_release_opens_it_and_takes_go_on_growing
        only_whom_it_names_declines
        offerer_and_owner_withdraw_it
        a_deadline_ends_an_open_turn_and_ends_with_the_first_take
        a_reply_that_reports_an_end_completes_it
        a_report_leaves_anothers_take_and_other_rooms_alone
        a_handoff_in_reply_passes_it_on
        a_plain_reply_of_the_holder_is_noted
        a_name_means_who_used_it_first
        who_leaves_gives_its_turns_back
        a_deleted_room_takes_its_turns_along
        turns_are_listed_newest_first_by_state_and_mine
        revisions_grow_and_say_what_changed
        seen_is_what_the_stored_cursor_says
        a_stall_is_news_once
        an_active_turn_keeps_its_message
        a_room_has_settings;
    turns_random:
        any_life_of_turns_agrees_with_a_simple_model;
    idempotency:
        a_repeat_is_answered_with_the_original
        a_key_with_other_parts_is_refused
        a_key_belongs_to_one_author_in_one_room
        an_empty_key_is_a_key_and_none_is_not
        a_strangers_repeat_is_a_strangers
        one_of_many_concurrent_repeats_is_stored
        keys_survive_a_restart;
    memory:
        a_key_replaces_and_none_appends
        a_key_belongs_to_one_author_in_one_place
        an_author_has_no_more_keys_than_it_may
        facts_are_seen_where_they_belong
        who_leaves_sees_no_more_and_its_facts_stay
        a_deleted_room_takes_its_facts_along
        every_text_is_found_by_what_stands_in_it
        words_find_by_their_beginnings_and_the_rarest_counts_most
        the_facts_of_others_change_no_order
        the_nearest_comes_first_and_a_vector_outlives_an_update
        what_words_and_vectors_find_is_one_list
        no_more_hits_than_asked_for;
    unread:
        unread_is_what_lies_above_the_cursor
        ones_own_messages_are_unread_but_not_of_others
        a_cursor_in_the_middle_counts_right_from_either_end
        a_new_member_has_everything_unread
        unread_counts_survive_a_restart;
    upkeep:
        a_message_goes_when_it_is_old_and_not_among_the_newest
        a_step_does_no_more_than_it_may
        unread_counts_are_those_of_what_is_left
        who_comes_back_finds_the_counts_of_what_is_left
        cursors_stay_and_no_place_is_used_again
        a_key_is_free_when_its_message_is_gone
        rooms_are_named_in_which_something_may_go
        invites_go_when_they_ended_unless_somebody_waits
        the_oldest_facts_without_a_key_go;
    random:
        any_history_agrees_with_a_simple_model;
    events:
        an_append_and_a_join_are_told_once
        refusals_and_repeats_are_told_to_nobody
        events_come_in_the_order_of_seq
        nothing_precedes_the_commit_and_no_answer_precedes_the_event;
    closing:
        a_store_answers_pings_until_it_is_closed
        what_was_answered_before_a_close_is_there_after_it;
}

#[cfg(test)]
mod tests {
    use super::ALL;

    /// Each case is a `pub(super) async fn` of one of these files.
    const FILES: &[&str] = &[
        include_str!("agents.rs"),
        include_str!("blobs.rs"),
        include_str!("closing.rs"),
        include_str!("cursors.rs"),
        include_str!("directory.rs"),
        include_str!("events.rs"),
        include_str!("gates.rs"),
        include_str!("idempotency.rs"),
        include_str!("memory.rs"),
        include_str!("invites.rs"),
        include_str!("log.rs"),
        include_str!("random.rs"),
        include_str!("rooms.rs"),
        include_str!("services.rs"),
        include_str!("turns.rs"),
        include_str!("turns_random.rs"),
        include_str!("tokens.rs"),
        include_str!("unread.rs"),
        include_str!("upkeep.rs"),
    ];

    #[test]
    fn no_case_is_forgotten_or_listed_twice() {
        let mut written: Vec<&str> = FILES
            .iter()
            .flat_map(|file| file.split("pub(super) async fn ").skip(1))
            .map(|rest| &rest[..rest.find('(').unwrap()])
            .collect();
        let mut listed: Vec<&str> = ALL.iter().map(|case| case.name).collect();
        written.sort_unstable();
        listed.sort_unstable();
        assert_eq!(written, listed);
        listed.dedup();
        assert_eq!(written.len(), listed.len());
    }
}
