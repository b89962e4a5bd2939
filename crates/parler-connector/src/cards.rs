//! The cards that this machine has seen and checked: the last one of each id, kept in the base
//! home, so that a hub that shows another one is noticed.
//!
//! A card is checked against its own id, whatever the hub says of it. One that does not verify is
//! kept out: it neither replaces what is known nor names anybody.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parler_identity::{KeyFileError, keyfile};
use parler_protocol::{AgentCard, DirectoryEntry};
use serde::{Deserialize, Serialize};

use crate::directory::{CardState, check};
use crate::lock;

/// Cards that are kept: more agents than one meets on a hub. Beyond it those go that were not
/// shown for the longest time.
pub const MAX_CARDS: usize = 256;
/// A card larger than this is checked and not kept, so that the file stays below 2 MiB.
const MAX_CARD_BYTES: usize = 8 * 1024;
/// The largest file that is read.
const MAX_FILE_BYTES: usize = 2 * MAX_CARDS * MAX_CARD_BYTES;
/// How long another process may hold the file; nothing is remembered then.
const WAIT: Duration = Duration::from_millis(500);
/// That a card is still the same is noted once a day: otherwise every look would write.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// What a shown card is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its signature.
    pub state: CardState,
    /// It differs from the one that was last seen then, in milliseconds since the epoch. Its
    /// signature is valid: its owner has changed it, or the hub shows an older one.
    pub changed_since: Option<i64>,
}

/// One card that was checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Known {
    card: AgentCard,
    sig: String,
    /// When it was last shown, to a day.
    seen_ms: i64,
}

#[derive(Default, Serialize, Deserialize)]
struct File {
    cards: Vec<Known>,
}

/// The cards of a base home.
#[derive(Clone, Debug)]
pub struct KnownCards {
    path: PathBuf,
}

impl KnownCards {
    /// Those of that base home; reads and creates nothing yet.
    #[must_use]
    pub fn open(base: &Path) -> Self {
        KnownCards {
            path: base.join("cards.json"),
        }
    }

    /// The last card of that id that was checked, if it was kept.
    #[must_use]
    pub fn last(&self, id: &str) -> Option<AgentCard> {
        let known = self.read().into_iter().find(|known| known.card.id == id)?;
        Some(known.card)
    }

    /// Judges cards that a hub shows, and remembers those whose signature is valid.
    ///
    /// # Errors
    /// When the file cannot be written; the verdicts are lost with it, nothing else.
    pub fn judge(
        &self,
        shown: &[DirectoryEntry],
        now_ms: i64,
    ) -> Result<Vec<Verdict>, KeyFileError> {
        // Without the lock nothing is written: the next look does.
        let held = lock::exclusive(&self.path.with_extension("lock"), WAIT);
        let mut known: HashMap<String, Known> = self
            .read()
            .into_iter()
            .map(|known| (known.card.id.clone(), known))
            .collect();
        let mut changed = false;
        let verdicts = shown
            .iter()
            .map(|entry| {
                let state = check(entry);
                let (CardState::Valid, Some(sig)) = (state, &entry.sig) else {
                    return Verdict {
                        state,
                        changed_since: None,
                    };
                };
                let before = known.get(&entry.card.id);
                let differs = before.filter(|before| before.card != entry.card);
                let changed_since = differs.map(|before| before.seen_ms);
                let stale = before.is_none_or(|known| now_ms - known.seen_ms >= DAY_MS);
                if changed_since.is_some() || stale {
                    changed = true;
                    let now = Known {
                        card: entry.card.clone(),
                        sig: sig.clone(),
                        seen_ms: now_ms,
                    };
                    known.insert(entry.card.id.clone(), now);
                }
                Verdict {
                    state,
                    changed_since,
                }
            })
            .collect();
        if changed && matches!(held, Ok(Some(_))) {
            self.write(known.into_values().collect())?;
        }
        Ok(verdicts)
    }

    /// What is kept; a file that cannot be read counts as empty, and a card in it that does not
    /// verify as not there.
    fn read(&self) -> Vec<Known> {
        let small = |bytes: &Vec<u8>| bytes.len() <= MAX_FILE_BYTES;
        let bytes = keyfile::read(&self.path).ok().flatten().filter(small);
        let file: File = bytes
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let mut cards = file.cards;
        cards.retain(|known| parler_identity::verify_card(&known.card, &known.sig));
        cards
    }

    fn write(&self, mut cards: Vec<Known>) -> Result<(), KeyFileError> {
        let small = |known: &Known| {
            serde_json::to_vec(known).is_ok_and(|text| text.len() <= MAX_CARD_BYTES)
        };
        cards.retain(small);
        cards.sort_by(|a, b| (b.seen_ms, &a.card.id).cmp(&(a.seen_ms, &b.card.id)));
        cards.truncate(MAX_CARDS);
        let text = serde_json::to_vec(&File { cards }).unwrap_or_default();
        keyfile::replace(&self.path, &text)
    }
}

/// The day of a time, in UTC, as `2026-01-31`.
#[must_use]
pub fn day(ms: i64) -> String {
    // The civil calendar from days, by eras of 400 years that begin on the first of March.
    let days = ms.div_euclid(DAY_MS) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parler_identity::{KeyPair, sign_card};
    use parler_protocol::EndpointKind;

    const NOW: i64 = 1_760_000_000_000;

    fn entry(n: u8, description: &str) -> DirectoryEntry {
        let keys = KeyPair::from_seed_bytes([n; 32]);
        let card = AgentCard {
            id: keys.id().to_string(),
            name: format!("agent{n}"),
            kind: EndpointKind::Agent,
            role: None,
            description: Some(description.into()),
            tags: None,
            skills: None,
            meta: None,
            protocol_version: None,
        };
        let sig = sign_card(&keys, &card);
        let entry = serde_json::json!({
            "card": card, "sig": sig, "verified": true, "visibility": "private",
            "status": "idle", "hub": "h", "firstSeen": 0, "lastSeen": 0,
        });
        serde_json::from_value(entry).unwrap()
    }

    fn judge(known: &KnownCards, entry: &DirectoryEntry, now_ms: i64) -> Verdict {
        known.judge(std::slice::from_ref(entry), now_ms).unwrap()[0]
    }

    #[test]
    fn another_card_of_the_same_id_is_noticed_once() {
        let base = tempfile::tempdir().unwrap();
        let known = KnownCards::open(base.path());
        let verdict = |changed_since| Verdict {
            state: CardState::Valid,
            changed_since,
        };
        assert_eq!(judge(&known, &entry(1, "a"), NOW), verdict(None));
        assert_eq!(judge(&known, &entry(1, "a"), NOW + 1), verdict(None));
        assert_eq!(judge(&known, &entry(1, "b"), NOW + 2), verdict(Some(NOW)));
        assert_eq!(judge(&known, &entry(1, "b"), NOW + 3), verdict(None));
        assert_eq!(judge(&known, &entry(2, "a"), NOW + 3), verdict(None));
        assert_eq!(known.last(&entry(1, "").card.id), Some(entry(1, "b").card));
    }

    #[test]
    fn a_card_that_does_not_verify_replaces_nothing() {
        let base = tempfile::tempdir().unwrap();
        let known = KnownCards::open(base.path());
        judge(&known, &entry(1, "a"), NOW);
        let mut forged = entry(1, "a");
        forged.card.name = "somebody".into();
        assert_eq!(judge(&known, &forged, NOW).state, CardState::Invalid);
        let mut bare = entry(1, "c");
        bare.sig = None;
        assert_eq!(judge(&known, &bare, NOW).state, CardState::Unsigned);
        assert_eq!(known.last(&forged.card.id), Some(entry(1, "a").card));
    }

    #[test]
    fn a_changed_or_damaged_file_gives_nothing() {
        let base = tempfile::tempdir().unwrap();
        let known = KnownCards::open(base.path());
        judge(&known, &entry(1, "a"), NOW);
        let path = base.path().join("cards.json");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("agent1", "agent9")).unwrap();
        assert_eq!(known.last(&entry(1, "a").card.id), None);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(judge(&known, &entry(1, "b"), NOW).changed_since, None);
    }

    #[test]
    fn the_file_is_private_and_has_an_end() {
        let base = tempfile::tempdir().unwrap();
        let known = KnownCards::open(base.path());
        let huge = entry(1, &"x".repeat(MAX_CARD_BYTES));
        assert_eq!(judge(&known, &huge, NOW).state, CardState::Valid);
        assert_eq!(known.last(&huge.card.id), None);
        let kept = entry(2, "a");
        let copy = |n: i64| Known {
            card: kept.card.clone(),
            sig: kept.sig.clone().unwrap(),
            seen_ms: n,
        };
        known
            .write((0..=i64::try_from(MAX_CARDS).unwrap()).map(copy).collect())
            .unwrap();
        let read = known.read();
        assert_eq!(read.len(), MAX_CARDS);
        assert!(
            read.iter().all(|known| known.seen_ms > 0),
            "the oldest went"
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let file = std::fs::metadata(base.path().join("cards.json")).unwrap();
            assert_eq!(file.permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (ms, want) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (951_782_400_000, "2000-02-29"),
            (NOW, "2025-10-09"),
            (1_798_761_599_999, "2026-12-31"),
        ] {
            assert_eq!(day(ms), want);
        }
    }
}
