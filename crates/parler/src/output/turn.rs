//! How turns of the ledger look on a terminal.
//!
//! A row is what the hub says of a turn, and nobody signed it: it never shows the instruction. That
//! stands in the message, which is checked.

use parler_protocol::{Turn, TurnState};

use super::human::{Paint, line, name, place, words};

/// One turn: a row, and below it why nothing happens.
pub fn row(turn: &Turn, now: i64, paint: Paint) -> String {
    let to = turn.to.as_deref().map_or("anyone".to_owned(), name);
    let holder = turn.taken_by.as_ref().map(|by| match turn.state {
        TurnState::Taken => format!(", taken by {}", name(&by.name)),
        _ => format!(", by {}", name(&by.name)),
    });
    let since = turn
        .finished_at
        .or(turn.taken_at)
        .unwrap_or(turn.offered_at);
    let row = format!(
        "{:<9} {}  {} → {to} in {}{}, {} ago",
        turn.state.as_str(),
        line(&turn.message),
        name(&turn.from.name),
        place(&turn.room),
        holder.unwrap_or_default(),
        span(now - since),
    );
    let mut row = match turn.state {
        TurnState::Taken => paint.turn(&row),
        TurnState::Open => paint.strong(&row),
        _ => row,
    };
    if let Some(stalled) = &turn.stalled {
        row.push_str(&format!(
            "\n    {}",
            paint.warn(&format!("stalled: {}", words(stalled)))
        ));
    }
    if let Some(note) = &turn.note {
        row.push_str(&format!("\n    note: {}", words(note)));
    }
    row
}

/// What a handoff that was just sent can hope for.
pub fn prospects(turn: &Turn) -> Option<String> {
    let audience = turn.audience?;
    let why = turn.stalled.as_deref().map(words).unwrap_or_default();
    let said = match (audience.eligible, audience.online, audience.listening) {
        (0, _, _) => format!("nobody can take it: {why}"),
        (_, 0, _) => format!("nobody who can take it is online: {why}"),
        (_, _, 0) => format!("nobody who can take it listens: {why}"),
        (1, _, _) => "who can take it is listening".to_owned(),
        (all, _, some) => format!("{some} of the {all} that can take it are listening"),
    };
    Some(said)
}

/// How a turn ended, or that it did not.
pub fn end(turn: &Turn) -> String {
    let by = turn
        .taken_by
        .as_ref()
        .map(|by| format!(" by {}", name(&by.name)));
    let mut text = format!(
        "turn {}: {}{}",
        line(&turn.message),
        turn.state.as_str(),
        by.unwrap_or_default()
    );
    if let Some(note) = &turn.note {
        text.push_str(&format!("\n    note: {}", words(note)));
    }
    if let Some(result) = &turn.result {
        text.push_str(&format!("\n    result: {}", line(result)));
    }
    text
}

/// A span of time in the largest unit that fits.
pub fn span(ms: i64) -> String {
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
    use parler_protocol::turn::Audience;

    fn turn() -> Turn {
        let json = serde_json::json!({
            "message": "0199", "room": "auth", "seq": 4, "from": {"id": "UA", "name": "ann"},
            "to": "web\u{1b}[2Jdev", "next": "do not show this", "state": "open", "take": 0,
            "offeredAt": 0, "seenBy": [],
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_row_says_who_waits_for_whom_and_shows_no_instruction() {
        let mut turn = turn();
        turn.stalled = Some("webdev was last seen 12 min ago\nopen      forged".into());
        let shown = row(&turn, 300_000, Paint::new(false));
        assert!(shown.starts_with("open      0199  ann → web"), "{shown}");
        assert!(
            shown.contains("in session 'auth', 5 min ago\n    stalled: webdev"),
            "{shown}"
        );
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(
            !shown.contains("do not show") && !shown.contains('\u{1b}'),
            "{shown}"
        );
        turn.state = TurnState::Taken;
        turn.taken_at = Some(299_000);
        turn.taken_by = Some(EndpointRef {
            id: "UB".into(),
            name: "ben".into(),
            role: None,
        });
        let shown = row(&turn, 300_000, Paint::new(false));
        assert!(shown.contains(", taken by ben, 1 s ago"), "{shown}");
    }

    #[test]
    fn a_handoff_has_four_prospects() {
        let said = |eligible, online, listening| {
            let mut turn = turn();
            turn.stalled = (listening == 0).then(|| "why".to_owned());
            turn.audience = Some(Audience {
                eligible,
                online,
                listening,
            });
            prospects(&turn).unwrap()
        };
        assert_eq!(said(0, 0, 0), "nobody can take it: why");
        assert_eq!(said(2, 0, 0), "nobody who can take it is online: why");
        assert_eq!(said(2, 1, 0), "nobody who can take it listens: why");
        assert_eq!(said(1, 1, 1), "who can take it is listening");
        assert_eq!(said(3, 2, 1), "1 of the 3 that can take it are listening");
        assert_eq!(prospects(&turn()), None, "a hub that does not say");
    }
}
