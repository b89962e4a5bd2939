//! What the turn ledger has to know of a message, read out of its parts.
//!
//! The parts of a plain message are never built for it: the check on the way in has noticed which
//! kinds stand in it.

use parler_protocol::parts::{HandoffRef, SigPart, Task, TaskStatus, TypedPart};
use parler_protocol::{Part, TurnState, limits};
use parler_store::{LedgerNotes, Offer, Report};

use crate::conn::parts::{Checked, Kinds};
use crate::error::OpError;

/// Kinds that the ledger reads.
const READ: Kinds = Kinds::HANDOFF.and(Kinds::TASK);

/// The notes of a message; `None` for a plain one.
///
/// # Errors
/// `bad_frame` for a deadline out of its bounds.
pub fn notes(
    parts: &Checked<Box<str>>,
    deadline_secs: Option<u64>,
    now: i64,
) -> Result<Option<Box<LedgerNotes>>, OpError> {
    if deadline_secs.is_some_and(|secs| !(1..=limits::MAX_DEADLINE_SECS).contains(&secs)) {
        return Err(OpError::bad_frame(format_args!(
            "`deadlineSecs` is 1 to {}",
            limits::MAX_DEADLINE_SECS
        )));
    }
    // A signed message is the usual one: only one that says where it stands in a chain is read.
    let in_chain = parts.kinds.any(Kinds::SIG) && parts.json.contains("\"hop\"");
    let files = parts.kinds.any(Kinds::FILE);
    if !parts.kinds.any(READ) && !in_chain {
        let notes = files.then(|| LedgerNotes {
            files,
            ..LedgerNotes::default()
        });
        return Ok(notes.map(Box::new));
    }
    let built: Vec<Part> = serde_json::from_str(&parts.json).map_err(OpError::bad_frame)?;
    let deadline = deadline_secs.and_then(|secs| i64::try_from(secs).ok());
    let offer = HandoffRef::find(&built).map(|handoff| Offer {
        next: handoff.next,
        summary: handoff.summary,
        to: handoff.to,
        bundle: handoff.bundle,
        deadline: deadline.map(|secs| now + secs * 1000),
    });
    let tasks: Vec<Task> = built.iter().filter_map(Task::from_part).collect();
    let report = tasks.iter().find_map(report);
    Ok(Some(Box::new(LedgerNotes {
        offer,
        progress: report.is_none() && !tasks.is_empty(),
        report,
        files,
        hop: SigPart::find(&built).and_then(|sig| sig.hop),
    })))
}

/// The end that a task part reports. Giving up is not one: who asked would have to hear of it from
/// the ledger itself.
fn report(task: &Task) -> Option<Report> {
    let end = match task.status {
        TaskStatus::Done => TurnState::Done,
        TaskStatus::Failed => TurnState::Failed,
        _ => return None,
    };
    Some(Report {
        end,
        note: task.note.clone(),
        result: task.result.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::parts::normalise;

    fn read(raw: &str, deadline: Option<u64>) -> Result<Option<Box<LedgerNotes>>, OpError> {
        let checked = normalise(raw).unwrap();
        let parts = Checked {
            json: checked.json.into(),
            kinds: checked.kinds,
        };
        notes(&parts, deadline, 1000)
    }

    #[test]
    fn a_plain_message_has_no_notes() {
        for raw in ["[]", r#"[{"kind":"text","text":"com.parler.handoff"}]"#] {
            assert_eq!(read(raw, None).unwrap(), None, "{raw}");
        }
    }

    #[test]
    fn the_first_handoff_that_can_be_read_offers() {
        let raw = r#"[{"kind":"com.parler.handoff"},
            {"kind":"com.parler.handoff","next":"one","to":"ben"},
            {"kind":"com.parler.handoff","next":"two"}]"#;
        let offer = read(raw, Some(5)).unwrap().unwrap().offer.unwrap();
        assert_eq!(
            (offer.next.as_str(), offer.to.as_deref()),
            ("one", Some("ben"))
        );
        assert_eq!(offer.deadline, Some(6000));
    }

    #[test]
    fn only_done_and_failed_are_ends() {
        for (status, end, progress) in [
            ("done", Some(TurnState::Done), false),
            ("failed", Some(TurnState::Failed), false),
            ("cancelled", None, true),
            ("working", None, true),
        ] {
            let raw = format!(r#"[{{"kind":"com.parler.task","status":"{status}","note":"n"}}]"#);
            let notes = read(&raw, None).unwrap().unwrap();
            assert_eq!(notes.report.map(|r| r.end), end, "{status}");
            assert_eq!(notes.progress, progress, "{status}");
        }
    }

    #[test]
    fn a_deadline_has_its_bounds() {
        for secs in [0, limits::MAX_DEADLINE_SECS + 1, u64::MAX] {
            assert!(read("[]", Some(secs)).is_err(), "{secs}");
        }
        assert!(
            read("[]", Some(1)).is_ok(),
            "without a handoff it says nothing"
        );
    }
}
