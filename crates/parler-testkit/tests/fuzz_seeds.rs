//! The seeds of the fuzz targets, replayed through the same functions, and through some thousand
//! small changes of each: what a fuzzer does for hours, for a second.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops there")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parler_testkit::fuzz::TARGETS;

/// Bounds of what is committed, a target and all together.
const MAX_SEEDS: usize = 50;
const MAX_BYTES: usize = 100 * 1024;
/// Changes of each seed.
const CHANGES: u32 = 60;

fn fuzz_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries
        .map(|e| e.unwrap().path())
        .map(|p| p.file_stem().unwrap().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn every_target_has_its_file_and_its_seeds() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&fuzz_dir().join("fuzz_targets")), targets);
    assert_eq!(names(&fuzz_dir().join("seeds")), targets);
}

#[test]
fn no_seed_breaks_a_law_and_none_of_its_changes_does() {
    let mut bytes = 0;
    for (name, target) in TARGETS {
        let dir = fuzz_dir().join("seeds").join(name);
        let mut seeds: Vec<PathBuf> = std::fs::read_dir(&dir)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        seeds.sort();
        assert!((1..=MAX_SEEDS).contains(&seeds.len()), "{name}");
        for path in seeds {
            let seed = std::fs::read(&path).unwrap();
            bytes += seed.len();
            eprintln!("{}", path.display());
            target(&seed);
            let mut random = Lcg(0x5eed);
            for _ in 0..CHANGES {
                target(&random.change(&seed));
            }
        }
    }
    assert!(bytes <= MAX_BYTES, "{bytes} bytes of seeds");
}

/// Always the same numbers, so that a failure comes again.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end.max(1)
    }

    fn change(&mut self, seed: &[u8]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            let piece_end = (at + self.below(12)).min(bytes.len());
            match self.below(4) {
                _ if bytes.is_empty() => bytes.push(b'['),
                0 => bytes[at] ^= 1 << self.below(8),
                1 => drop(bytes.drain(at..piece_end)),
                2 => {
                    let piece = bytes[at..piece_end].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
                _ => bytes[at] = br#"{}[]",:\u0 -."#[self.below(13)],
            }
        }
        bytes
    }
}
