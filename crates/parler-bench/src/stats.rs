//! Percentiles of measured times, and how they are printed.

use std::time::Duration;

/// Measured times.
#[derive(Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Adds one.
    pub fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Adds all of another.
    pub fn extend(&mut self, other: Times) {
        self.0.extend(other.0);
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The time that `percent` of them do not exceed, in microseconds.
    pub fn micros(&mut self, percent: usize) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        self.0.sort_unstable();
        let at = (self.0.len() * percent / 100).min(self.0.len() - 1);
        u64::try_from(self.0[at].as_micros()).unwrap_or(u64::MAX)
    }
}

/// One measured figure.
#[derive(serde::Serialize)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// Microseconds.
    pub p50_us: u64,
    /// Microseconds.
    pub p99_us: u64,
    /// Events a second, where a rate was measured.
    pub per_second: Option<u64>,
    /// Hub CPU in microseconds for each event.
    pub cpu_us: Option<u64>,
    /// How many times the median of its reference it takes, where it has one.
    pub times_reference: Option<f64>,
    /// How many events the figure stands on.
    pub events: usize,
}

impl Row {
    /// A row of times.
    pub fn of(what: impl Into<String>, times: &mut Times) -> Row {
        Row {
            what: what.into(),
            p50_us: times.micros(50),
            p99_us: times.micros(99),
            per_second: None,
            cpu_us: None,
            times_reference: None,
            events: times.len(),
        }
    }

    /// The same, compared with a reference.
    pub fn beside(self, reference: &Row) -> Row {
        let times = micros(self.p50_us) / micros(reference.p50_us);
        Row {
            times_reference: Some(times),
            ..self
        }
    }
}

/// For dividing; never 0.
fn micros(n: u64) -> f64 {
    f64::from(u32::try_from(n.max(1)).unwrap_or(u32::MAX))
}

/// Prints rows as a table.
pub fn table(rows: &[Row]) {
    println!(
        "{:<46} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}",
        "", "p50 us", "p99 us", "per s", "cpu us", "of ref.", "events"
    );
    for row in rows {
        let some = |value: Option<u64>| value.map_or_else(String::new, |v| v.to_string());
        println!(
            "{:<46} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}",
            row.what,
            row.p50_us,
            row.p99_us,
            some(row.per_second),
            some(row.cpu_us),
            row.times_reference
                .map_or_else(String::new, |times| format!("{times:.2}")),
            row.events
        );
    }
}
