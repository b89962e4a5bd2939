//! Blobs: who may read them, what they count, when they go.

use parler_protocol::{AgentId, BlobId, RoomName};

use super::story::{Story, T0, agent};
use crate::{BindOutcome, BlobFound, BlobReader, BlobRow, MemberOutcome, NewBlob, NewWorker};

fn blob(number: u8) -> BlobId {
    BlobId::parse(&format!("{number:064x}")).unwrap()
}

fn new(by: &AgentId, room: &str, number: u8) -> NewBlob {
    NewBlob {
        agent: by.clone(),
        room: RoomName::new(room),
        join: false,
        blob: blob(number),
        size: 100,
        media_type: Some("text/plain".into()),
        max_total: 1000,
        now: T0,
    }
}

async fn post(s: &Story, new: NewBlob) -> BindOutcome {
    s.store.bind_blob(new).await.unwrap()
}

async fn find(s: &Story, number: u8, who: &AgentId) -> BlobFound {
    let reader = BlobReader::Agent(who.clone());
    s.store.find_blob(&blob(number), &reader).await.unwrap()
}

async fn readable(s: &Story, number: u8, who: &AgentId) -> BlobRow {
    match find(s, number, who).await {
        BlobFound::Readable(row) => row,
        other => panic!("{other:?}"),
    }
}

async fn collect(s: &Story, unused_since: Option<i64>, limit: u32) -> Vec<BlobId> {
    let stale = s.store.stale_blobs(unused_since, limit).await.unwrap();
    let mut gone = s.store.forget_blobs(stale, unused_since).await.unwrap();
    gone.sort();
    gone
}

pub(super) async fn a_blob_is_for_members_of_the_rooms_it_was_posted_to(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    s.open("mine", &a).await;
    s.join("ours", &a, &[&b]).await;
    assert_eq!(find(s, 1, &a).await, BlobFound::Unknown);
    assert_eq!(
        post(s, new(&b, "mine", 1)).await,
        BindOutcome::NotMember,
        "a stranger"
    );
    assert_eq!(
        post(s, new(&a, "nowhere", 1)).await,
        BindOutcome::NotMember,
        "no such room"
    );
    assert_eq!(
        find(s, 1, &a).await,
        BlobFound::Unknown,
        "a refusal leaves nothing"
    );
    assert_eq!(post(s, new(&a, "mine", 1)).await, BindOutcome::Bound);
    let row = readable(s, 1, &a).await;
    assert_eq!(
        (row.size, row.media_type.as_deref()),
        (100, Some("text/plain"))
    );
    assert_eq!((row.created_at, row.fetched_at), (T0, None));
    assert_eq!(find(s, 1, &b).await, BlobFound::Forbidden);
    let again = NewBlob {
        media_type: Some("text/other".into()),
        ..new(&a, "ours", 1)
    };
    assert_eq!(post(s, again).await, BindOutcome::Bound);
    let row = readable(s, 1, &b).await;
    assert_eq!(
        row.media_type.as_deref(),
        Some("text/plain"),
        "the first stays"
    );
    assert_eq!(find(s, 1, &c).await, BlobFound::Forbidden);
    s.store.leave(&RoomName::new("ours"), &b, T0).await.unwrap();
    assert_eq!(
        find(s, 1, &b).await,
        BlobFound::Forbidden,
        "a member no more"
    );
    let store = s.store.clone();
    let by_room = |room: &str| {
        let reader = BlobReader::Room(RoomName::new(room));
        let store = store.clone();
        async move { store.find_blob(&blob(1), &reader).await.unwrap() }
    };
    assert!(matches!(by_room("mine").await, BlobFound::Readable(_)));
    s.open("third", &a).await;
    assert_eq!(by_room("third").await, BlobFound::Forbidden);
}

pub(super) async fn content_counts_once_and_up_to_the_budget(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    s.open("q", &a).await;
    let small = |room, number| NewBlob {
        max_total: 250,
        ..new(&a, room, number)
    };
    assert_eq!(post(s, small("r", 1)).await, BindOutcome::Bound);
    assert_eq!(post(s, small("q", 1)).await, BindOutcome::Bound);
    assert_eq!(post(s, small("q", 1)).await, BindOutcome::Bound);
    assert_eq!(s.store.blob_bytes().await.unwrap(), 100);
    assert_eq!(post(s, small("r", 2)).await, BindOutcome::Bound);
    assert_eq!(post(s, small("r", 3)).await, BindOutcome::Full);
    let exactly = NewBlob {
        size: 50,
        ..small("r", 3)
    };
    assert_eq!(post(s, exactly).await, BindOutcome::Bound);
    assert_eq!(
        post(s, small("q", 2)).await,
        BindOutcome::Bound,
        "known content adds nothing to a full store"
    );
    let endless = NewBlob {
        size: u64::MAX,
        max_total: u64::MAX,
        ..new(&a, "r", 4)
    };
    assert_eq!(post(s, endless).await, BindOutcome::Full);
    assert_eq!(s.store.blob_bytes().await.unwrap(), 250);
    let known = s.store.known_blobs((1..6).map(blob).collect()).await;
    assert_eq!(known.unwrap(), [blob(1), blob(2), blob(3)]);
}

pub(super) async fn a_deleted_room_takes_its_bindings_along(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.join("r", &a, &[&b]).await;
    s.open("q", &a).await;
    post(s, new(&a, "r", 1)).await;
    post(s, new(&a, "q", 1)).await;
    post(s, new(&a, "r", 2)).await;
    let r = RoomName::new("r");
    assert!(s.store.delete_room(&r, &a).await.unwrap().is_some());
    assert_eq!(find(s, 1, &b).await, BlobFound::Forbidden);
    readable(s, 1, &a).await;
    assert_eq!(find(s, 2, &a).await, BlobFound::Forbidden);
    s.join("r", &a, &[&b]).await;
    assert_eq!(
        find(s, 1, &b).await,
        BlobFound::Forbidden,
        "a new room of that name has none of it"
    );
    assert_eq!(collect(s, None, 10).await, [blob(2)]);
    assert_eq!(find(s, 2, &a).await, BlobFound::Unknown);
    assert_eq!(s.store.blob_bytes().await.unwrap(), 100);
}

pub(super) async fn a_step_collects_what_is_unbound_or_unused(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    for number in 0..5 {
        let posted = NewBlob {
            now: T0 + i64::from(number),
            ..new(&a, "r", number)
        };
        post(s, posted).await;
    }
    assert!(collect(s, None, 10).await.is_empty(), "age does not count");
    assert!(collect(s, Some(T0), 10).await.is_empty(), "none so old");
    let mut gone = collect(s, Some(T0 + 3), 2).await;
    assert_eq!(gone.len(), 2, "a small step");
    gone.extend(collect(s, Some(T0 + 3), 2).await);
    gone.sort();
    assert_eq!(gone, [blob(0), blob(1), blob(2)]);
    assert_eq!(s.store.blob_bytes().await.unwrap(), 200);
    assert_eq!(find(s, 0, &a).await, BlobFound::Unknown);
    readable(s, 3, &a).await;
}

pub(super) async fn what_was_posted_again_or_fetched_is_young_again(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    for number in 0..3 {
        post(s, new(&a, "r", number)).await;
    }
    let again = NewBlob {
        now: T0 + 10,
        ..new(&a, "r", 0)
    };
    post(s, again).await;
    s.store.touch_blob(&blob(1), T0 + 10).await.unwrap();
    s.store.touch_blob(&blob(1), T0 + 5).await.unwrap();
    s.store.touch_blob(&blob(9), T0).await.unwrap();
    assert_eq!(readable(s, 1, &a).await.fetched_at, Some(T0 + 10));
    let all = (0..3).map(blob).collect();
    let gone = s.store.forget_blobs(all, Some(T0 + 10)).await.unwrap();
    assert_eq!(gone, [blob(2)], "looked at once more");
    assert_eq!(collect(s, Some(T0 + 11), 10).await, [blob(0), blob(1)]);
}

pub(super) async fn a_blob_for_a_service_joins_its_author_unless_it_is_refused(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    let joining = |room, number| NewBlob {
        join: true,
        ..new(&b, room, number)
    };
    assert_eq!(
        post(s, joining("svc.build", 1)).await,
        BindOutcome::UnknownService
    );
    let serves = NewWorker {
        agent: a.clone(),
        room: RoomName::new("svc.build"),
        role: "build".into(),
        max_owned_rooms: 10,
        now: T0,
    };
    s.store.serve(serves).await.unwrap();
    s.open("r", &a).await;
    assert_eq!(
        post(s, joining("r", 1)).await,
        BindOutcome::UnknownService,
        "no service"
    );
    let large = NewBlob {
        size: 1001,
        ..joining("svc.build", 1)
    };
    assert_eq!(post(s, large).await, BindOutcome::Full);
    assert!(s.store.rooms(&b).await.unwrap().is_empty());
    assert_eq!(post(s, joining("svc.build", 1)).await, BindOutcome::Bound);
    readable(s, 1, &a).await;
    readable(s, 1, &b).await;
    let svc = RoomName::new("svc.build");
    let banned = s.store.remove_member(&svc, &a, &b, true, T0).await;
    assert_eq!(banned.unwrap(), MemberOutcome::Done);
    assert_eq!(post(s, joining("svc.build", 1)).await, BindOutcome::Denied);
}

pub(super) async fn blobs_survive_a_restart(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    post(s, new(&a, "r", 1)).await;
    s.store.touch_blob(&blob(1), T0 + 1).await.unwrap();
    let before = readable(s, 1, &a).await;
    s.reopen().await;
    assert_eq!(readable(s, 1, &a).await, before);
    assert_eq!(s.store.blob_bytes().await.unwrap(), 100);
}
