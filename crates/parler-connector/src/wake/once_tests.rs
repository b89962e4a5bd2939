use super::*;
use crate::testing::Author;

use std::fs;
use std::sync::Barrier;

const ID: &str = "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK";

fn base() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn thing(message: &str) -> Thing<'_> {
    Thing { message, take: 0 }
}

fn log_of(base: &Path) -> PathBuf {
    Once::open(base, ID).log
}

#[test]
fn a_thing_is_rung_once_a_session_until_it_is_confirmed() {
    let dir = base();
    let once = Once::open(dir.path(), ID);
    assert_eq!(once.standing(thing("m")).unwrap(), Standing::New);
    assert_eq!(once.submit(thing("m"), "s1").unwrap(), Submit::Ring);
    assert_eq!(once.standing(thing("m")).unwrap(), Standing::Submitted);
    assert_eq!(once.submit(thing("m"), "s1").unwrap(), Submit::Pending);
    assert_eq!(
        once.submit(thing("m"), "s2").unwrap(),
        Submit::Ring,
        "a new session"
    );
    once.confirm(thing("m")).unwrap();
    assert_eq!(once.standing(thing("m")).unwrap(), Standing::Confirmed);
    for session in ["s1", "s2", "s3"] {
        assert_eq!(once.submit(thing("m"), session).unwrap(), Submit::Done);
    }
    // The next take of the same turn is another thing.
    let next = Thing {
        message: "m",
        take: 1,
    };
    assert_eq!(once.submit(next, "s2").unwrap(), Submit::Ring);
}

#[test]
fn it_holds_across_processes_and_restarts() {
    let dir = base();
    let server = Once::open(dir.path(), ID);
    let hook = Once::open(dir.path(), ID);
    assert_eq!(server.submit(thing("m"), "s").unwrap(), Submit::Ring);
    assert_eq!(hook.submit(thing("m"), "s").unwrap(), Submit::Pending);
    hook.confirm(thing("m")).unwrap();
    assert_eq!(server.submit(thing("m"), "s").unwrap(), Submit::Done);
    let later = Once::open(dir.path(), ID);
    assert_eq!(later.submit(thing("m"), "t").unwrap(), Submit::Done);
    let other = Once::open(dir.path(), "another identity");
    assert_eq!(other.submit(thing("m"), "s").unwrap(), Submit::Ring);
}

#[test]
fn what_a_session_gave_up_waits_for_another_or_for_a_person() {
    let dir = base();
    let once = Once::open(dir.path(), ID);
    once.submit(thing("m"), "s").unwrap();
    once.give_up("m", "s").unwrap();
    let next = Thing {
        message: "m",
        take: 1,
    };
    assert_eq!(once.submit(next, "s").unwrap(), Submit::GivenUp);
    assert_eq!(once.submit(next, "t").unwrap(), Submit::Ring);
    once.person_spoke("s").unwrap();
    assert_eq!(once.submit(next, "s").unwrap(), Submit::Ring);
    let later = Once::open(dir.path(), ID);
    assert_eq!(later.submit(next, "s").unwrap(), Submit::Pending);
}

#[test]
fn the_same_message_is_fresh_and_its_copy_is_a_replay() {
    let dir = base();
    let once = Once::open(dir.path(), ID);
    let author = Author::new("planner", None);
    let message = author.says(1, "team", "x");
    let sig = |message: &StoredMessage| parler_identity::message::check(message).1.unwrap();
    let admit = |message: &StoredMessage| once.admit(message, &sig(message)).unwrap();
    assert_eq!(admit(&message), Freshness::Fresh);
    assert_eq!(admit(&message), Freshness::Fresh, "offered again");
    let mut copy = message.clone();
    copy.id = "another".into();
    copy.seq = 2;
    assert_eq!(admit(&copy), Freshness::Replay);
    assert_eq!(
        admit(&copy),
        Freshness::Replay,
        "a replay is not remembered as genuine"
    );
    assert_eq!(admit(&message), Freshness::Fresh);
    // The same uid by somebody else is another pair.
    let mut other = message.clone();
    other.from.id = "U-other".into();
    other.id = "third".into();
    assert_eq!(admit(&other), Freshness::Fresh);
    let reopened = Once::open(dir.path(), ID);
    assert_eq!(
        reopened.admit(&copy, &sig(&copy)).unwrap(),
        Freshness::Replay
    );
}

#[test]
fn of_many_that_ask_together_one_rings() {
    let dir = base();
    let together = Barrier::new(20);
    let rings: usize = std::thread::scope(|scope| {
        let start = |_| {
            let (dir, together) = (&dir, &together);
            scope.spawn(move || {
                let once = Once::open(dir.path(), ID);
                together.wait();
                (0..5)
                    .filter(|n| {
                        let id = format!("m{n}");
                        once.submit(thing(&id), "s").unwrap() == Submit::Ring
                    })
                    .count()
            })
        };
        let threads: Vec<_> = (0..20).map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(rings, 5);
}

#[test]
fn a_torn_line_loses_itself_only() {
    let dir = base();
    let once = Once::open(dir.path(), ID);
    once.confirm(thing("a")).unwrap();
    let log = log_of(dir.path());
    let mut text = fs::read(&log).unwrap();
    text.extend(b"{\"k\":\"c\",\"m\":\"to");
    fs::write(&log, &text).unwrap();
    for once in [&once, &Once::open(dir.path(), ID)] {
        assert_eq!(once.standing(thing("a")).unwrap(), Standing::Confirmed);
    }
    once.confirm(thing("b")).unwrap();
    let later = Once::open(dir.path(), ID);
    assert_eq!(later.standing(thing("a")).unwrap(), Standing::Confirmed);
    assert_eq!(later.standing(thing("b")).unwrap(), Standing::Confirmed);
}

#[test]
fn a_log_of_anything_else_is_gone_on_with() {
    for damaged in [
        &b"garbage"[..],
        b"\n\n",
        &[0xff, 0xfe, 0],
        b"{\"k\":\"s\"}\n",
    ] {
        let dir = base();
        let log = log_of(dir.path());
        fs::create_dir_all(log.parent().unwrap()).unwrap();
        fs::write(&log, damaged).unwrap();
        let once = Once::open(dir.path(), ID);
        once.confirm(thing("a")).unwrap();
        assert_eq!(once.standing(thing("a")).unwrap(), Standing::Confirmed);
        let later = Once::open(dir.path(), ID);
        assert_eq!(later.standing(thing("a")).unwrap(), Standing::Confirmed);
    }
}

#[test]
fn the_log_is_bounded_and_keeps_the_newest() {
    let dir = base();
    let log = log_of(dir.path());
    let mut text = line(&new_log());
    for n in 0..MAX_ENTRIES + SLACK {
        text.extend(line(&Fact::Confirmed {
            m: format!("m{n}"),
            t: 0,
        }));
    }
    replace_private(&log, &text).unwrap();
    let watching = Once::open(dir.path(), ID);
    assert_eq!(watching.standing(thing("m0")).unwrap(), Standing::Confirmed);
    let once = Once::open(dir.path(), ID);
    once.confirm(thing("newest")).unwrap();
    let kept = facts(&fs::read(&log).unwrap()).count();
    assert_eq!(kept, MAX_ENTRIES + 1, "the newest, and the first line");
    for once in [&watching, &once, &Once::open(dir.path(), ID)] {
        assert_eq!(once.standing(thing("m0")).unwrap(), Standing::New);
        assert_eq!(once.standing(thing("newest")).unwrap(), Standing::Confirmed);
    }
}

#[test]
fn ids_of_any_length_are_kept_short() {
    let dir = base();
    let once = Once::open(dir.path(), ID);
    let huge = "x".repeat(1 << 20);
    once.submit(thing(&huge), &huge).unwrap();
    assert_eq!(once.standing(thing(&huge)).unwrap(), Standing::Submitted);
    assert!(fs::metadata(log_of(dir.path())).unwrap().len() < 1000);
}

#[test]
fn a_lock_that_is_not_given_back_is_waited_for_a_second_at_most() {
    let dir = base();
    let once = Once::open(dir.path(), ID);
    let _held = lock::try_exclusive(&once.lock).unwrap().unwrap();
    let begun = std::time::Instant::now();
    let error = once.submit(thing("m"), "s").unwrap_err();
    assert!(matches!(error, OnceError::Busy(_)), "{error}");
    assert!(begun.elapsed() < LOCK_WAIT * 3);
}

#[cfg(unix)]
#[test]
fn the_ledger_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = base();
    let once = Once::open(dir.path(), ID);
    once.confirm(thing("m")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&once.log), mode(&once.lock)), (0o600, 0o600));
    assert_eq!(mode(once.log.parent().unwrap()), 0o700);
}
