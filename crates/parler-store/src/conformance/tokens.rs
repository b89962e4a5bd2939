//! Tokens, and what their holders read.

use parler_protocol::{AgentId, RoomKind, RoomName, Seq, Visibility};

use super::story::{LIFE, Story, T0, agent};
use crate::{CodeHash, MintOutcome, NewCard, NewToken, TokenKind, WhichTokens};

const MAX: u32 = 100;

fn r() -> RoomName {
    RoomName::new("r")
}

fn new(s: &Story, agent: &AgentId, kind: TokenKind) -> NewToken {
    let number = s.number();
    let mut token = [7; 32];
    token[..8].copy_from_slice(&number.to_be_bytes());
    NewToken {
        agent: agent.clone(),
        kind,
        room: (kind != TokenKind::Directory).then(r),
        token,
        id: format!("token-{number}"),
        expires_at: T0 + LIFE,
        max_active: MAX,
        now: T0,
    }
}

async fn mint(s: &Story, agent: &AgentId, kind: TokenKind) -> CodeHash {
    let token = new(s, agent, kind);
    let hash = token.token;
    let outcome = s.store.mint_token(token).await.unwrap();
    assert_eq!(outcome, MintOutcome::Minted);
    hash
}

async fn good(s: &Story, token: CodeHash) -> bool {
    s.store.token(token, T0).await.unwrap().is_some()
}

async fn revoke(s: &Story, by: &AgentId, which: WhichTokens) -> u32 {
    s.store.revoke_tokens(by, which, T0).await.unwrap()
}

pub(super) async fn a_token_is_good_until_its_last_millisecond(s: &mut Story) {
    let a = agent(0);
    let token = mint(s, &a, TokenKind::Directory).await;
    let row = s.store.token(token, T0 + LIFE).await.unwrap().unwrap();
    assert_eq!((row.kind, row.room), (TokenKind::Directory, None));
    assert_eq!((row.minted_by, row.expires_at), (a, T0 + LIFE));
    assert!(s.store.token(token, T0 + LIFE + 1).await.unwrap().is_none());
    assert!(s.store.token([0; 32], T0).await.unwrap().is_none());
    assert!(
        s.store.watched_room(token, T0).await.unwrap().is_none(),
        "it is for no room"
    );
}

pub(super) async fn a_room_token_is_for_owners(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.join("r", &a, &[&b]).await;
    for kind in [TokenKind::Watch, TokenKind::WatchFull, TokenKind::Admin] {
        let refused = s.store.mint_token(new(s, &b, kind)).await.unwrap();
        assert_eq!(refused, MintOutcome::NotOwner, "a member");
        let token = mint(s, &a, kind).await;
        let row = s.store.token(token, T0).await.unwrap().unwrap();
        assert_eq!((row.kind, row.room), (kind, Some(r())));
    }
    let nowhere = NewToken {
        room: Some(RoomName::new("nowhere")),
        ..new(s, &a, TokenKind::Watch)
    };
    let refused = s.store.mint_token(nowhere).await.unwrap();
    assert_eq!(refused, MintOutcome::NotOwner);
    let stranger = new(s, &agent(9), TokenKind::Watch);
    let refused = s.store.mint_token(stranger).await.unwrap();
    assert_eq!(refused, MintOutcome::NotOwner, "never seen before");
}

pub(super) async fn an_agent_has_no_more_tokens_than_it_may(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    let two = |token: NewToken, now| NewToken {
        max_active: 2,
        now,
        expires_at: now + LIFE,
        ..token
    };
    let mint = async |kind, now| {
        let token = two(new(s, &a, kind), now);
        s.store.mint_token(token).await.unwrap()
    };
    assert_eq!(mint(TokenKind::Directory, T0).await, MintOutcome::Minted);
    assert_eq!(mint(TokenKind::Watch, T0).await, MintOutcome::Minted);
    assert_eq!(mint(TokenKind::Directory, T0).await, MintOutcome::TooMany);
    assert_eq!(
        mint(TokenKind::Watch, T0 + LIFE).await,
        MintOutcome::TooMany
    );
    let other = two(new(s, &agent(1), TokenKind::Directory), T0);
    assert_eq!(
        s.store.mint_token(other).await.unwrap(),
        MintOutcome::Minted,
        "everybody has a share of its own"
    );
    let later = T0 + LIFE + 1;
    assert_eq!(mint(TokenKind::Watch, later).await, MintOutcome::Minted);
    let none = NewToken {
        max_active: 0,
        ..new(s, &agent(2), TokenKind::Directory)
    };
    s.store.hello(&agent(2), "c", None, T0).await.unwrap();
    assert_eq!(
        s.store.mint_token(none).await.unwrap(),
        MintOutcome::TooMany
    );
}

pub(super) async fn tokens_are_revoked_by_minter_or_owner(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.join("r", &a, &[&b]).await;
    let watch = mint(s, &a, TokenKind::Watch).await;
    let admin = mint(s, &a, TokenKind::Admin).await;
    let directory = mint(s, &a, TokenKind::Directory).await;
    for which in [
        WhichTokens::Token(watch),
        WhichTokens::Room(r()),
        WhichTokens::Token(directory),
        WhichTokens::Token([0; 32]),
    ] {
        assert_eq!(revoke(s, &b, which).await, 0, "not b's");
    }
    s.heard.take();
    assert_eq!(revoke(s, &a, WhichTokens::Token(watch)).await, 1);
    assert_eq!(s.heard.take(), ["tokens of r revoked"]);
    assert!(!good(s, watch).await);
    assert!(s.store.watched_room(watch, T0).await.unwrap().is_none());
    assert_eq!(revoke(s, &a, WhichTokens::Token(watch)).await, 0);
    let named = new(s, &a, TokenKind::Directory);
    let (id, hash) = (named.id.clone(), named.token);
    s.store.mint_token(named).await.unwrap();
    assert_eq!(revoke(s, &a, WhichTokens::Id(id)).await, 1);
    assert!(!good(s, hash).await);
    // All of a room: the links for watching, whoever minted them.
    let watch = mint(s, &a, TokenKind::Watch).await;
    mint(s, &a, TokenKind::WatchFull).await;
    s.store.transfer_owner(&r(), &a, &b).await.unwrap();
    assert_eq!(revoke(s, &b, WhichTokens::Room(r())).await, 2);
    assert!(!good(s, watch).await && !good(s, admin).await);
    assert!(good(s, directory).await, "of no room");
}

pub(super) async fn tokens_end_with_their_room(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    let token = mint(s, &a, TokenKind::Watch).await;
    s.store.delete_room(&r(), &a).await.unwrap().unwrap();
    assert!(!good(s, token).await);
    s.open("r", &a).await;
    assert!(!good(s, token).await, "another room of that name");
    assert!(s.store.watched_room(token, T0).await.unwrap().is_none());
}

pub(super) async fn tokens_end_with_what_their_minter_was(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.join("r", &a, &[&b]).await;
    let watch = mint(s, &a, TokenKind::Watch).await;
    let admin = mint(s, &a, TokenKind::Admin).await;
    let directory = mint(s, &a, TokenKind::Directory).await;
    s.heard.take();
    s.store.transfer_owner(&r(), &a, &b).await.unwrap();
    assert!(!good(s, admin).await, "it acted for the owner");
    assert!(good(s, watch).await, "it reads, and its minter is a member");
    assert_eq!(s.heard.take(), ["tokens of r revoked"]);
    s.store
        .remove_member(&r(), &b, &a, false, T0)
        .await
        .unwrap();
    assert!(!good(s, watch).await, "its minter may not read any more");
    assert!(good(s, directory).await);
}

pub(super) async fn a_watcher_reads_what_is_there_and_moves_no_cursor(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.join("r", &a, &[&b]).await;
    s.open("other", &a).await;
    let token = mint(s, &a, TokenKind::Watch).await;
    let mut said = Vec::new();
    for _ in 0..3 {
        said.push(s.say("r", &a).await);
        s.say("other", &a).await;
    }
    let read = async |after: i64, limit: u32| {
        let page = s.store.watched_log(token, T0, Seq(after), limit).await;
        let page = page.unwrap().unwrap();
        page.into_iter().map(|e| e.json).collect::<Vec<_>>()
    };
    let all: Vec<_> = said.iter().map(|e| e.json.clone()).collect();
    assert_eq!(read(0, 10).await, all, "the bytes that members get");
    assert_eq!(read(said[0].seq.0, 1).await, [all[1].clone()]);
    assert!(read(said[2].seq.0, 10).await.is_empty());
    assert_eq!(s.unread("r", &b).await, (3, 3));
    let late = s.store.watched_log(token, T0 + LIFE + 1, Seq(0), 10).await;
    assert!(late.unwrap().is_none());
}

pub(super) async fn a_watcher_sees_members_and_their_cards(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.join("r", &a, &[&b]).await;
    s.store.hello(&a, "ann", Some("lead"), T0).await.unwrap();
    s.store.hello(&b, "ben", None, T0).await.unwrap();
    let head = s.say("r", &a).await.seq;
    let card = NewCard {
        agent: b.clone(),
        card: r#"{"name":"ben"}"#.into(),
        words: "ben".into(),
        tags: " ".into(),
        skills: " ".into(),
        visibility: Visibility::Private,
        sig: None,
        now: T0,
    };
    s.store.register(card.clone()).await.unwrap();
    let stranger = NewCard {
        agent: agent(2),
        ..card
    };
    s.store.register(stranger).await.unwrap();
    s.advance("r", &b, head).await;
    let token = mint(s, &a, TokenKind::WatchFull).await;
    let room = s.store.watched_room(token, T0).await.unwrap().unwrap();
    assert_eq!(
        (room.name, room.kind, room.head, room.pruned),
        (r(), RoomKind::Channel, head, 0)
    );
    let seen: Vec<_> = room
        .members
        .iter()
        .map(|m| (m.member.name.as_str(), m.unread))
        .collect();
    assert_eq!(seen, [("ann", 1), ("ben", 0)]);
    assert_eq!(room.members[0].member.role.as_deref(), Some("lead"));
    let cards = s.store.watched_cards(token, T0).await.unwrap().unwrap();
    let cards: Vec<_> = cards.into_iter().map(|row| row.agent).collect();
    assert_eq!(cards, [b], "members only, private cards too");
}

pub(super) async fn cards_and_parts_are_counted_over_all_rooms(s: &mut Story) {
    let a = agent(0);
    assert_eq!(s.store.count_cards().await.unwrap(), (0, 0));
    for (n, visibility) in [(0, Visibility::Public), (1, Visibility::Private)] {
        let card = NewCard {
            agent: agent(n),
            card: "{}".into(),
            words: String::new(),
            tags: " ".into(),
            skills: " ".into(),
            visibility,
            sig: None,
            now: T0,
        };
        s.store.register(card).await.unwrap();
    }
    assert_eq!(s.store.count_cards().await.unwrap(), (2, 1));
    s.open("r", &a).await;
    s.open("other", &a).await;
    assert_eq!(s.store.last_seq().await.unwrap(), Seq(0));
    let first = s.say("r", &a).await.seq;
    let second = s.append(s.draft("other", &a)).await;
    let parts = s.store.parts_after(Seq(first.0 - 1)).await.unwrap();
    let seqs: Vec<_> = parts.iter().map(|p| p.0).collect();
    assert_eq!(seqs, [first, second.seq]);
    assert_eq!(s.store.last_seq().await.unwrap(), second.seq);
    assert!(second.json.contains(&parts[1].1));
    assert!(s.store.parts_after(second.seq).await.unwrap().is_empty());
}

pub(super) async fn tokens_that_ended_are_swept(s: &mut Story) {
    let a = agent(0);
    for _ in 0..3 {
        mint(s, &a, TokenKind::Directory).await;
    }
    let sweep = async |now, limit| s.store.sweep_tokens(now, limit).await.unwrap();
    assert_eq!(sweep(T0 + LIFE, 10).await, 0, "still good");
    assert_eq!(sweep(T0 + LIFE + 1, 2).await, 2);
    assert_eq!(sweep(T0 + LIFE + 1, 2).await, 1);
    assert_eq!(sweep(T0 + LIFE + 1, 2).await, 0);
}

pub(super) async fn tokens_survive_a_restart(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    let token = mint(s, &a, TokenKind::Watch).await;
    s.reopen().await;
    assert!(good(s, token).await);
    let room = s.store.watched_room(token, T0).await.unwrap();
    assert_eq!(room.unwrap().name, r());
}
