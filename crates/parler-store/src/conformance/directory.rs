//! Cards, and rooms that a card opens.

use parler_protocol::{AgentId, RoomKind, RoomName, Visibility};

use super::story::{Story, T0, agent};
use crate::{CardFilter, NewCard};

fn card(agent: &AgentId, words: &str, visibility: Visibility) -> NewCard {
    NewCard {
        agent: agent.clone(),
        card: format!(r#"{{"name":"{words}"}}"#),
        words: words.into(),
        tags: " 100%_sure ".into(),
        skills: " rs rust ".into(),
        visibility,
        sig: None,
        now: T0,
    }
}

async fn find(s: &Story, filter: CardFilter) -> Vec<AgentId> {
    let rows = s.store.discover(filter).await.unwrap();
    rows.into_iter().map(|row| row.agent).collect()
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

pub(super) async fn cards_are_found_and_replaced(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    for (who, now) in [(&a, T0), (&b, T0 + 1)] {
        s.store.hello(who, "n", None, now).await.unwrap();
    }
    s.store
        .register(card(&a, "planner", Visibility::Public))
        .await
        .unwrap();
    s.store
        .register(card(&b, "reviewer", Visibility::Private))
        .await
        .unwrap();
    let all = CardFilter::default();
    assert_eq!(
        find(s, all.clone()).await,
        [b.clone(), a.clone()],
        "most recent login first"
    );
    let public = CardFilter {
        public_only: true,
        ..all.clone()
    };
    assert_eq!(find(s, public).await, std::slice::from_ref(&a));
    let named = |query: &str| CardFilter {
        query: text(query),
        ..CardFilter::default()
    };
    assert_eq!(find(s, named("view")).await, std::slice::from_ref(&b));
    assert_eq!(
        find(s, named("%")).await.len(),
        2,
        "a letter like others: in the tags"
    );
    assert_eq!(find(s, named("1%0")).await.len(), 0);
    let both = CardFilter {
        tag: text("100%_"),
        skill: text("rust"),
        ..all.clone()
    };
    assert_eq!(find(s, both).await.len(), 2);
    let none = CardFilter {
        tag: text("sure"),
        skill: text("go"),
        ..all
    };
    assert_eq!(find(s, none).await.len(), 0);
    s.store
        .register(card(&a, "boss", Visibility::Private))
        .await
        .unwrap();
    s.reopen().await;
    let row = s.store.lookup(&a).await.unwrap().unwrap();
    assert_eq!(row.card, r#"{"name":"boss"}"#);
    assert_eq!((row.visibility, row.last_seen), (Visibility::Private, T0));
    assert!(s.store.lookup(&agent(2)).await.unwrap().is_none());
}

pub(super) async fn a_card_opens_one_direct_room(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let open = |from: u8, to: u8, name: &str| {
        let (store, name) = (s.store.clone(), RoomName::new(name));
        async move {
            store
                .open_dm(&agent(from), &agent(to), name, T0)
                .await
                .unwrap()
        }
    };
    s.store.hello(&b, "ben", None, T0).await.unwrap();
    assert_eq!(open(0, 1, "dm.1").await, None, "no card");
    s.store
        .register(card(&b, "b", Visibility::Private))
        .await
        .unwrap();
    assert_eq!(open(0, 1, "dm.1").await, Some(RoomName::new("dm.1")));
    assert_eq!(
        open(0, 1, "dm.2").await,
        Some(RoomName::new("dm.1")),
        "the same room"
    );
    assert_eq!(
        open(1, 0, "dm.3").await,
        Some(RoomName::new("dm.1")),
        "from both sides"
    );
    assert_eq!(open(1, 1, "dm.4").await, None, "not oneself");
    assert_eq!(s.room("dm.1", &a).await.kind, RoomKind::Dm);
    assert_eq!(s.room("dm.1", &b).await.members, 2);
}
