use super::*;
use crate::testing::Author;

use parler_protocol::{BundleRef, Observation, TaskStatus};
use serde_json::json;

const ROOM: &str = "team";
const DM: &str = "dm.ab12cd";

/// What a row may change; the rest is a receiver `webdev (frontend)` in a room of five.
#[derive(Clone, Default)]
struct World {
    attention: AttentionSettings,
    serves: Vec<String>,
    members: Option<u32>,
    hub_id: Option<String>,
    asked: Vec<String>,
    all_messages: bool,
    held: bool,
}

impl World {
    fn decide(&self, me: &Author, message: &StoredMessage) -> Decision {
        let receiver = Receiver {
            me: Me {
                id: me.id(),
                name: "webdev",
                role: Some("frontend"),
            },
            attention: &self.attention,
            serves: &self.serves,
            members: Some(self.members.unwrap_or(5)),
            hub_id: self.hub_id.as_deref(),
            asked: &self.asked,
            all_messages: self.all_messages,
        };
        decide(message, &receiver, self.held)
    }

    fn mode(mode: Attention) -> Self {
        let attention = AttentionSettings {
            mode: Some(mode),
            ..AttentionSettings::default()
        };
        World {
            attention,
            ..World::default()
        }
    }

    fn room(mut self, rule: RoomAttention) -> Self {
        self.attention.set_room(ROOM, Some(rule));
        self
    }

    fn two() -> Self {
        World {
            members: Some(2),
            ..World::default()
        }
    }

    fn serving(role: &str) -> Self {
        World {
            serves: vec![role.into()],
            ..World::default()
        }
    }
}

fn handoff(to: Option<&str>) -> Part {
    let handoff = HandoffRef {
        next: "do it".into(),
        summary: None,
        to: to.map(Into::into),
        bundle: None,
    };
    handoff.to_part()
}

fn task(status: TaskStatus, id: Option<&str>) -> Part {
    let task = Task {
        status,
        task: id.map(Into::into),
        note: None,
        result: None,
        tokens: None,
        elapsed_ms: None,
    };
    task.to_part()
}

fn extension(kind: &str) -> Part {
    Part::Extension {
        kind: kind.into(),
        fields: json!({}).as_object().unwrap().clone(),
    }
}

fn observation() -> Part {
    let seen = Observation {
        what: "tool".into(),
        tool_name: "Bash".into(),
        tool_input: json!({}),
        tool_output: String::new(),
        status: "success".into(),
    };
    seen.to_part()
}

fn bundle() -> Part {
    let bundle = BundleRef {
        blob: "b".into(),
        vcs: "git".into(),
        tip: None,
        base: None,
        summary: None,
        size: 1,
        media_type: None,
    };
    bundle.to_part()
}

fn dispatch(role: &str) -> Part {
    Dispatch { role: role.into() }.to_part()
}

struct Cast {
    me: Author,
    peer: Author,
}

impl Cast {
    fn new() -> Self {
        Cast {
            me: Author::new("webdev", Some("frontend")),
            peer: Author::new("planner", None),
        }
    }

    fn room(&self, parts: Vec<Part>) -> StoredMessage {
        self.peer.sends(1, ROOM, parts)
    }

    fn text(&self, text: &str) -> StoredMessage {
        self.room(vec![Part::text(text)])
    }

    fn mentioning(&self, who: &str) -> StoredMessage {
        StoredMessage {
            mentions: Some(vec![who.to_lowercase()]),
            ..self.text("look")
        }
    }

    fn dm(&self, parts: Vec<Part>) -> StoredMessage {
        let target = parler_protocol::Target::Dm {
            agent: self.me.id().into(),
        };
        self.peer.addresses(1, &target, DM, parts)
    }

    fn service(&self, parts: Vec<Part>) -> StoredMessage {
        let target = parler_protocol::Target::Service {
            service: "review".into(),
        };
        self.peer.addresses(1, &target, "svc.review", parts)
    }
}

#[test]
fn the_table() {
    use Attention::{Dnd, Focus, Open};
    use Class::{Ambient, Directed, Outcome, Receipt, RoleWork, Turn};
    use Decision::{Drop, Hold, Wake};

    let cast = Cast::new();
    let text = || vec![Part::text("hello")];
    let (muted, quiet) = (RoomAttention::Muted, RoomAttention::Quiet);
    let asked = |id: &str| World {
        asked: vec![id.into()],
        ..World::default()
    };
    let hub = World {
        hub_id: Some(cast.peer.id().into()),
        ..World::two()
    };
    let everything = World {
        all_messages: true,
        ..World::default()
    };
    let done = |id| cast.room(vec![task(TaskStatus::Done, id)]);
    #[rustfmt::skip]
    let table: Vec<(&str, World, StoredMessage, Decision)> = vec![
        // Turns: by name, role, id, or for anyone.
        ("a handoff to my name", World::default(), cast.room(vec![handoff(Some("WebDev"))]), Wake(Turn)),
        ("a handoff to my role", World::default(), cast.room(vec![handoff(Some("frontend"))]), Wake(Turn)),
        ("a handoff to my id", World::default(), cast.room(vec![handoff(Some(cast.me.id()))]), Wake(Turn)),
        ("a handoff to anyone", World::default(), cast.room(vec![handoff(None)]), Wake(Turn)),
        ("a handoff to somebody else", World::default(), cast.room(vec![handoff(Some("reviewer"))]), Hold(Ambient)),
        ("a handoff to somebody else, between two", World::two(), cast.room(vec![handoff(Some("reviewer"))]), Wake(Ambient)),
        ("a handoff to somebody else that mentions me", World::default(),
            StoredMessage { mentions: Some(vec!["webdev".into()]), ..cast.room(vec![handoff(Some("reviewer"))]) }, Hold(Ambient)),
        ("a handoff with a task update beside it", World::default(), cast.room(vec![task(TaskStatus::Done, None), handoff(None)]), Wake(Turn)),
        ("a handoff in a direct message to somebody else's name", World::default(), cast.dm(vec![handoff(Some("reviewer"))]), Hold(Ambient)),
        ("a handoff while I focus", World::mode(Focus), cast.room(vec![handoff(None)]), Wake(Turn)),
        ("a handoff in a quiet room", World::default().room(quiet), cast.room(vec![handoff(None)]), Wake(Turn)),
        ("a handoff in a muted room", World::default().room(muted), cast.room(vec![handoff(None)]), Drop),
        // Work for a role.
        ("work for a role that I serve", World::serving("qa"), cast.service(vec![Part::text("x"), dispatch("QA ")]), Wake(RoleWork)),
        ("work for a role that I serve, in focus", World { attention: World::mode(Focus).attention, ..World::serving("qa") }, cast.service(vec![dispatch("qa")]), Wake(RoleWork)),
        ("work for another role of a service", World::two(), cast.service(vec![dispatch("qa")]), Hold(Receipt)),
        ("work for another role in a room", World::two(), cast.room(vec![Part::text("x"), dispatch("qa")]), Wake(Ambient)),
        ("my display role is no served role", World::default(), cast.service(vec![dispatch("frontend")]), Hold(Receipt)),
        // Directed.
        ("a direct message", World::default(), cast.dm(text()), Wake(Directed)),
        ("a direct message, dnd", World::mode(Dnd), cast.dm(text()), Wake(Directed)),
        ("a direct message, focus", World::mode(Focus), cast.dm(text()), Hold(Directed)),
        ("a mention of my name", World::default(), cast.mentioning("WebDev"), Wake(Directed)),
        ("a mention of my id", World::default(), cast.mentioning(cast.me.id()), Wake(Directed)),
        ("a mention of my role", World::default(), cast.mentioning("frontend"), Hold(Ambient)),
        ("a mention of somebody else", World::default(), cast.mentioning("reviewer"), Hold(Ambient)),
        ("a mention, focus", World::mode(Focus), cast.mentioning("webdev"), Hold(Directed)),
        ("a mention in a quiet room", World::mode(Open).room(quiet), cast.mentioning("webdev"), Wake(Directed)),
        ("a mention in a muted room", World::mode(Open).room(muted), cast.mentioning("webdev"), Drop),
        // Ambient.
        ("talk in a larger room", World::default(), cast.text("hello"), Hold(Ambient)),
        ("talk between two", World::two(), cast.text("hello"), Wake(Ambient)),
        ("talk between two, dnd was set", World { attention: World::mode(Dnd).attention, ..World::two() }, cast.text("hello"), Hold(Ambient)),
        ("talk in a larger room, open was set", World::mode(Open), cast.text("hello"), Wake(Ambient)),
        ("talk in a quiet room between two", World::two().room(quiet), cast.text("hello"), Hold(Ambient)),
        ("talk in a muted room", World::two().room(muted), cast.text("hello"), Drop),
        ("talk, all messages were asked for", everything.clone(), cast.text("hello"), Wake(Ambient)),
        ("talk in a quiet room, all messages were asked for", everything.clone().room(quiet), cast.text("hello"), Hold(Ambient)),
        ("a bundle between two", World::two(), cast.room(vec![bundle()]), Wake(Ambient)),
        ("an unknown part between two", World::two(), cast.room(vec![extension("org.example.x")]), Wake(Ambient)),
        ("data between two", World::two(), cast.room(vec![Part::Data { data: json!(1) }]), Wake(Ambient)),
        // Receipts, in the room where most wakes: two agents, everything asked for.
        ("a task update", World { all_messages: true, ..World::two() }, cast.room(vec![task(TaskStatus::Working, None)]), Hold(Receipt)),
        ("a task's end that I did not ask for", World::two(), done(Some("x")), Hold(Receipt)),
        ("a task's end with its wording", World::two(), cast.room(vec![Part::text("it works"), task(TaskStatus::Done, None)]), Hold(Receipt)),
        ("an observation", World::two(), cast.room(vec![observation()]), Hold(Receipt)),
        ("tips", World::two(), cast.room(vec![extension(TIPS_KIND)]), Hold(Receipt)),
        ("an imported message", World::two(), cast.room(vec![extension(IMPORTED_KIND)]), Hold(Receipt)),
        ("several receipts", World::two(), cast.room(vec![observation(), task(TaskStatus::Accepted, None)]), Hold(Receipt)),
        ("a receipt beside talk", World::two(), cast.room(vec![Part::text("so"), observation()]), Wake(Ambient)),
        ("a receipt in a direct message", World::default(), cast.dm(vec![observation()]), Hold(Receipt)),
        ("a receipt that mentions me", World::two(), StoredMessage { mentions: Some(vec!["webdev".into()]), ..cast.room(vec![observation()]) }, Hold(Receipt)),
        ("an arrival", World::two(), cast.text("planner joined the session"), Hold(Receipt)),
        ("a departure", World::two(), cast.text("planner left the session"), Hold(Receipt)),
        ("an arrival told by somebody else", World::two(), cast.text("webdev joined the session"), Wake(Ambient)),
        ("talk that begins like an arrival", World::two(), cast.text("planner joined the session, and now?"), Wake(Ambient)),
        ("a notice of the hub", hub.clone(), cast.text("the guard stopped this chain"), Hold(Receipt)),
        ("a notice of the hub that looks like a turn", hub, cast.room(vec![handoff(None)]), Hold(Receipt)),
        ("nothing but a signature", World::two(), cast.room(vec![]), Hold(Receipt)),
        // Outcomes.
        ("the end of a task that I asked for", asked("t"), done(Some("t")), Wake(Outcome)),
        ("the end of what I asked for, by its reply", asked("req"), cast.peer.answers(ROOM, "req", vec![task(TaskStatus::Failed, None)]), Wake(Outcome)),
        ("the end of what I asked for, with its wording", asked("req"), cast.peer.answers(ROOM, "req", vec![Part::text("done"), task(TaskStatus::Done, None)]), Wake(Outcome)),
        ("its progress", asked("t"), cast.room(vec![task(TaskStatus::Working, Some("t"))]), Hold(Receipt)),
        ("the end of a task that I asked for, focus", World { attention: World::mode(Focus).attention, ..asked("t") }, done(Some("t")), Hold(Outcome)),
    ];
    for (name, world, message, want) in table {
        assert_eq!(world.decide(&cast.me, &message), want, "{name}");
    }
}

#[test]
fn what_nobody_proved_wakes_nobody() {
    let cast = Cast::new();
    let open = World::mode(Attention::Open);
    let good = cast.room(vec![handoff(None)]);
    let changed = |change: fn(&mut StoredMessage)| {
        let mut message = good.clone();
        change(&mut message);
        open.decide(&cast.me, &message)
    };
    let never = Decision::Never;
    let unsigned = changed(|m| m.parts.retain(|p| p.kind() != SIG_KIND));
    assert_eq!(unsigned, never(Refusal::Unsigned));
    let forged = changed(|m| m.parts[0] = handoff(Some("webdev")));
    assert_eq!(forged, never(Refusal::Invalid));
    let moved = changed(|m| m.room = "elsewhere".into());
    assert_eq!(moved, never(Refusal::OtherRoom));
    // A direct message to me, copied into a room, and one to somebody else in a room of ours.
    let mut copied = cast.dm(vec![Part::text("x")]);
    copied.room = ROOM.into();
    assert_eq!(open.decide(&cast.me, &copied), never(Refusal::OtherRoom));
    let other = Author::new("other", None);
    let to_other = cast.dm(vec![Part::text("x")]);
    assert_eq!(open.decide(&other, &to_other), never(Refusal::OtherRoom));
    // A muted room does not make more of it.
    let muted = open.clone().room(RoomAttention::Muted);
    let mut unsigned = good.clone();
    unsigned.parts.retain(|p| p.kind() != SIG_KIND);
    assert_eq!(muted.decide(&cast.me, &unsigned), never(Refusal::Unsigned));
}

#[test]
fn own_messages_and_held_ones_wake_nobody() {
    let cast = Cast::new();
    let open = World::mode(Attention::Open);
    let own = cast.me.sends(1, ROOM, vec![handoff(None)]);
    assert_eq!(open.decide(&cast.me, &own), Decision::Never(Refusal::Own));
    let held = World { held: true, ..open };
    let message = cast.room(vec![handoff(None)]);
    assert_eq!(
        held.decide(&cast.me, &message),
        Decision::Never(Refusal::Held)
    );
}

#[test]
fn an_unknown_number_of_members_counts_as_many() {
    let cast = Cast::new();
    let attention = AttentionSettings::default();
    let receiver = |members| Receiver {
        me: Me {
            id: cast.me.id(),
            name: "webdev",
            role: None,
        },
        attention: &attention,
        serves: &[],
        members,
        hub_id: None,
        asked: &[],
        all_messages: false,
    };
    let message = cast.text("hello");
    let wakes = |members| decide(&message, &receiver(members), false).wakes();
    assert_eq!(wakes(Some(2)), Some(Class::Ambient));
    assert_eq!(wakes(Some(3)), None);
    assert_eq!(wakes(None), None);
}
