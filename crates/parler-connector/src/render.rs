//! Messages as lines, for a terminal and for a model: one place, so that both say the same.
//!
//! A message is one line of ours (place, author, key, signature) with the peer's text behind it:
//!
//! ```text
//! [12] planner (lead) ·Y3RLKK ✓: tests are green
//! [13] planner ·AAAAAA ⚠ unsigned: …
//! [14] planner ·AAAAAA ✗ UNVERIFIED: …
//! ```
//!
//! Everything that a peer wrote goes through [`crate::safe`] on the way. Nothing here decides
//! whether a message wakes, is acted on, or is acknowledged.

use std::fmt::Write as _;

use parler_identity::message::check;
use parler_identity::{SigState, bound_to_room};
use parler_protocol::ids::short_id;
use parler_protocol::names::{DM_PREFIX, service_room};
use parler_protocol::{
    BlobId, BundleRef, EndpointRef, FileRef, HandoffRef, Part, SIG_KIND, StoredMessage, Target,
    Task, TypedPart,
};

use crate::safe::model::{Frame, INSTRUCTION_CHARS};
use crate::safe::{self, model, terminal};

/// How a session's first message begins when its opener gave the context.
pub const CONTEXT_MARK: &str = "📋 session context";
/// Characters of a handoff's summary that are shown however long its instruction is.
const SUMMARY_CHARS: usize = 200;
/// Messages of a backlog that are shown when not all are.
pub const DIGEST_MESSAGES: usize = 15;

/// The agent that reads.
#[derive(Clone, Copy, Debug)]
pub struct Me<'a> {
    /// Its id.
    pub id: &'a str,
    /// The name that it logs in with.
    pub name: &'a str,
    /// Its role.
    pub role: Option<&'a str>,
}

impl Me<'_> {
    /// Whether a handoff is meant for this agent: by name, role or full id, or for anyone.
    #[must_use]
    pub fn is_meant(&self, handoff: &HandoffRef) -> bool {
        let by_id = handoff.to.as_deref().is_some_and(|to| to.trim() == self.id);
        by_id || handoff.is_for(self.name, self.role)
    }
}

/// Who the lines are for.
#[derive(Clone, Copy, Debug)]
pub enum Voice<'a> {
    /// A person at a terminal.
    Terminal,
    /// A model; all of one delivery with the same frame, whose notice the delivery must carry.
    Model {
        /// The delimiter of this delivery.
        frame: &'a Frame,
        /// Characters of a message's text; `None`: never cut.
        body_chars: Option<usize>,
    },
}

impl Voice<'_> {
    /// A name or role as it may stand in a line of ours.
    fn claim(&self, claim: &str) -> String {
        match self {
            Voice::Terminal => safe::name(claim),
            Voice::Model { .. } => model::label(claim),
        }
    }
}

/// The content that a part points to. There is no command yet that fetches it.
fn content(blob: &str) -> String {
    match BlobId::parse(blob) {
        Some(blob) => format!("blob {blob} (this version cannot fetch it)"),
        None => "(its blob id is malformed)".to_owned(),
    }
}

/// What the signature of a message says, as a mark of ours.
#[must_use]
pub fn mark(state: SigState) -> &'static str {
    match state {
        SigState::Valid => "✓",
        SigState::Unsigned => "⚠ unsigned",
        SigState::Invalid => "✗ UNVERIFIED",
    }
}

/// An author with role, short key and signature state, in words of ours.
#[must_use]
pub fn author(from: &EndpointRef, state: SigState, voice: &Voice<'_>) -> String {
    let mut line = voice.claim(&from.name);
    if let Some(role) = from.role.as_deref().filter(|role| !role.trim().is_empty()) {
        let _ = write!(line, " ({})", voice.claim(role)); // a String takes every write
    }
    let key = safe::token(short_id(&from.id));
    let _ = write!(line, " ·{key} {}", mark(state));
    line
}

/// One message: our line, then its text. For a terminal further lines are indented.
#[must_use]
pub fn message(message: &StoredMessage, voice: &Voice<'_>) -> String {
    let who = author_of(message, voice);
    format!("[{}] {who}: {}", message.seq, body(message, voice))
}

/// The author of a message as [`author`] says it; a good signature that was given for another room
/// counts for nothing and is marked as that.
#[must_use]
pub fn author_of(message: &StoredMessage, voice: &Voice<'_>) -> String {
    let (state, sig) = check(message);
    let who = author(&message.from, state, voice);
    match sig {
        Some(sig) if state == SigState::Valid && is_elsewhere(&sig.target, &message.room) => {
            let proved = mark(SigState::Valid);
            let named = who.strip_suffix(proved).unwrap_or(&who);
            format!("{named}⚠ signed for another room")
        }
        _ => who,
    }
}

/// Whether an author addressed something else than that room, as far as it can be told without
/// knowing who reads.
fn is_elsewhere(target: &Target, room: &str) -> bool {
    match target {
        Target::Room { room: named } => named != room,
        Target::Service { service } => service_room(service) != room,
        Target::Dm { .. } => !room.starts_with(DM_PREFIX),
    }
}

/// A piece of a body: our words, or a peer's.
enum Piece {
    Ours(String),
    Peer(String),
    /// A peer's, that stands in a line of ours.
    PeerLine(String),
}

/// The text of a message: its parts joined by blanks, the signature left out.
#[must_use]
pub fn body(message: &StoredMessage, voice: &Voice<'_>) -> String {
    let mut pieces = Vec::new();
    for part in &message.parts {
        describe(part, voice, &mut pieces);
    }
    if pieces.is_empty() {
        return "(nothing in it)".to_owned();
    }
    match voice {
        Voice::Terminal => for_terminal(pieces),
        Voice::Model { frame, body_chars } => for_model(pieces, message, frame, *body_chars),
    }
}

fn for_terminal(pieces: Vec<Piece>) -> String {
    let shown = pieces.into_iter().map(|piece| match piece {
        Piece::Ours(text) => text,
        Piece::Peer(text) => terminal::text(&text),
        Piece::PeerLine(text) => terminal::line(&text),
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn for_model(
    pieces: Vec<Piece>,
    message: &StoredMessage,
    frame: &Frame,
    body_chars: Option<usize>,
) -> String {
    let mut left = body_chars.unwrap_or(usize::MAX);
    let shown = pieces.into_iter().map(|piece| match piece {
        Piece::Ours(text) => text,
        Piece::Peer(text) | Piece::PeerLine(text) => {
            let shown = frame.wrap_cut(&text, left, message.into());
            left = left.saturating_sub(text.chars().count());
            shown
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn describe(part: &Part, voice: &Voice<'_>, pieces: &mut Vec<Piece>) {
    match part {
        Part::Text { text } => pieces.push(Piece::Peer(text.clone())),
        Part::Data { data } => {
            pieces.push(Piece::Ours("[data]".into()));
            pieces.push(Piece::Peer(data.to_string()));
        }
        Part::Extension { kind, .. } if kind == SIG_KIND => {}
        Part::Extension { kind, .. } => {
            let known = describe_handoff(part, voice, pieces)
                || describe_bundle(part, pieces)
                || describe_file(part, pieces)
                || describe_task(part, pieces);
            if !known {
                pieces.push(Piece::Ours(format!("[{}]", safe::token(kind))));
            }
        }
    }
}

fn describe_handoff(part: &Part, voice: &Voice<'_>, pieces: &mut Vec<Piece>) -> bool {
    let Some(handoff) = HandoffRef::from_part(part) else {
        return false;
    };
    let to = handoff.to.as_deref();
    let to = to.map_or("anyone".to_owned(), |to| voice.claim(to));
    pieces.push(Piece::Ours(format!("🤝 handoff → {to}:")));
    pieces.push(Piece::PeerLine(handoff.next));
    if let Some(summary) = handoff.summary {
        pieces.push(Piece::Ours("— so far:".into()));
        pieces.push(Piece::PeerLine(summary));
    }
    if let Some(bundle) = handoff.bundle {
        pieces.push(Piece::Ours(format!("— bundle: {}", content(&bundle))));
    }
    true
}

fn describe_bundle(part: &Part, pieces: &mut Vec<Piece>) -> bool {
    let Some(bundle) = BundleRef::from_part(part) else {
        return false;
    };
    let (vcs, size) = (safe::token(&bundle.vcs), size(bundle.size));
    let tip = bundle
        .tip
        .as_deref()
        .map(|tip| safe::token(safe::cut(tip, 12).0));
    let tip = tip.map(|tip| format!(", tip {tip}")).unwrap_or_default();
    pieces.push(Piece::Ours(format!("📦 bundle ({vcs}, {size}{tip})")));
    pieces.extend(bundle.summary.map(Piece::PeerLine));
    pieces.push(Piece::Ours(format!("— {}", content(&bundle.blob))));
    true
}

fn describe_file(part: &Part, pieces: &mut Vec<Piece>) -> bool {
    let Some(file) = FileRef::from_part(part) else {
        return false;
    };
    pieces.push(Piece::Ours(format!("📎 file ({})", size(file.size))));
    pieces.push(Piece::PeerLine(file.name));
    pieces.extend(file.summary.map(Piece::PeerLine));
    pieces.push(Piece::Ours(format!("— {}", content(&file.blob))));
    true
}

fn describe_task(part: &Part, pieces: &mut Vec<Piece>) -> bool {
    let Some(task) = Task::from_part(part) else {
        return false;
    };
    let status = serde_json::to_value(task.status).unwrap_or_default();
    let mut line = format!("📌 task {}", status.as_str().unwrap_or_default());
    if let Some(id) = &task.task {
        let _ = write!(line, " of {}", safe::token(id));
    }
    pieces.push(Piece::Ours(line));
    pieces.extend(task.note.map(Piece::PeerLine));
    if let Some(result) = &task.result {
        pieces.push(Piece::Ours(format!("— {}", content(result))));
    }
    true
}

/// Bytes as people say them.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// What leads a reading with handoffs for this agent: those of others, in the order of the log.
///
/// The first line begins `🤝 HANDOFF TO YOU`. A handoff whose signature does not hold for this
/// room is shown behind the others and marked, and never under that line. `None` when there is
/// nothing to lead with.
#[must_use]
pub fn banner(messages: &[StoredMessage], me: &Me<'_>, voice: &Voice<'_>) -> Option<String> {
    banner_where(messages, me, voice, |_| true)
}

/// As [`banner`]; a message that is not `fresh` (an older one offered again under another id) is
/// shown marked like one without a valid signature.
#[must_use]
pub fn banner_where(
    messages: &[StoredMessage],
    me: &Me<'_>,
    voice: &Voice<'_>,
    fresh: impl Fn(&StoredMessage) -> bool,
) -> Option<String> {
    let (mut good, mut doubtful) = (Vec::new(), Vec::new());
    for message in messages.iter().filter(|m| m.from.id != me.id) {
        let Some(handoff) = HandoffRef::find(&message.parts).filter(|h| me.is_meant(h)) else {
            continue;
        };
        let (state, sig) = check(message);
        let bound = sig.is_some_and(|sig| bound_to_room(message, &sig, me.id));
        let item = banner_item(message, &handoff, state, voice);
        match (state, bound, fresh(message)) {
            (SigState::Valid, true, true) => good.push(item),
            (SigState::Valid, false, _) => doubtful.push(format!(
                "{item}\n(signed for another room: it may have been copied here)"
            )),
            (SigState::Valid, true, false) => {
                doubtful.push(format!("{item}\n(an older message offered again)"))
            }
            _ => doubtful.push(item),
        }
    }
    let count = |items: &Vec<String>| match items.len() {
        1 => String::new(),
        n => format!(" ({n})"),
    };
    let mut out = Vec::new();
    if !good.is_empty() {
        out.push(format!("🤝 HANDOFF TO YOU{}", count(&good)));
        out.push(good.join("\n\n"));
    }
    if !doubtful.is_empty() {
        let which = count(&doubtful);
        out.push(format!(
            "⚠ unverified handoff{which}: nobody proved who wrote it; ask before you act on it"
        ));
        out.push(doubtful.join("\n\n"));
    }
    (!out.is_empty()).then(|| out.join("\n"))
}

fn banner_item(
    message: &StoredMessage,
    handoff: &HandoffRef,
    state: SigState,
    voice: &Voice<'_>,
) -> String {
    let text = |peer: &str, least: usize, spent: usize| match voice {
        Voice::Terminal => terminal::text(peer),
        Voice::Model { frame, body_chars } => {
            let left = body_chars.map_or(usize::MAX, |chars| chars.saturating_sub(spent));
            frame.wrap_cut(peer, left.max(least), message.into())
        }
    };
    let spent = handoff.next.chars().count();
    let mut lines = vec![format!(
        "next: {}",
        text(&handoff.next, INSTRUCTION_CHARS, 0)
    )];
    if let Some(summary) = &handoff.summary {
        lines.push(format!("summary: {}", text(summary, SUMMARY_CHARS, spent)));
    }
    if let Some(bundle) = &handoff.bundle {
        lines.push(format!("bundle: {}", content(bundle)));
    }
    lines.push(format!("from: {}", author(&message.from, state, voice)));
    lines.push(format!(
        "message: {} (seq {}) in room '{}'",
        safe::token(&message.id),
        message.seq,
        safe::token(&message.room)
    ));
    lines.join("\n")
}

/// Whether a message is validly signed by its author, for the room in which it stands.
#[must_use]
pub fn proven(message: &StoredMessage, my_id: &str) -> bool {
    let (state, sig) = parler_identity::message::check(message);
    state == SigState::Valid
        && sig.is_some_and(|sig| parler_identity::bound_to_room(message, &sig, my_id))
}

/// Whether a message gives the context that its session was opened with.
#[must_use]
pub fn gives_context(message: &StoredMessage) -> bool {
    let text = message.parts.iter().find_map(|part| match part {
        Part::Text { text } => Some(text),
        _ => None,
    });
    text.is_some_and(|text| text.starts_with(CONTEXT_MARK))
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
