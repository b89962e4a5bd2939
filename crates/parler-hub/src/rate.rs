//! Budgets: so many events of one key in a fixed window.
//!
//! The window opens with the first event and is over a minute later (for uploads an hour); refused
//! events are not counted. In memory, bounded, gone on restart.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use parler_protocol::limits::{BLOB_RATE_WINDOW_MS, RATE_WINDOW_MS};
use parler_protocol::{AgentId, RoomName};

use crate::config::Limits;
use crate::defaults;
use crate::guesses::Guesses;

/// One budget for many keys.
#[derive(Debug)]
pub struct Budget<K> {
    limit: u32,
    refused: AtomicU64,
    window_ms: i64,
    windows: Mutex<HashMap<K, Window>>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    start: i64,
    count: u32,
}

impl Window {
    /// Whether the window is the present one. A clock that was set back opens a new one: it must
    /// not lock anybody out until it has caught up.
    fn holds(&self, now: i64, window_ms: i64) -> bool {
        (0..window_ms).contains(&(now - self.start))
    }
}

impl<K: Hash + Eq + Clone> Budget<K> {
    /// A budget of `limit` events a window; 0: no limit.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self::with_window(limit, RATE_WINDOW_MS)
    }

    /// A budget with a window of its own.
    #[must_use]
    pub fn with_window(limit: u32, window_ms: i64) -> Self {
        Budget {
            limit,
            refused: AtomicU64::new(0),
            window_ms,
            windows: Mutex::default(),
        }
    }

    /// Spends one event.
    ///
    /// # Errors
    /// The milliseconds after which the window is over, when the budget is spent.
    pub fn spend(&self, key: &K, now: i64) -> Result<(), u64> {
        if self.limit == 0 {
            return Ok(());
        }
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        match windows.get_mut(key) {
            Some(window) if window.holds(now, self.window_ms) => {
                if window.count >= self.limit {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    return Err(u64::try_from(window.start + self.window_ms - now).unwrap_or(0));
                }
                window.count += 1;
            }
            Some(window) => {
                *window = Window {
                    start: now,
                    count: 1,
                }
            }
            None => {
                if windows.len() >= defaults::MAX_RATE_KEYS {
                    make_room(&mut windows, now, self.window_ms);
                }
                windows.insert(
                    key.clone(),
                    Window {
                        start: now,
                        count: 1,
                    },
                );
            }
        }
        Ok(())
    }

    /// Forgets the windows that are over.
    pub fn forget_idle(&self, now: i64) {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        windows.retain(|_, w| w.holds(now, self.window_ms));
        windows.shrink_to_fit();
    }

    /// Whether the budget is spent, without spending.
    ///
    /// # Errors
    /// As [`Budget::spend`].
    pub fn check(&self, key: &K, now: i64) -> Result<(), u64> {
        let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        match windows.get(key) {
            Some(w) if self.limit > 0 && w.holds(now, self.window_ms) && w.count >= self.limit => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(u64::try_from(w.start + self.window_ms - now).unwrap_or(0))
            }
            _ => Ok(()),
        }
    }
}

impl<K> Budget<K> {
    /// Events refused since the start.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Drops the windows that are over; if that is not enough, the older half.
fn make_room<K: Hash + Eq + Clone>(windows: &mut HashMap<K, Window>, now: i64, window_ms: i64) {
    windows.retain(|_, w| w.holds(now, window_ms));
    if windows.len() >= defaults::MAX_RATE_KEYS {
        let mut starts: Vec<i64> = windows.values().map(|w| w.start).collect();
        let (_, &mut median, _) = starts.select_nth_unstable(windows.len() / 2);
        windows.retain(|_, w| w.start > median);
    }
}

/// All budgets of a hub.
#[derive(Debug)]
pub struct Budgets {
    /// Operations of an agent.
    pub ops: Budget<AgentId>,
    /// Sends of an agent.
    pub sends: Budget<AgentId>,
    /// Sends into a room.
    pub room_sends: Budget<RoomName>,
    /// Uploads of an agent.
    pub blobs: Budget<AgentId>,
    /// Uploads into a room.
    pub room_blobs: Budget<RoomName>,
    /// Wrong invite codes of an agent.
    pub bad_codes: Guesses<AgentId>,
    /// Wrong invite codes and join secrets of an address (IPv6: of a /64).
    pub bad_guesses: Guesses<IpAddr>,
    /// Wrong tokens of an address.
    pub bad_tokens: Budget<IpAddr>,
    /// HTTP requests of an address (IPv6: of a /64).
    pub http: Budget<IpAddr>,
    /// Upgrades to a socket of an address: whoever loads pages must not lock agents out.
    pub upgrades: Budget<IpAddr>,
}

impl Budgets {
    /// Budgets by the limits.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Budgets {
            ops: Budget::new(limits.max_ops_per_min),
            sends: Budget::new(limits.max_sends_per_min),
            room_sends: Budget::new(limits.max_room_sends_per_min),
            blobs: Budget::with_window(limits.max_blobs_per_hour, BLOB_RATE_WINDOW_MS),
            room_blobs: Budget::with_window(limits.max_room_blobs_per_hour, BLOB_RATE_WINDOW_MS),
            bad_codes: Guesses::new(defaults::MAX_BAD_CODES_PER_MIN),
            bad_guesses: Guesses::new(defaults::MAX_BAD_GUESSES_PER_MIN),
            bad_tokens: Budget::new(defaults::MAX_BAD_TOKENS_PER_MIN),
            http: Budget::new(limits.max_http_per_min),
            upgrades: Budget::new(limits.max_http_per_min),
        }
    }
}

impl Budgets {
    /// Whether a guess from an address may be looked at. This machine's own are not counted: all
    /// its users share them.
    ///
    /// # Errors
    /// The milliseconds until one may.
    pub fn may_guess(&self, from: IpAddr, now: i64) -> Result<(), u64> {
        if from.is_loopback() {
            return Ok(());
        }
        self.bad_guesses.check(&address_key(from), now)
    }

    /// A guess from an address was wrong.
    pub fn guessed_wrong(&self, from: IpAddr, now: i64) {
        if !from.is_loopback() {
            self.bad_guesses.wrong(&address_key(from), now);
        }
    }

    /// Forgets the windows that are over, of all of them.
    pub fn forget_idle(&self, now: i64) {
        self.ops.forget_idle(now);
        self.sends.forget_idle(now);
        self.room_sends.forget_idle(now);
        self.blobs.forget_idle(now);
        self.room_blobs.forget_idle(now);
        self.bad_codes.forget_idle(now);
        self.bad_guesses.forget_idle(now);
        self.bad_tokens.forget_idle(now);
        self.http.forget_idle(now);
        self.upgrades.forget_idle(now);
    }
}

/// The address that a budget is kept for: an IPv6 host may use its whole /64.
#[must_use]
pub fn address_key(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.into(),
            None => {
                let s = v6.segments();
                std::net::Ipv6Addr::new(s[0], s[1], s[2], s[3], 0, 0, 0, 0).into()
            }
        },
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_admits_its_limit_and_opens_anew() {
        let budget = Budget::new(2);
        assert_eq!(budget.spend(&"a", 1_000), Ok(()));
        assert_eq!(budget.spend(&"a", 2_000), Ok(()));
        assert_eq!(budget.spend(&"a", 3_000), Err(58_000));
        assert_eq!(budget.spend(&"b", 3_000), Ok(()), "another key");
        assert_eq!(budget.spend(&"a", 61_000), Ok(()), "a new window");
        budget.spend(&"a", 61_001).unwrap();
        assert_eq!(
            budget.spend(&"a", 1_000),
            Ok(()),
            "a clock that was set back"
        );
        assert_eq!(Budget::new(0).spend(&"a", 1), Ok(()), "no limit");
    }

    #[test]
    fn idle_windows_are_forgotten() {
        let budget = Budget::new(1);
        budget.spend(&"a", 1_000).unwrap();
        budget.spend(&"b", 50_000).unwrap();
        budget.forget_idle(61_000);
        let left: Vec<_> = budget.windows.lock().unwrap().keys().copied().collect();
        assert_eq!(left, ["b"]);
    }

    #[test]
    fn strangers_cannot_grow_the_map_without_bound() {
        let budget = Budget::new(1);
        for key in 0..3 * defaults::MAX_RATE_KEYS {
            let now = i64::try_from(key).unwrap() / 8;
            budget.spend(&key, now).unwrap();
        }
        assert!(budget.windows.lock().unwrap().len() <= defaults::MAX_RATE_KEYS);
    }

    #[test]
    fn an_ipv6_host_has_one_budget() {
        let key = |s: &str| address_key(s.parse().unwrap());
        assert_eq!(key("2001:db8:1:2:3::4"), key("2001:db8:1:2:ffff::1"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("::ffff:10.0.0.1"), key("10.0.0.1"));
    }
}
