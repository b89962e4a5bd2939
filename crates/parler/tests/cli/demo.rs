//! `parler demo`.

use crate::env::{Done, Machine, Running, eventually};

/// Processes of this binary that carry the mark.
fn left_over(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let marked = processes.filter(|process| {
        let env = std::fs::read(process.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&env).contains(mark)
    });
    marked.count()
}

#[test]
fn the_turn_passes_between_two_processes_and_nothing_is_left() {
    let machine = Machine::new();
    let temp = machine.home().join("tmp");
    std::fs::create_dir(&temp).unwrap();
    let mark = format!("DEMO_MARK={}", temp.display());
    let (name, value) = mark.split_once('=').unwrap();
    let mut command = machine.command(&["demo"]);
    command.env("TMPDIR", &temp).env(name, value);
    let done = Done::of(command);
    assert_eq!(done.code, 0, "{done:?}");
    let words: Vec<&str> = done
        .out
        .lines()
        .filter(|line| line.contains(" ms  "))
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    assert_eq!(
        words,
        ["offered", "delivered", "woken", "acted", "reported"],
        "{}",
        done.out
    );
    assert!(done.out.contains("🤝 HANDOFF TO YOU"), "{}", done.out);
    assert_eq!(left_over(&mark), 0);
    assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0);
    let config = machine.base().join("config.json");
    assert!(!config.exists(), "the user's own set-up is not touched");
}

#[test]
fn a_program_gets_the_timeline_as_an_object() {
    let machine = Machine::new();
    let shown = machine.json(&["demo"]);
    let steps = shown["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 5);
    let ms: Vec<f64> = steps
        .iter()
        .map(|step| step["ms"].as_f64().unwrap())
        .collect();
    assert!(ms.is_sorted() && ms[0] == 0.0, "{ms:?}");
}

#[test]
fn its_children_end_with_it_even_when_it_is_killed() {
    let machine = Machine::new();
    let mark = format!("DEMO_KILL={}", machine.home().display());
    let (name, value) = mark.split_once('=').unwrap();
    let mut command = machine.command(&["demo"]);
    command.env(name, value);
    let mut demo = Running::start(command);
    eventually("its hub runs", || {
        left_over(&mark) >= 2 || demo.child.try_wait().unwrap().is_some()
    });
    demo.signal("KILL");
    demo.end();
    eventually("nothing is left running", || left_over(&mark) == 0);
}
