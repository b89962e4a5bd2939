//! Appending to the log and reading it.

use std::sync::Arc;

use parler_protocol::{EndpointRef, Part, RoomName, Seq, StoredMessage};

use super::story::{ALL_OF_IT, Story, T0, agent, together};
use crate::{Append, Appended, LogEntry, MAX_PAGE, PAGE_BYTES, ReadFrom};

fn seqs(entries: &[LogEntry]) -> Vec<i64> {
    entries.iter().map(|entry| entry.seq.0).collect()
}

pub(super) async fn a_message_is_stored_as_the_wire_has_it(s: &mut Story) {
    let a = agent(0);
    s.open("release-train", &a).await;
    let plain = StoredMessage {
        seq: 0,
        id: "0190-1".into(),
        room: "release-train".into(),
        from: EndpointRef {
            id: a.to_string(),
            name: "ann".into(),
            role: None,
        },
        parts: Vec::new(),
        mentions: None,
        reply_to: None,
        ts: T0,
    };
    let full = StoredMessage {
        id: "0190-2".into(),
        from: EndpointRef {
            role: Some("plan\"ner\u{7}☃".into()),
            name: "né\\\n".into(),
            ..plain.from.clone()
        },
        parts: vec![Part::text("hi \"you\"\n☃"), Part::text("")],
        mentions: Some(vec!["ben".into(), "q\"t".into()]),
        reply_to: Some("0190-1".into()),
        ts: T0 + 1,
        ..plain.clone()
    };
    let mut stored = Vec::new();
    for mut message in [plain, full] {
        let entry = s
            .append(Append {
                agent: a.clone(),
                name: message.from.name.as_str().into(),
                role: message.from.role.as_deref().map(Arc::from),
                room: RoomName::new(&message.room),
                id: message.id.clone(),
                parts: serde_json::to_string(&message.parts).unwrap().into(),
                mentions: message.mentions.clone(),
                reply_to: message.reply_to.clone(),
                client_id: None,
                digest: None,
                ledger: None,
                dispatch: Vec::new(),
                join: false,
                now: message.ts,
            })
            .await;
        message.seq = entry.seq.0;
        assert_eq!(*entry.json, serde_json::to_string(&message).unwrap());
        assert_eq!(*entry.id, message.id);
        assert_eq!((&entry.author, entry.room.as_str()), (&a, "release-train"));
        stored.push(entry);
    }
    s.reopen().await;
    let read = s.log("release-train", &a).await;
    assert_eq!(read.len(), stored.len());
    for (read, stored) in read.iter().zip(&stored) {
        assert_eq!(read.json, stored.json);
        assert_eq!((read.seq, &read.id), (stored.seq, &stored.id));
        assert_eq!((&read.room, &read.author), (&stored.room, &stored.author));
    }
}

pub(super) async fn parts_are_kept_to_the_byte(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    for parts in [
        "[]",
        r#"[ {"kind" : "data","data": 1.0e2 } ]"#,
        r#"[{"kind":"org.x","z":1,"a":{"b":[null]},"n":12345678901234567890123}]"#,
        r#"[{"kind":"text","text":"\u0000\u2603☃\ud83e\udd1d"}]"#,
        "[{\"kind\":\"text\",\"text\":\"'); DROP TABLE messages; --\"}]",
    ] {
        let parts: Arc<str> = parts.into();
        let draft = s.draft("r", &a);
        let entry = s
            .append(Append {
                parts: parts.clone(),
                ..draft
            })
            .await;
        let wanted = format!("\"parts\":{parts},\"ts\"");
        assert!(entry.json.contains(&wanted), "{}", entry.json);
    }
    let read = s.log("r", &a).await;
    let told = s.heard.take_entries();
    let json = |entries: &[LogEntry]| entries.iter().map(|e| e.json.clone()).collect::<Vec<_>>();
    assert_eq!(json(&read), json(&told));
}

pub(super) async fn a_message_keeps_the_name_its_author_had(s: &mut Story) {
    let a = agent(0);
    s.store.hello(&a, "ann", None, T0).await.unwrap();
    s.open("r", &a).await;
    let draft = s.draft("r", &a);
    let name: Arc<str> = "ann".into();
    s.append(Append { name, ..draft }).await;
    s.store.hello(&a, "anna", None, T0 + 1).await.unwrap();
    let draft = s.draft("r", &a);
    let (name, role) = ("anna".into(), Some("planner".into()));
    s.append(Append {
        name,
        role,
        ..draft
    })
    .await;
    let read = s.log("r", &a).await;
    assert!(read[0].json.contains(r#""name":"ann"}"#));
    assert!(read[1].json.contains(r#""name":"anna","role":"planner"}"#));
}

pub(super) async fn seq_grows_over_all_rooms(s: &mut Story) {
    let a = agent(0);
    s.open("one", &a).await;
    s.open("two", &a).await;
    let mut last = 0;
    for room in ["one", "two", "two", "one", "two"] {
        let entry = s.say(room, &a).await;
        assert!(entry.seq.0 > last);
        last = entry.seq.0;
    }
    let (one, two) = (s.log("one", &a).await, s.log("two", &a).await);
    assert_eq!((one.len(), two.len()), (2, 3));
    assert!(one.iter().all(|e| e.room == *"one"));
    assert!(two.iter().all(|e| e.room == *"two"));
}

pub(super) async fn seq_grows_on_after_a_restart(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    assert!(s.say("r", &a).await.seq.0 >= 1);
    for _ in 0..3 {
        let before = s.say("r", &a).await.seq;
        s.reopen().await;
        assert!(s.say("r", &a).await.seq > before);
    }
    let read = seqs(&s.log("r", &a).await);
    assert_eq!(read.len(), 7);
    assert!(read.is_sorted_by(|a, b| a < b));
}

pub(super) async fn only_members_append(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    s.store.hello(&b, "ben", None, T0).await.unwrap();
    s.heard.take();
    for (room, who) in [("r", &b), ("nowhere", &a), ("r", &agent(9)), ("R", &a)] {
        let outcome = s.store.append(s.draft(room, who)).await.unwrap();
        assert!(matches!(outcome, Appended::NotMember), "{outcome:?}");
    }
    assert_eq!(s.heard.take(), [""; 0]);
    assert!(s.log("r", &a).await.is_empty());
    s.join("r", &a, &[&b]).await;
    s.say("r", &b).await;
}

pub(super) async fn only_members_read(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    s.say("r", &a).await;
    for (room, who) in [("r", &b), ("nowhere", &a)] {
        for from in [ReadFrom::Since(Seq(0)), ReadFrom::Cursor { ack: None }] {
            let page = s.store.read(&RoomName::new(room), who, from, 10).await;
            assert!(page.unwrap().is_none());
        }
    }
}

pub(super) async fn a_read_begins_after_its_place_and_ends_at_its_limit(s: &mut Story) {
    let a = agent(0);
    let room = RoomName::new("r");
    s.open("r", &a).await;
    s.open("other", &a).await;
    let mut written = Vec::new();
    for _ in 0..10 {
        written.push(s.say("r", &a).await.seq.0);
        s.say("other", &a).await;
    }
    for (since, limit, expected) in [
        (0, 3, &written[..3]),
        (-5, 3, &written[..3]),
        (written[0], 2, &written[1..3]),
        (written[2] + 1, 100, &written[3..]),
        (written[8], 1, &written[9..]),
        (written[5], 0, &[]),
        (written[9], 5, &[]),
    ] {
        let from = ReadFrom::Since(Seq(since));
        let page = s.store.read(&room, &a, from, limit).await.unwrap().unwrap();
        assert_eq!(seqs(&page.entries), expected, "since {since} limit {limit}");
        assert_eq!((page.floor, page.cursor), (Seq(since), Seq(0)));
    }
    let all = ReadFrom::Since(Seq(0));
    let page = s.store.read(&room, &a, all, u32::MAX).await.unwrap();
    assert_eq!(seqs(&page.unwrap().entries), written);
}

pub(super) async fn a_read_beyond_the_head_is_empty(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    s.say("r", &a).await;
    for since in [1_000_000, i64::MAX] {
        let page = s.read("r", &a, ReadFrom::Since(Seq(since))).await;
        assert!(page.entries.is_empty());
        assert_eq!(page.floor, Seq(since));
    }
}

pub(super) async fn a_page_has_no_more_entries_than_any_page_may(s: &mut Story) {
    let (a, room) = (agent(0), RoomName::new("r"));
    s.open("r", &a).await;
    let mut committing = Vec::new();
    for _ in 0..=MAX_PAGE {
        let queued = s.store.submit(s.draft("r", &a)).await;
        committing.push(queued.unwrap());
    }
    for stored in together(committing).await {
        stored.unwrap();
    }
    let all = ReadFrom::Since(Seq(0));
    for (limit, entries) in [(MAX_PAGE - 1, MAX_PAGE - 1), (u32::MAX, MAX_PAGE)] {
        let page = s.store.read(&room, &a, all, limit).await.unwrap().unwrap();
        assert_eq!(page.entries.len(), entries as usize);
    }
}

pub(super) async fn a_page_ends_at_its_bytes_but_not_before_its_first_entry(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    let sized = |bytes: usize| -> Arc<str> {
        format!(r#"[{{"kind":"text","text":"{}"}}]"#, "x".repeat(bytes)).into()
    };
    let third = sized(PAGE_BYTES / 3);
    for parts in [third.clone(), third.clone(), third, sized(PAGE_BYTES)] {
        let draft = s.draft("r", &a);
        s.append(Append { parts, ..draft }).await;
    }
    s.say("r", &a).await;
    let mut pages = Vec::new();
    let mut since = Seq(0);
    loop {
        let page = s.read("r", &a, ReadFrom::Since(since)).await.entries;
        let Some(last) = page.last() else { break };
        since = last.seq;
        pages.push(page.len());
    }
    // Three thirds and their envelopes are more than one page.
    assert_eq!(pages, [2, 1, 1, 1]);
}

pub(super) async fn a_late_joiner_reads_everything(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.open("r", &a).await;
    let before = [s.say("r", &a).await.seq.0, s.say("r", &a).await.seq.0];
    s.join("r", &a, &[&b]).await;
    let page = s.read("r", &b, ReadFrom::Cursor { ack: None }).await;
    assert_eq!(seqs(&page.entries), before);
    assert_eq!((page.floor, page.cursor), (Seq(0), Seq(0)));
}

pub(super) async fn concurrent_appends_are_all_stored_once(s: &mut Story) {
    const AUTHORS: u8 = 8;
    const EACH: usize = 40;
    let (a, room) = (agent(0), RoomName::new("r"));
    s.open("r", &a).await;
    let authors: Vec<_> = (1..=AUTHORS).map(agent).collect();
    s.join("r", &a, &authors.iter().collect::<Vec<_>>()).await;
    let story: &Story = s;
    let entries: Vec<Vec<LogEntry>> = together(authors.iter().map(|author| {
        let said = async move {
            let mut said = Vec::new();
            for _ in 0..EACH {
                said.push(story.say("r", author).await);
            }
            said
        };
        Box::pin(said) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>
    }))
    .await;
    for said in &entries {
        assert!(said.is_sorted_by(|a, b| a.seq < b.seq));
    }
    let mut answered: Vec<_> = entries.concat();
    answered.sort_by_key(|entry| entry.seq);
    let read = story
        .store
        .read(&room, &a, ReadFrom::Since(Seq(0)), ALL_OF_IT);
    let read = read.await.unwrap().unwrap().entries;
    assert_eq!(read.len(), usize::from(AUTHORS) * EACH);
    let json = |entries: &[LogEntry]| entries.iter().map(|e| e.json.clone()).collect::<Vec<_>>();
    assert_eq!(json(&read), json(&answered));
}

pub(super) async fn messages_are_stored_in_the_order_in_which_they_were_queued(s: &mut Story) {
    let (a, rooms) = (agent(0), ["one", "two"]);
    for room in rooms {
        s.open(room, &a).await;
    }
    // Small ones and large ones, so that nothing lets one pass the other.
    let long: Arc<str> = format!(r#"["{}"]"#, "x".repeat(900_000)).into();
    let drafts: Vec<Append> = (0..300)
        .map(|n: usize| {
            let draft = s.draft(rooms[n % 2], &a);
            let parts = if n.is_multiple_of(7) {
                &long
            } else {
                &draft.parts
            };
            let parts = parts.clone();
            Append { parts, ..draft }
        })
        .collect();
    // More than may wait at once: whoever queues them waits now and then, and nobody overtakes.
    let mut committing = Vec::new();
    for draft in &drafts {
        committing.push(s.store.submit(draft.clone()).await.unwrap());
    }
    let outcomes = together(committing).await;
    let asked: Vec<_> = drafts.iter().map(|draft| draft.id.as_str()).collect();
    let told = s.heard.take_entries();
    let told_ids: Vec<_> = told.iter().map(|entry| &*entry.id).collect();
    assert_eq!(told_ids, asked);
    let answered = outcomes.into_iter().map(|outcome| match outcome.unwrap() {
        Appended::New(entry) => entry.seq,
        other => panic!("not stored: {other:?}"),
    });
    assert!(answered.eq(told.iter().map(|entry| entry.seq)));
}
