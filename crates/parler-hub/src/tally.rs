//! What was said in a room, counted when somebody looks.
//!
//! Nothing is counted when a message is stored. A look counts what came since the last one, and
//! remembers how far it got: for a bounded number of rooms, and for the whole hub. When old
//! messages were deleted a room is counted anew, for the counts are of what is there.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use parler_protocol::parts::SIG_KIND;
use parler_protocol::{RoomName, Seq};
use parler_store::{CodeHash, LogEntry, MAX_PAGE, Store, StoreError, WatchedRoom};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::defaults;

/// All counts.
#[derive(Debug, Default)]
pub struct Tallies {
    rooms: Mutex<Rooms>,
    hub: tokio::sync::Mutex<Total>,
}

#[derive(Debug, Default)]
struct Rooms {
    looks: u64,
    kept: HashMap<RoomName, Kept>,
}

#[derive(Debug)]
struct Kept {
    opened_at: i64,
    pruned: i64,
    /// Number of the last look: the longest unseen one makes room for another.
    seen: u64,
    tally: Arc<tokio::sync::Mutex<Tally>>,
}

#[derive(Debug, Default)]
struct Total {
    counted: Seq,
    tokens: u64,
}

/// The counts of one room.
#[derive(Debug, Default)]
struct Tally {
    counted: Seq,
    messages: u64,
    tokens: u64,
    first: Option<i64>,
    last: Option<i64>,
    authors: HashMap<(String, Option<String>), Share>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    messages: u64,
    tokens: u64,
}

/// What a watcher sees of the counts.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RoomStats {
    /// Messages that are there.
    pub messages: u64,
    /// About how many tokens of a model they are.
    pub estimated_tokens: u64,
    /// Milliseconds.
    pub first_message_at: Option<i64>,
    /// Milliseconds.
    pub last_message_at: Option<i64>,
    /// By name and role as they stand on the messages.
    pub per_agent: Vec<AgentStats>,
}

/// The share of one author.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AgentStats {
    /// Name.
    pub name: String,
    /// Role.
    pub role: Option<String>,
    /// Messages.
    pub messages: u64,
    /// Tokens, about.
    pub estimated_tokens: u64,
}

impl Tallies {
    /// Counts of the whole hub begin behind what is there already.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn begin(&self, store: &dyn Store) -> Result<(), StoreError> {
        self.hub.lock().await.counted = store.last_seq().await?;
        Ok(())
    }

    /// About how many tokens were said in all rooms since the start. One look reads a bounded
    /// number of messages, so that on a busy hub the number may lag.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn estimated_tokens(&self, store: &dyn Store) -> Result<u64, StoreError> {
        let mut total = self.hub.lock().await;
        for _ in 0..defaults::MAX_TALLY_PAGES {
            let page = store.parts_after(total.counted).await?;
            let Some((last, _)) = page.last() else { break };
            let last = *last;
            let count = move || page.iter().map(|(_, parts)| estimate(parts)).sum::<u64>();
            total.tokens += blocking(count).await?;
            total.counted = last;
        }
        Ok(total.tokens)
    }

    /// Counts of a token's room. `None`: the token is not good any more.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn room(
        &self,
        store: &dyn Store,
        token: CodeHash,
        room: &WatchedRoom,
        now: i64,
    ) -> Result<Option<RoomStats>, StoreError> {
        let kept = self.kept(room);
        let mut tally = kept.lock().await;
        for _ in 0..defaults::MAX_TALLY_PAGES {
            if tally.counted >= room.head {
                break;
            }
            let page = store
                .watched_log(token, now, tally.counted, MAX_PAGE)
                .await?;
            let Some(page) = page else { return Ok(None) };
            let Some(last) = page.last().map(|entry| entry.seq) else {
                break;
            };
            for said in
                blocking(move || page.iter().filter_map(Said::of).collect::<Vec<_>>()).await?
            {
                tally.add(said);
            }
            tally.counted = last;
        }
        Ok(Some(tally.stats()))
    }

    fn kept(&self, room: &WatchedRoom) -> Arc<tokio::sync::Mutex<Tally>> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.looks += 1;
        let look = rooms.looks;
        if let Some(kept) = rooms.kept.get_mut(&room.name)
            && (kept.opened_at, kept.pruned) == (room.opened_at, room.pruned)
        {
            kept.seen = look;
            return Arc::clone(&kept.tally);
        }
        if rooms.kept.len() >= defaults::MAX_TALLIES && !rooms.kept.contains_key(&room.name) {
            let unseen = rooms.kept.iter().min_by_key(|(_, kept)| kept.seen);
            if let Some(name) = unseen.map(|(name, _)| name.clone()) {
                rooms.kept.remove(&name);
            }
        }
        let tally = Arc::default();
        let kept = Kept {
            opened_at: room.opened_at,
            pruned: room.pruned,
            seen: look,
            tally: Arc::clone(&tally),
        };
        rooms.kept.insert(room.name.clone(), kept);
        tally
    }
}

/// Runs what only computes, off the async threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| StoreError::Unavailable("a count was not finished".into()))
}

/// A message as far as it is counted.
struct Said {
    author: (String, Option<String>),
    ts: i64,
    tokens: u64,
}

impl Said {
    fn of(entry: &LogEntry) -> Option<Said> {
        #[derive(Deserialize)]
        struct Stored<'a> {
            from: From,
            ts: i64,
            #[serde(borrow)]
            parts: &'a serde_json::value::RawValue,
        }
        #[derive(Deserialize)]
        struct From {
            name: String,
            role: Option<String>,
        }
        let stored: Stored<'_> = serde_json::from_str(&entry.json).ok()?;
        Some(Said {
            author: (stored.from.name, stored.from.role),
            ts: stored.ts,
            tokens: estimate(stored.parts.get()),
        })
    }
}

impl Tally {
    fn add(&mut self, said: Said) {
        self.messages += 1;
        self.tokens += said.tokens;
        self.first.get_or_insert(said.ts);
        self.last = Some(said.ts);
        let room = self.authors.len() < defaults::MAX_TALLY_AUTHORS;
        if room || self.authors.contains_key(&said.author) {
            let share = self.authors.entry(said.author).or_default();
            share.messages += 1;
            share.tokens += said.tokens;
        }
    }

    fn stats(&self) -> RoomStats {
        let mut per_agent: Vec<AgentStats> = self
            .authors
            .iter()
            .map(|((name, role), share)| AgentStats {
                name: name.clone(),
                role: role.clone(),
                messages: share.messages,
                estimated_tokens: share.tokens,
            })
            .collect();
        per_agent.sort_by(|a, b| {
            (b.estimated_tokens, b.messages)
                .cmp(&(a.estimated_tokens, a.messages))
                .then_with(|| (&a.name, &a.role).cmp(&(&b.name, &b.role)))
        });
        RoomStats {
            messages: self.messages,
            estimated_tokens: self.tokens,
            first_message_at: self.first,
            last_message_at: self.last,
            per_agent,
        }
    }
}

/// About how many tokens of a model a message's parts are: a quarter of the characters of all
/// strings in them, the `kind`, keys and signatures left out.
#[must_use]
pub fn estimate(parts: &str) -> u64 {
    let mut json = serde_json::Deserializer::from_str(parts);
    json.deserialize_seq(AllParts).unwrap_or(0).div_ceil(4)
}

struct AllParts;

impl<'de> Visitor<'de> for AllParts {
    type Value = u64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of parts")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<u64, A::Error> {
        let mut sum = 0;
        while let Some(chars) = seq.next_element_seed(OnePart)? {
            sum += chars;
        }
        Ok(sum)
    }
}

struct OnePart;

impl<'de> DeserializeSeed<'de> for OnePart {
    type Value = u64;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<u64, D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OnePart {
    type Value = u64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
        let (mut chars, mut is_sig) = (0, false);
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            if key == "kind" {
                is_sig = map.next_value::<std::borrow::Cow<'_, str>>()? == SIG_KIND;
            } else {
                chars += map.next_value_seed(Leaves)?;
            }
        }
        Ok(if is_sig { 0 } else { chars })
    }
}

/// Characters of the strings in a value.
#[derive(Clone, Copy)]
struct Leaves;

impl<'de> DeserializeSeed<'de> for Leaves {
    type Value = u64;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<u64, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Leaves {
    type Value = u64;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_str<E>(self, text: &str) -> Result<u64, E> {
        Ok(text.chars().count() as u64)
    }
    fn visit_bool<E>(self, _: bool) -> Result<u64, E> {
        Ok(0)
    }
    fn visit_i64<E>(self, _: i64) -> Result<u64, E> {
        Ok(0)
    }
    fn visit_u64<E>(self, _: u64) -> Result<u64, E> {
        Ok(0)
    }
    fn visit_f64<E>(self, _: f64) -> Result<u64, E> {
        Ok(0)
    }
    fn visit_unit<E>(self) -> Result<u64, E> {
        Ok(0)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<u64, A::Error> {
        let mut sum = 0;
        while let Some(chars) = seq.next_element_seed(self)? {
            sum += chars;
        }
        Ok(sum)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
        let mut sum = 0;
        while map.next_key::<serde::de::IgnoredAny>()?.is_some() {
            sum += map.next_value_seed(self)?;
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_counts_what_is_said_and_no_frame_around_it() {
        for (parts, tokens) in [
            ("[]", 0),
            (r#"[{"kind":"text","text":"12345678"}]"#, 2),
            (r#"[{"text":"12345","kind":"text"}]"#, 2),
            (
                r#"[{"kind":"text","text":"ééééé"},{"kind":"data","data":{"key":["ab",{"x":"cd"}],"n":5}},
                   {"kind":"org.x","s":"efg","o":{"k":"h"},"z":null,"b":true,"f":1.5,"m":-1},
                   {"sig":"zzzzzzzzzz","kind":"com.parler.sig"}]"#,
                4,
            ),
            ("broken", 0),
        ] {
            assert_eq!(estimate(parts), tokens, "{parts}");
        }
    }

    #[test]
    fn authors_are_ordered_by_what_they_said_and_bounded() {
        let mut tally = Tally::default();
        let said = |name: &str, tokens, ts| Said {
            author: (name.to_owned(), None),
            ts,
            tokens,
        };
        for (name, tokens, ts) in [("b", 1, 5), ("a", 1, 6), ("c", 7, 7), ("b", 0, 8)] {
            tally.add(said(name, tokens, ts));
        }
        let stats = tally.stats();
        let names: Vec<_> = stats.per_agent.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["c", "b", "a"]);
        assert_eq!(
            (stats.first_message_at, stats.last_message_at),
            (Some(5), Some(8))
        );
        assert_eq!((stats.messages, stats.estimated_tokens), (4, 9));
        for n in 0..2 * defaults::MAX_TALLY_AUTHORS {
            tally.add(said(&format!("n{n}"), 1, 9));
        }
        assert_eq!(tally.authors.len(), defaults::MAX_TALLY_AUTHORS);
    }
}
