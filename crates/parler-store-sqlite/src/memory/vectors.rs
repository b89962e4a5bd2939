//! Facts near a point: all vectors that the caller may see are compared, up to a bound.

use rusqlite::{Connection, params};

use super::Scope;

/// Vectors that one recall compares, the newest of each scope first. At 768 numbers each this many
/// take about 30 ms, nearly all of it spent on reading them.
const MAX_VECTORS: usize = 10_000;

/// Stores a fact's vector in the place of an earlier one.
pub(super) fn put(
    conn: &Connection,
    fact: i64,
    scope: Scope,
    vector: &[f32],
) -> rusqlite::Result<()> {
    const PUT: &str = "INSERT INTO fact_vectors (fact_id, scope, vector) VALUES (?1, ?2, ?3)
        ON CONFLICT (fact_id) DO UPDATE SET vector = excluded.vector";
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    conn.prepare_cached(PUT)?
        .execute(params![fact, scope, bytes])?;
    Ok(())
}

/// The nearest facts and their distances, the nearest first.
pub(super) fn nearest(
    conn: &Connection,
    scopes: &[Scope],
    point: &[f32],
    depth: usize,
) -> rusqlite::Result<Vec<(i64, f64)>> {
    const READ: &str = "SELECT fact_id, vector FROM fact_vectors
        WHERE scope = ?1 ORDER BY fact_id DESC LIMIT ?2";
    let mut found: Vec<(i64, f64)> = Vec::new();
    let mut read = conn.prepare_cached(READ)?;
    for scope in scopes {
        let left = i64::try_from(MAX_VECTORS - found.len()).unwrap_or(0);
        let mut rows = read.query([*scope, left])?;
        while let Some(row) = rows.next()? {
            let vector = row.get_ref(1)?.as_blob()?;
            // One of another length is from another time: nothing is near it.
            if vector.len() == point.len() * 4 {
                found.push((row.get(0)?, distance(vector, point)));
            }
        }
    }
    found.sort_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    found.truncate(depth);
    Ok(found)
}

/// The Euclidean distance. In 64 bits: squares of the largest 32-bit floats are no number there.
fn distance(vector: &[u8], point: &[f32]) -> f64 {
    const LANES: usize = 8;
    let (vectors, _) = vector.as_chunks::<4>();
    let mut sums = [0.0_f64; LANES];
    for (these, those) in vectors.chunks(LANES).zip(point.chunks(LANES)) {
        for ((sum, x), y) in sums.iter_mut().zip(these).zip(those) {
            let d = f64::from(f32::from_le_bytes(*x)) - f64::from(*y);
            *sum += d * d;
        }
    }
    sums.iter().sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(a: &[f32], b: &[f32]) -> f64 {
        let bytes: Vec<u8> = a.iter().flat_map(|x| x.to_le_bytes()).collect();
        distance(&bytes, b)
    }

    #[test]
    fn distances_are_euclidean_whatever_the_length() {
        assert!((between(&[0.0, 3.0], &[4.0, 0.0]) - 5.0).abs() < 1e-9);
        let (a, b) = ([1.0; 19], [0.0; 19]);
        assert!((between(&a, &b) - 19_f64.sqrt()).abs() < 1e-9);
        assert_eq!(between(&a, &a), 0.0);
    }

    #[test]
    fn the_largest_floats_have_a_distance() {
        let far = between(&[f32::MAX; 768], &[f32::MIN; 768]);
        assert!(far.is_finite() && far > 0.0);
    }
}
