//! Why nothing happens to a turn, in words for a person: a pure function over what is known.

use parler_protocol::ids::short_id;
use parler_protocol::limits::TURN_STALL_SECS;
use parler_protocol::{TurnState, clean};
use parler_store::{TurnRow, addressee_id};

/// Milliseconds after which somebody should ask.
const STALL: i64 = (TURN_STALL_SECS * 1000) as i64;
/// Characters of a name in such a line.
const NAME_CHARS: usize = 40;

/// Somebody who may take the turn.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// Has a connection.
    pub online: bool,
    /// Would notice.
    pub listening: bool,
    /// Its cursor passed the turn.
    pub seen: bool,
    /// Milliseconds: when it did, if that is known.
    pub seen_at: Option<i64>,
    /// Milliseconds of its last sign of life; 0: never.
    pub last_seen: i64,
}

/// All that is known.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The turn.
    pub row: &'a TurnRow,
    /// Who may take it, as far as they are listed.
    pub known: &'a [Known],
    /// How many may take it.
    pub eligible: u32,
    /// Names of the room's members, as far as they are listed.
    pub members: &'a [String],
    /// How many members the room has.
    pub member_count: u32,
    /// Milliseconds.
    pub now: i64,
}

/// The first reason that holds; `None` when all is well, or over.
#[must_use]
pub fn reason(at: Snapshot<'_>) -> Option<String> {
    let turn = &at.row.turn;
    if turn.state.terminal() {
        return None;
    }
    if let Some(held) = &at.row.held {
        return Some(held.clone());
    }
    if turn.state == TurnState::Open {
        nobody(at)
            .or_else(|| offline(at))
            .or_else(|| deaf(at))
            .or_else(|| read(at))
            .or_else(|| unread(at))
            .or_else(|| ran_out(at))
    } else {
        ran_out(at)
    }
}

/// Nobody may take it.
fn nobody(at: Snapshot<'_>) -> Option<String> {
    if at.eligible > 0 {
        return None;
    }
    let Some(to) = &at.row.turn.to else {
        return Some("nobody else is in the room: invite somebody".into());
    };
    let who = match addressee_id(to) {
        Some(id) => format!("no other member has the id …{}", short_id(id.as_str())),
        None => format!("no member is named or has the role '{}'", shown(to)),
    };
    let mut members: Vec<String> = at.members.iter().map(|name| shown(name)).collect();
    let more = usize::try_from(at.member_count).unwrap_or(usize::MAX);
    let more = more.saturating_sub(members.len());
    if more > 0 {
        members.push(format!("{more} more"));
    }
    let goes_by_it = at
        .members
        .iter()
        .any(|name| name.trim().eq_ignore_ascii_case(to.trim()) && *name != at.row.turn.from.name);
    let hint = if goes_by_it {
        "; that name means somebody else here, the owner can bind it"
    } else {
        ""
    };
    Some(format!("{who}; members: {}{hint}", members.join(", ")))
}

/// Whoever may take it is away. Not said when some of them are not listed.
fn offline(at: Snapshot<'_>) -> Option<String> {
    if !listed(at) || at.known.iter().any(|k| k.online) {
        return None;
    }
    let last = at.known.iter().max_by_key(|k| k.last_seen)?;
    let name = shown(&last.name);
    let was = match last.last_seen {
        0 => format!("{name} was never here"),
        seen => format!("{name} was last seen {} ago", span(at.now - seen)),
    };
    Some(match at.known.len() {
        1 => was,
        n => format!("none of the {n} who may take it is online: {was}"),
    })
}

/// Whoever may take it is there, and nothing there would notice.
fn deaf(at: Snapshot<'_>) -> Option<String> {
    if !listed(at) || at.known.iter().any(|k| k.online && k.listening) {
        return None;
    }
    let online: Vec<_> = at.known.iter().filter(|k| k.online).collect();
    let first = online.first()?;
    Some(format!(
        "{}, nothing there listens: {} host cannot be woken",
        count(&first.name, online.len(), "is online", "are online"),
        if online.len() == 1 { "its" } else { "their" }
    ))
}

/// Somebody read it, long ago, and did not take it.
fn read(at: Snapshot<'_>) -> Option<String> {
    let opened = at.row.opened_at;
    let since = |k: &Known| k.seen_at.unwrap_or(opened).max(opened);
    let seen = at.known.iter().filter(|k| k.seen);
    let first = seen.min_by_key(|k| since(k))?;
    let ago = at.now - since(first);
    (ago >= STALL).then(|| {
        let name = shown(&first.name);
        format!("{name} read it {} ago and has not taken it", span(ago))
    })
}

/// Nobody who may take it has read it.
fn unread(at: Snapshot<'_>) -> Option<String> {
    let ago = at.now - at.row.opened_at;
    if ago < STALL || !listed(at) || at.known.iter().any(|k| k.seen) {
        return None;
    }
    let first = at.known.first()?;
    let who = count(&first.name, at.known.len(), "has", "have");
    Some(format!("{who} not read it for {}", span(ago)))
}

/// Somebody took it and was not heard of again.
fn ran_out(at: Snapshot<'_>) -> Option<String> {
    let (row, outs) = (at.row, at.row.run_outs);
    if outs == 0 {
        return None;
    }
    let taken = match row.turn.take {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    };
    let leases = match (outs, row.turn.take) {
        (1, 1) => "the lease ran out".to_owned(),
        (2, 2) => "both leases ran out".to_owned(),
        (1, _) => "one lease ran out".to_owned(),
        (n, _) => format!("{n} leases ran out"),
    };
    let last = match &row.last_holder {
        Some(name) => format!("; last by {}", shown(name)),
        None => String::new(),
    };
    Some(format!("taken {taken}, {leases}{last}"))
}

/// Whether all who may take it are listed.
fn listed(at: Snapshot<'_>) -> bool {
    usize::try_from(at.eligible).is_ok_and(|n| n <= at.known.len())
}

/// "webdev is", or "webdev and 2 more are".
fn count(first: &str, of: usize, one: &str, many: &str) -> String {
    match of {
        0 | 1 => format!("{} {one}", shown(first)),
        n => format!("{} and {} more {many}", shown(first), n - 1),
    }
}

/// A name that somebody chose, short and without tricks.
fn shown(name: &str) -> String {
    let clean = clean::name(name);
    match clean.char_indices().nth(NAME_CHARS) {
        Some((cut, _)) => format!("{}…", &clean[..cut]),
        None => clean,
    }
}

/// A span of time in one unit.
fn span(ms: i64) -> String {
    let secs = ms.max(0) / 1000;
    match secs {
        0..120 => format!("{secs} s"),
        120..7200 => format!("{} min", secs / 60),
        7200..172_800 => format!("{} h", secs / 3600),
        _ => format!("{} days", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_protocol::EndpointRef;
    use parler_protocol::turn::Turn;

    const NOW: i64 = 1_000_000_000;
    const MIN: i64 = 60_000;

    fn row(state: TurnState, to: Option<&str>, open_for: i64) -> TurnRow {
        TurnRow {
            turn: Turn {
                message: "m".into(),
                room: "r".into(),
                seq: 5,
                from: EndpointRef {
                    id: "UA".into(),
                    name: "planner".into(),
                    role: None,
                },
                to: to.map(Into::into),
                next: "go on".into(),
                summary: None,
                bundle: None,
                state,
                taken_by: None,
                taken_at: None,
                lease_until: None,
                take: 0,
                offered_at: NOW - open_for,
                finished_at: None,
                deadline: None,
                answered_at: None,
                note: None,
                result: None,
                seen_by: Vec::new(),
                stalled: None,
                audience: None,
                history: None,
            },
            opened_at: NOW - open_for,
            run_outs: 0,
            last_holder: None,
            held: None,
            rev: 1,
        }
    }

    fn known(name: &str, there: &str, seen: Option<i64>, last_seen: i64) -> Known {
        Known {
            name: name.into(),
            online: there != "off",
            listening: there == "hears",
            seen: seen.is_some(),
            seen_at: seen.map(|ago| NOW - ago),
            last_seen,
        }
    }

    fn told(row: &TurnRow, known: &[Known], members: &[&str]) -> Option<String> {
        let members: Vec<String> = members.iter().map(|m| (*m).to_owned()).collect();
        reason(Snapshot {
            row,
            known,
            eligible: u32::try_from(known.len()).unwrap_or(0),
            members: &members,
            member_count: u32::try_from(members.len()).unwrap_or(0),
            now: NOW,
        })
    }

    #[test]
    fn the_first_reason_that_holds() {
        let open = |open_for| row(TurnState::Open, Some("webdev"), open_for);
        let all = ["planner", "reviewer"];
        let web = |there: &str, seen| known("webdev", there, seen, NOW - 12 * MIN);
        let cat = |there: &str, seen| known("cat", there, seen, NOW - 30 * MIN);
        let table: &[(&str, i64, &[Known], Option<&str>)] = &[
            (
                "nobody",
                0,
                &[],
                Some("no member is named or has the role 'webdev'; members: planner, reviewer"),
            ),
            (
                "away",
                0,
                &[web("off", None)],
                Some("webdev was last seen 12 min ago"),
            ),
            (
                "all away",
                0,
                &[cat("off", None), web("off", None)],
                Some("none of the 2 who may take it is online: webdev was last seen 12 min ago"),
            ),
            (
                "never here",
                0,
                &[known("webdev", "off", None, 0)],
                Some("webdev was never here"),
            ),
            (
                "deaf",
                0,
                &[web("deaf", None), cat("off", None)],
                Some("webdev is online, nothing there listens: its host cannot be woken"),
            ),
            (
                "both deaf",
                0,
                &[web("deaf", None), cat("deaf", None)],
                Some(
                    "webdev and 1 more are online, nothing there listens: their host cannot be woken",
                ),
            ),
            ("well", 0, &[web("hears", None)], None),
            (
                "one hears",
                0,
                &[web("off", None), cat("hears", None)],
                None,
            ),
            ("just read", 10 * MIN, &[web("hears", Some(MIN))], None),
            (
                "read",
                10 * MIN,
                &[web("hears", Some(4 * MIN))],
                Some("webdev read it 4 min ago and has not taken it"),
            ),
            (
                "one of two read it long ago",
                10 * MIN,
                &[cat("hears", Some(MIN)), web("hears", Some(4 * MIN))],
                Some("webdev read it 4 min ago and has not taken it"),
            ),
            ("unread, but in time", MIN, &[web("hears", None)], None),
            (
                "unread",
                3 * MIN,
                &[web("hears", None)],
                Some("webdev has not read it for 3 min"),
            ),
            (
                "read before it was open again",
                MIN,
                &[web("hears", Some(9 * MIN))],
                None,
            ),
        ];
        for (case, open_for, known, expected) in table {
            let told = told(&open(*open_for), known, &all);
            assert_eq!(told.as_deref(), *expected, "{case}");
        }
    }

    #[test]
    fn leases_that_ran_out_are_told_of_when_nothing_else_is_wrong() {
        let well = [known("webdev", "hears", None, NOW)];
        for (take, outs, expected) in [
            (1, 1, "taken once, the lease ran out; last by webdev"),
            (2, 2, "taken twice, both leases ran out; last by webdev"),
            (3, 1, "taken 3 times, one lease ran out; last by webdev"),
            (5, 2, "taken 5 times, 2 leases ran out; last by webdev"),
        ] {
            for state in [TurnState::Open, TurnState::Taken] {
                let mut row = row(state, None, 0);
                (row.turn.take, row.run_outs) = (take, outs);
                row.last_holder = Some("webdev".into());
                assert_eq!(told(&row, &well, &[]).as_deref(), Some(expected));
            }
        }
        let taken = row(TurnState::Taken, None, 60 * MIN);
        assert_eq!(told(&taken, &[], &[]), None, "somebody is at it");
    }

    #[test]
    fn the_guard_comes_first_and_nothing_follows_an_end() {
        let mut held = row(TurnState::Open, None, 0);
        held.held = Some("the guard stopped this chain".into());
        let told_held = told(&held, &[], &[]);
        assert_eq!(told_held.as_deref(), Some("the guard stopped this chain"));
        held.turn.state = TurnState::Done;
        assert_eq!(told(&held, &[], &[]), None);
    }

    #[test]
    fn names_are_shown_short_and_without_tricks() {
        let evil = format!("we\u{202E}b\n{}", "x".repeat(100));
        let row = row(TurnState::Open, Some(&evil), 0);
        let told = told(&row, &[], &["planner"]).unwrap_or_default();
        assert!(!told.contains('\u{202E}') && !told.contains('\n'), "{told}");
        assert!(told.len() < 160, "{told}");
        let id = format!("U{}A", "A".repeat(54));
        let row = super::tests::row(TurnState::Open, Some(&id), 0);
        let told = super::tests::told(&row, &[], &["planner"]).unwrap_or_default();
        assert!(
            told.starts_with("no other member has the id …AAAAAA"),
            "{told}"
        );
    }

    #[test]
    fn a_name_that_means_somebody_else_is_explained() {
        let row = row(TurnState::Open, Some("Webdev"), 0);
        let told = told(&row, &[], &["planner", "webdev"]).unwrap_or_default();
        assert!(told.ends_with("the owner can bind it"), "{told}");
    }
}
