//! Cursors: where a member has read to.

use parler_protocol::{AgentId, Seq};

use super::story::{Story, agent};
use crate::{Page, ReadFrom};

const CURSOR: ReadFrom = ReadFrom::Cursor { ack: None };

fn ack(seq: i64) -> ReadFrom {
    ReadFrom::Cursor {
        ack: Some(Seq(seq)),
    }
}

/// Floor, cursor, and how many entries.
fn shape(page: &Page) -> (i64, i64, usize) {
    (page.floor.0, page.cursor.0, page.entries.len())
}

/// A room `r` with two members and five messages of the first one, and their places.
async fn five(s: &Story) -> (AgentId, AgentId, Vec<i64>) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    s.join("r", &a, &[&b]).await;
    let mut places = Vec::new();
    for _ in 0..5 {
        places.push(s.say("r", &a).await.seq.0);
    }
    (a, b, places)
}

pub(super) async fn a_read_moves_no_cursor(s: &mut Story) {
    let (_, b, places) = five(s).await;
    for from in [
        CURSOR,
        ack(places[2]),
        ReadFrom::Since(Seq(places[1])),
        CURSOR,
    ] {
        s.read("r", &b, from).await;
    }
    assert_eq!(shape(&s.read("r", &b, CURSOR).await), (0, 0, 5));
    assert_eq!(s.unread("r", &b).await, (5, 5));
}

pub(super) async fn a_cursor_only_moves_forward(s: &mut Story) {
    let (_, b, places) = five(s).await;
    let second = Seq(places[1]);
    assert_eq!(s.advance("r", &b, second).await, second);
    for lower in [places[1], places[0], 0, -1, i64::MIN] {
        assert_eq!(s.advance("r", &b, Seq(lower)).await, second, "{lower}");
    }
    let at = (second.0, second.0, 3);
    assert_eq!(shape(&s.read("r", &b, CURSOR).await), at);
    let head = Seq(places[4]);
    assert_eq!(s.advance("r", &b, head).await, head);
    let at = (head.0, head.0, 0);
    assert_eq!(shape(&s.read("r", &b, CURSOR).await), at);
    // Reading again from an earlier place is still possible.
    let page = s.read("r", &b, ReadFrom::Since(Seq(0))).await;
    assert_eq!(shape(&page), (0, head.0, 5));
}

pub(super) async fn a_cursor_never_passes_the_head(s: &mut Story) {
    let (a, b, places) = five(s).await;
    s.open("other", &a).await;
    let beyond = s.say("other", &a).await.seq;
    for above in [beyond.0, places[4] + 1, i64::MAX] {
        assert_eq!(s.advance("r", &b, Seq(above)).await, Seq(0), "{above}");
    }
    assert_eq!(s.advance("r", &b, Seq(places[0])).await, Seq(places[0]));
    assert_eq!(s.advance("r", &b, beyond).await, Seq(places[0]));
    assert_eq!(s.unread("r", &b).await, (4, 4));
    s.open("empty", &a).await;
    assert_eq!(s.advance("empty", &a, Seq(1)).await, Seq(0));
}

pub(super) async fn a_cursor_may_stand_between_two_messages(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    for room in ["r", "other"] {
        s.open(room, &a).await;
    }
    s.join("r", &a, &[&b]).await;
    let before = s.say("other", &a).await.seq;
    s.say("r", &a).await;
    let between = s.say("other", &a).await.seq;
    s.say("r", &a).await;
    assert_eq!(s.advance("r", &b, before).await, before);
    assert_eq!(s.unread("r", &b).await, (2, 2));
    assert_eq!(s.advance("r", &b, between).await, between);
    assert_eq!(s.unread("r", &b).await, (1, 1));
    let at = (between.0, between.0, 1);
    assert_eq!(shape(&s.read("r", &b, CURSOR).await), at);
}

pub(super) async fn strangers_have_no_cursor(s: &mut Story) {
    let (a, b, places) = five(s).await;
    for (room, who) in [("r", &agent(9)), ("nowhere", &a), ("nowhere", &agent(9))] {
        assert_eq!(s.advance(room, who, Seq(places[0])).await, Seq(0));
    }
    assert_eq!(s.unread("r", &b).await, (5, 5));
}

pub(super) async fn everybody_has_a_cursor_of_their_own(s: &mut Story) {
    let (a, b, places) = five(s).await;
    s.open("other", &a).await;
    let other = s.say("other", &a).await.seq;
    s.advance("r", &a, Seq(places[3])).await;
    s.advance("other", &a, other).await;
    assert_eq!(s.advance("r", &b, Seq(0)).await, Seq(0));
    s.advance("r", &b, Seq(places[1])).await;
    assert_eq!(s.advance("r", &a, Seq(0)).await, Seq(places[3]));
    assert_eq!(s.unread("r", &a).await, (1, 0));
    assert_eq!(s.unread("r", &b).await, (3, 3));
    assert_eq!(s.unread("other", &a).await, (0, 0));
}

pub(super) async fn an_ack_counts_when_it_is_above_the_cursor_and_not_above_the_head(
    s: &mut Story,
) {
    let (_, b, places) = five(s).await;
    let second = places[1];
    s.advance("r", &b, Seq(second)).await;
    for (acked, floor, left) in [
        (0, second, 3),
        (-7, second, 3),
        (places[0], second, 3),
        (second, second, 3),
        (places[3], places[3], 1),
        (places[4], places[4], 0),
        (places[4] + 1, second, 3),
        (i64::MAX, second, 3),
    ] {
        let page = s.read("r", &b, ack(acked)).await;
        assert_eq!(shape(&page), (floor, second, left), "ack {acked}");
    }
}

pub(super) async fn cursors_survive_a_restart(s: &mut Story) {
    let (_, b, places) = five(s).await;
    s.advance("r", &b, Seq(places[2])).await;
    s.reopen().await;
    let at = (places[2], places[2], 2);
    assert_eq!(shape(&s.read("r", &b, CURSOR).await), at);
    let none = s.advance("r", &b, Seq(places[1])).await;
    assert_eq!(none, Seq(places[2]));
}
