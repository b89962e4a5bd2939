//! How much of what is shared each address has taken.
//!
//! An address may have a quarter of it, so that one machine alone cannot use all of it up. This
//! machine's own addresses are not counted: all agents of a computer share them, and a proxy in
//! front of the hub usually has one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::defaults;
use crate::rate::address_key;

/// What is open, by address; an address has an entry only while something of it is open.
#[derive(Debug, Default)]
pub struct Addresses {
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// One that is open. Dropping it gives the place back.
#[derive(Debug)]
pub struct Place {
    addresses: Arc<Addresses>,
    /// `None`: not counted.
    key: Option<IpAddr>,
}

/// What one address may have of so many.
#[must_use]
pub fn share(all: usize) -> usize {
    (all / defaults::ADDRESS_SHARE).max(defaults::ADDRESS_MIN)
}

impl Addresses {
    /// Takes a place for an address that has fewer than `most`; `None` when it has as many.
    #[must_use]
    pub fn take(self: &Arc<Self>, ip: IpAddr, most: usize) -> Option<Place> {
        let key = (!ip.is_loopback()).then(|| address_key(ip));
        if let Some(key) = key {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let count = open.entry(key).or_insert(0);
            if *count >= most {
                return None;
            }
            *count += 1;
        }
        Some(Place {
            addresses: Arc::clone(self),
            key,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let open = &self.addresses.open;
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                open.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_share_and_leaves_nothing_behind() {
        let addresses = Arc::new(Addresses::default());
        let take = |ip: &str| addresses.take(ip.parse().unwrap(), 2);
        let held = [take("192.0.2.1"), take("192.0.2.1")];
        assert!(held.iter().all(Option::is_some));
        assert!(take("192.0.2.1").is_none());
        assert!(take("192.0.2.2").is_some(), "another address");
        drop(held);
        assert!(take("192.0.2.1").is_some());
        // An IPv6 host has its /64.
        let _held = [take("2001:db8::1"), take("2001:db8::2")];
        assert!(take("2001:db8::3").is_none());
        let own: Vec<_> = (0..9).map(|_| take("127.0.0.1")).collect();
        assert!(own.iter().all(Option::is_some), "this machine");
        drop(own);
        assert_eq!(addresses.open.lock().unwrap().len(), 1);
    }
}
