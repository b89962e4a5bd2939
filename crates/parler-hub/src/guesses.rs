//! Wrong guesses: after so many in a minute no further one is looked at for a while, and that
//! while doubles each time.
//!
//! The delay is the same for right and wrong guesses, so it tells nothing. It is bounded, and
//! forgotten after an hour without a wrong guess. In memory, bounded, gone on restart.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use parler_protocol::limits::RATE_WINDOW_MS as WINDOW_MS;

use crate::defaults;

/// Wrong guesses of many keys.
#[derive(Debug)]
pub struct Guesses<K> {
    /// Wrong guesses in a minute before the first delay.
    free: u32,
    seen: Mutex<HashMap<K, Guess>>,
    refused: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Guess {
    start: i64,
    count: u32,
    /// How often there was a delay.
    delays: u32,
    until: i64,
}

impl Guess {
    fn waits(&self, now: i64) -> Option<u64> {
        // A clock that was set back must not lock anybody out.
        let left = self.until - now;
        (1..=defaults::MAX_GUESS_DELAY_MS)
            .contains(&left)
            .then(|| u64::try_from(left).unwrap_or(0))
    }

    fn matters(&self, now: i64) -> bool {
        (0..defaults::GUESS_MEMORY_MS).contains(&(now - self.start)) || self.waits(now).is_some()
    }
}

impl<K: Hash + Eq + Clone> Guesses<K> {
    /// So many wrong guesses a minute are free.
    #[must_use]
    pub fn new(free: u32) -> Self {
        Guesses {
            free,
            seen: Mutex::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// Whether a guess may be looked at.
    ///
    /// # Errors
    /// The milliseconds until one may.
    pub fn check(&self, key: &K, now: i64) -> Result<(), u64> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get(key).and_then(|guess| guess.waits(now)) {
            Some(left) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(left)
            }
            None => Ok(()),
        }
    }

    /// Guesses that were not looked at since the start.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A guess was wrong.
    pub fn wrong(&self, key: &K, now: i64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= defaults::MAX_RATE_KEYS && !seen.contains_key(key) {
            make_room(&mut seen, now);
        }
        let fresh = Guess {
            start: now,
            count: 0,
            delays: 0,
            until: 0,
        };
        let guess = seen.entry(key.clone()).or_insert(fresh);
        if !guess.matters(now) {
            *guess = fresh;
        } else if !(0..WINDOW_MS).contains(&(now - guess.start)) {
            guess.start = now;
            guess.count = 0;
        }
        guess.count += 1;
        if guess.count >= self.free {
            let delay = WINDOW_MS << guess.delays.min(16);
            guess.until = now + delay.min(defaults::MAX_GUESS_DELAY_MS);
            guess.delays += 1;
            guess.start = now;
            guess.count = 0;
        }
    }

    /// Forgets whoever made no wrong guess for long.
    pub fn forget_idle(&self, now: i64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, guess| guess.matters(now));
        seen.shrink_to_fit();
    }
}

/// Drops what does not matter any more; if that is not enough, whoever does not wait.
fn make_room<K: Hash + Eq + Clone>(seen: &mut HashMap<K, Guess>, now: i64) {
    seen.retain(|_, guess| guess.matters(now));
    if seen.len() >= defaults::MAX_RATE_KEYS {
        seen.retain(|_, guess| guess.waits(now).is_some());
    }
    if seen.len() >= defaults::MAX_RATE_KEYS {
        seen.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(guesses: &Guesses<u32>, key: u32, times: u32, now: i64) {
        for _ in 0..times {
            assert_eq!(guesses.check(&key, now), Ok(()));
            guesses.wrong(&key, now);
        }
    }

    #[test]
    fn the_delay_doubles_up_to_its_end_and_is_forgotten() {
        let guesses = Guesses::new(3);
        let mut now = 1_000_000;
        wrong(&guesses, 1, 2, now);
        wrong(&guesses, 1, 2, now + WINDOW_MS);
        now += 2 * WINDOW_MS;
        let mut delays = Vec::new();
        for _ in 0..7 {
            wrong(&guesses, 1, 3, now);
            let left = guesses.check(&1, now).unwrap_err();
            assert_eq!(guesses.check(&2, now), Ok(()), "another key");
            delays.push(left / 60_000);
            now += i64::try_from(left).unwrap();
        }
        assert_eq!(delays, [1, 2, 4, 8, 15, 15, 15]);
        now += defaults::GUESS_MEMORY_MS;
        wrong(&guesses, 1, 3, now);
        assert_eq!(guesses.check(&1, now), Err(60_000), "forgotten");
        assert_eq!(guesses.check(&1, 0), Ok(()), "a clock that was set back");
        guesses.forget_idle(now);
        assert_eq!(guesses.seen.lock().unwrap().len(), 1);
        guesses.forget_idle(now + defaults::GUESS_MEMORY_MS);
        assert!(guesses.seen.lock().unwrap().is_empty());
    }

    #[test]
    fn strangers_cannot_grow_the_map_without_bound() {
        let guesses = Guesses::new(1);
        for key in 0..2 * defaults::MAX_RATE_KEYS + 1 {
            guesses.wrong(&key, 1_000_000);
        }
        assert!(guesses.seen.lock().unwrap().len() <= defaults::MAX_RATE_KEYS);
    }
}
