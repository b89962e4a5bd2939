//! Unread counts.

use parler_protocol::{AgentId, Seq};

use super::story::{Story, agent};

async fn talk(s: &Story, room: &str, who: &[&AgentId]) -> Vec<Seq> {
    let mut places = Vec::new();
    for author in who {
        places.push(s.say(room, author).await.seq);
    }
    places
}

pub(super) async fn unread_is_what_lies_above_the_cursor(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    s.open("other", &a).await;
    s.join("r", &a, &[&b]).await;
    assert_eq!(s.unread("r", &b).await, (0, 0));
    let places = talk(s, "r", &[&a, &a, &a, &a]).await;
    talk(s, "other", &[&a, &a]).await;
    assert_eq!(s.unread("r", &b).await, (4, 4));
    for (n, place) in (1..).zip(&places) {
        s.advance("r", &b, *place).await;
        assert_eq!(s.unread("r", &b).await, (4 - n, 4 - n));
    }
    talk(s, "r", &[&a]).await;
    assert_eq!(s.unread("r", &b).await, (1, 1));
    assert_eq!(s.unread("other", &a).await, (2, 0));
}

pub(super) async fn ones_own_messages_are_unread_but_not_of_others(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    s.join("r", &a, &[&b]).await;
    let places = talk(s, "r", &[&a, &b, &b, &a, &b]).await;
    assert_eq!(s.unread("r", &a).await, (5, 3));
    assert_eq!(s.unread("r", &b).await, (5, 2));
    for (place, of_a, of_b) in [
        (places[0], (4, 3), (4, 1)),
        (places[1], (3, 2), (3, 1)),
        (places[3], (1, 1), (1, 0)),
        (places[4], (0, 0), (0, 0)),
    ] {
        s.advance("r", &a, place).await;
        s.advance("r", &b, place).await;
        assert_eq!(s.unread("r", &a).await, of_a);
        assert_eq!(s.unread("r", &b).await, of_b);
    }
    talk(s, "r", &[&b]).await;
    assert_eq!(s.unread("r", &a).await, (1, 1));
    assert_eq!(s.unread("r", &b).await, (1, 0));
}

pub(super) async fn a_cursor_in_the_middle_counts_right_from_either_end(s: &mut Story) {
    const ROUNDS: usize = 20;
    let (a, b) = (agent(0), agent(1));
    for stop in [1, 7, 31, 40, 52, 59] {
        let room = format!("r{stop}");
        s.open(&room, &a).await;
        s.join(&room, &a, &[&b]).await;
        let mut places = Vec::new();
        for _ in 0..ROUNDS {
            places.extend(talk(s, &room, &[&a, &b, &a]).await);
        }
        s.advance(&room, &a, places[stop - 1]).await;
        let left = u32::try_from(places.len() - stop).unwrap();
        let of_b = (stop..places.len()).filter(|n| n % 3 == 1).count();
        let of_b = u32::try_from(of_b).unwrap();
        assert_eq!(s.unread(&room, &a).await, (left, of_b), "at {stop}");
        // And again from there.
        s.advance(&room, &a, places[58]).await;
        assert_eq!(s.unread(&room, &a).await.0, 1.min(left), "at {stop}");
        assert_eq!(s.unread(&room, &a).await.1, 0, "at {stop}");
    }
}

pub(super) async fn a_new_member_has_everything_unread(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    talk(s, "r", &[&a, &a, &a]).await;
    s.join("r", &a, &[&b]).await;
    assert_eq!(s.unread("r", &b).await, (3, 3));
    talk(s, "r", &[&b]).await;
    assert_eq!(s.unread("r", &b).await, (4, 3));
}

pub(super) async fn unread_counts_survive_a_restart(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    s.join("r", &a, &[&b]).await;
    let places = talk(s, "r", &[&a, &b, &b, &a]).await;
    s.advance("r", &b, places[1]).await;
    s.reopen().await;
    assert_eq!(s.unread("r", &a).await, (4, 2));
    assert_eq!(s.unread("r", &b).await, (2, 1));
    talk(s, "r", &[&b]).await;
    assert_eq!(s.unread("r", &b).await, (3, 1));
    s.advance("r", &b, places[2]).await;
    assert_eq!(s.unread("r", &b).await, (2, 1));
}
