//! Logins and presence.

use parler_protocol::Attention;

use super::story::{Story, T0, agent};
use crate::PresenceRow;

fn presence(
    status: &str,
    activity: Option<&str>,
    attention: Option<Attention>,
    at: i64,
) -> Option<PresenceRow> {
    Some(PresenceRow {
        status: status.into(),
        activity: activity.map(str::to_owned),
        attention,
        at,
    })
}

pub(super) async fn a_login_overwrites_name_and_role(s: &mut Story) {
    let a = agent(0);
    s.store.hello(&a, "ann", Some("planner"), T0).await.unwrap();
    s.open("r", &a).await;
    let row = s.member("r", &a, &a).await;
    assert_eq!(
        (row.name.as_str(), row.role.as_deref()),
        ("ann", Some("planner"))
    );
    assert_eq!(row.last_hello, T0);

    s.store.hello(&a, "anna", None, T0 + 5).await.unwrap();
    let row = s.member("r", &a, &a).await;
    assert_eq!((row.name.as_str(), row.role), ("anna", None));
    assert_eq!(row.last_hello, T0 + 5);
}

pub(super) async fn a_login_makes_the_agent_idle_and_keeps_its_attention(s: &mut Story) {
    let a = agent(0);
    s.store.hello(&a, "ann", None, T0).await.unwrap();
    s.open("r", &a).await;
    let row = s.member("r", &a, &a).await;
    assert_eq!(row.presence, presence("idle", None, None, T0));

    let dnd = Some(Attention::Dnd);
    let set = s
        .store
        .set_presence(&a, "working", Some("tests"), dnd, T0 + 1);
    set.await.unwrap();
    s.store.hello(&a, "ann", None, T0 + 2).await.unwrap();
    let row = s.member("r", &a, &a).await;
    assert_eq!(row.presence, presence("idle", None, dnd, T0 + 2));
}

pub(super) async fn presence_keeps_the_attention_unless_given(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    let focus = Some(Attention::Focus);
    for (status, activity, given, at) in [
        ("working", Some("tests"), focus, T0),
        ("waiting", None, None, T0 + 1),
        ("working", Some("more"), None, T0 + 2),
    ] {
        let set = s.store.set_presence(&a, status, activity, given, at);
        set.await.unwrap();
        let row = s.member("r", &a, &a).await;
        assert_eq!(row.presence, presence(status, activity, focus, at));
    }
    let open = Some(Attention::Open);
    let set = s.store.set_presence(&a, "idle", None, open, T0 + 3);
    set.await.unwrap();
    let row = s.member("r", &a, &a).await;
    assert_eq!(row.presence, presence("idle", None, open, T0 + 3));
}

pub(super) async fn attention_keeps_status_and_activity(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    let set = s.store.set_presence(&a, "working", Some("tests"), None, T0);
    set.await.unwrap();
    let set = s.store.set_attention(&a, Attention::Dnd, T0 + 1);
    set.await.unwrap();
    let row = s.member("r", &a, &a).await;
    let dnd = Some(Attention::Dnd);
    assert_eq!(
        row.presence,
        presence("working", Some("tests"), dnd, T0 + 1)
    );
}

pub(super) async fn a_first_presence_or_attention_makes_a_row(s: &mut Story) {
    let (a, b, c) = (agent(0), agent(1), agent(2));
    let set = s.store.set_presence(&a, "waiting", None, None, T0);
    set.await.unwrap();
    let set = s.store.set_attention(&b, Attention::Focus, T0);
    set.await.unwrap();
    s.open("r", &a).await;
    s.join("r", &a, &[&b, &c]).await;
    assert_eq!(
        s.member("r", &a, &a).await.presence,
        presence("waiting", None, None, T0)
    );
    assert_eq!(
        s.member("r", &a, &b).await.presence,
        presence("idle", None, Some(Attention::Focus), T0)
    );
    assert_eq!(s.member("r", &a, &c).await.presence, None);
}

pub(super) async fn a_touch_refreshes_many_and_changes_nothing_else(s: &mut Story) {
    let (a, b) = (agent(0), agent(1));
    s.store.hello(&a, "ann", Some("planner"), T0).await.unwrap();
    let dnd = Some(Attention::Dnd);
    let set = s.store.set_presence(&a, "working", Some("tests"), dnd, T0);
    set.await.unwrap();
    let seen = vec![(a.clone(), T0 + 7), (b.clone(), T0 + 8)];
    s.store.touch(seen).await.unwrap();
    s.open("r", &a).await;
    s.join("r", &a, &[&b]).await;
    let row = s.member("r", &a, &a).await;
    assert_eq!(
        row.presence,
        presence("working", Some("tests"), dnd, T0 + 7)
    );
    assert_eq!((row.name.as_str(), row.last_hello), ("ann", T0));
    let row = s.member("r", &a, &b).await;
    assert_eq!(row.presence, presence("idle", None, None, T0 + 8));

    s.store.touch(Vec::new()).await.unwrap();
}

pub(super) async fn an_older_touch_changes_nothing(s: &mut Story) {
    let a = agent(0);
    s.store.hello(&a, "ann", None, T0).await.unwrap();
    s.open("r", &a).await;
    let seen = vec![
        (a.clone(), T0 - 1),
        (a.clone(), T0 + 2),
        (a.clone(), T0 + 1),
    ];
    s.store.touch(seen).await.unwrap();
    let row = s.member("r", &a, &a).await;
    assert_eq!(row.presence, presence("idle", None, None, T0 + 2));
}

pub(super) async fn a_login_keeps_texts_as_they_are(s: &mut Story) {
    let a = agent(0);
    s.open("r", &a).await;
    for name in ["", "O'Brien; DROP TABLE agents --", "né ☃ 🤝", "a%b_c"] {
        s.store.hello(&a, name, Some(name), T0).await.unwrap();
        let set = s.store.set_presence(&a, name, Some(name), None, T0);
        set.await.unwrap();
        let row = s.member("r", &a, &a).await;
        assert_eq!((row.name.as_str(), row.role.as_deref()), (name, Some(name)));
        assert_eq!(row.presence, presence(name, Some(name), None, T0));
    }
}
