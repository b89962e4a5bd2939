//! How often each op was asked for, since the start.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parler_protocol::CLIENT_OPS;

/// One counter an op.
#[derive(Debug)]
pub struct Counts {
    ops: HashMap<&'static str, AtomicU64>,
}

impl Default for Counts {
    fn default() -> Self {
        let ops = CLIENT_OPS.iter().map(|op| (*op, AtomicU64::new(0)));
        Counts { ops: ops.collect() }
    }
}

impl Counts {
    /// Counts an op; what is none is not counted.
    pub fn op(&self, op: &str) {
        if let Some(count) = self.ops.get(op) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All ops in the order of the contract, with their counts.
    pub fn ops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        CLIENT_OPS.iter().map(|op| {
            (
                *op,
                self.ops.get(op).map_or(0, |n| n.load(Ordering::Relaxed)),
            )
        })
    }
}
