//! Which named identity a terminal is bound to.
//!
//! `parler --as NAME` binds the terminal that it is typed into; later commands there are that
//! identity without saying so. A terminal is its key (what the terminal program says about itself,
//! else the tty) together with the process that leads the session in it: a tty or pane that is
//! used again later, and a pane that inherited its neighbour's variables, are other terminals.
//! One small file a terminal in `<base>/terminals`, gone when its leader is.

use std::fs;
use std::path::{Path, PathBuf};

use parler_identity::{KeyFileError, keyfile};
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::naming::digest;
use crate::platform::{Alive, Proc};

/// The variables by which a terminal names itself, first one wins; then the tty.
const TERMINAL_VARIABLES: &[&str] = &[
    "TERM_SESSION_ID",
    "ITERM_SESSION_ID",
    "WEZTERM_PANE",
    "TMUX_PANE",
    "KITTY_WINDOW_ID",
    "WT_SESSION",
];

/// Bindings that are kept: more terminals than anybody has open. Beyond it the oldest go.
const MAX_BINDINGS: usize = 256;

#[derive(Debug, Serialize, Deserialize)]
struct Binding {
    name: String,
    terminal: String,
    leader: Option<Proc>,
    bound_ms: i64,
}

/// This terminal, told from every other one; `None` where there is none, or where the system
/// could tell who leads it and nobody does.
fn this(cx: &Context) -> Option<(String, Option<Proc>)> {
    let named = TERMINAL_VARIABLES
        .iter()
        .find_map(|name| Some(format!("{name}={}", cx.var(name)?)));
    let processes = cx.processes();
    let key = named.or_else(|| processes.tty(cx.pid()))?;
    let leader = processes.session_leader(cx.pid());
    (leader.is_some() || !processes.can_tell()).then_some((key, leader))
}

fn file(base: &Path, key: &str, leader: Option<&Proc>) -> PathBuf {
    let (pid, start) = leader.map_or((0, ""), |leader| (leader.pid, leader.start.as_str()));
    let name = digest(&[key.as_bytes(), &pid.to_be_bytes(), start.as_bytes()]);
    base.join("terminals").join(format!("{name}.json"))
}

/// Binds this terminal to the name; says whether there is a terminal to bind.
///
/// # Errors
/// When the binding cannot be written.
pub fn bind(cx: &Context, base: &Path, name: &str) -> Result<bool, KeyFileError> {
    let Some((terminal, leader)) = this(cx) else {
        return Ok(false);
    };
    let path = file(base, &terminal, leader.as_ref());
    if read(&path).is_some_and(|binding| binding.name == name) {
        return Ok(true);
    }
    let binding = Binding {
        name: name.to_owned(),
        terminal,
        leader,
        bound_ms: cx.now_ms(),
    };
    keyfile::replace(&path, &serde_json::to_vec(&binding).unwrap_or_default())?;
    prune(cx, base, &path);
    Ok(true)
}

/// The name that this terminal is bound to.
#[must_use]
pub fn bound(cx: &Context, base: &Path) -> Option<String> {
    let (terminal, leader) = this(cx)?;
    let binding = read(&file(base, &terminal, leader.as_ref()))?;
    (binding.terminal == terminal && binding.leader == leader).then_some(binding.name)
}

/// Ends the binding of this terminal; says which name it was.
pub fn unbind(cx: &Context, base: &Path) -> Option<String> {
    let name = bound(cx, base)?;
    let (terminal, leader) = this(cx)?;
    fs::remove_file(file(base, &terminal, leader.as_ref())).ok()?;
    Some(name)
}

fn read(path: &Path) -> Option<Binding> {
    serde_json::from_slice(&keyfile::read(path).ok()??).ok()
}

/// Forgets terminals whose leader is gone, and the oldest beyond [`MAX_BINDINGS`].
fn prune(cx: &Context, base: &Path, kept: &Path) {
    let Ok(listing) = fs::read_dir(base.join("terminals")) else {
        return;
    };
    let mut living = Vec::new();
    for path in listing.filter_map(|item| Some(item.ok()?.path())) {
        if path == kept || path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let gone = |leader: &Proc| cx.processes().alive(leader) == Alive::No;
        match read(&path) {
            Some(binding) if !binding.leader.as_ref().is_some_and(gone) => {
                living.push((binding.bound_ms, path));
            }
            _ => drop(fs::remove_file(path)),
        }
    }
    living.sort();
    let surplus = (living.len() + 1).saturating_sub(MAX_BINDINGS);
    for (_, path) in living.into_iter().take(surplus) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    /// A shell that leads a terminal, and a command in it.
    fn terminal(world: &World, shell: u32, tty: &str) {
        world.spawn_in(shell, 1, shell, Some(tty));
        world.spawn_in(shell + 1, shell, shell, Some(tty));
    }

    #[test]
    fn a_command_in_the_same_terminal_finds_the_name() {
        let world = World::new();
        terminal(&world, 10, "/dev/pts/1");
        terminal(&world, 20, "/dev/pts/2");
        assert!(bind(&world.context_of(11, []), world.base(), "alice").unwrap());
        world.spawn_in(12, 10, 10, Some("/dev/pts/1"));
        let later = world.context_of(12, []);
        assert_eq!(bound(&later, world.base()).as_deref(), Some("alice"));
        assert_eq!(bound(&world.context_of(21, []), world.base()), None);
        assert!(bind(&later, world.base(), "bob").unwrap());
        assert_eq!(bound(&later, world.base()).as_deref(), Some("bob"));
        assert_eq!(unbind(&later, world.base()).as_deref(), Some("bob"));
        assert_eq!(bound(&later, world.base()), None);
    }

    #[test]
    fn a_tty_that_is_used_again_is_a_new_terminal() {
        let world = World::new();
        terminal(&world, 10, "/dev/pts/1");
        bind(&world.context_of(11, []), world.base(), "alice").unwrap();
        world.end(10);
        world.end(11);
        terminal(&world, 10, "/dev/pts/1"); // even the number of the shell is the same
        let next = world.context_of(11, []);
        assert_eq!(bound(&next, world.base()), None);
        bind(&next, world.base(), "bob").unwrap();
        let files = fs::read_dir(world.base().join("terminals")).unwrap();
        assert_eq!(files.count(), 1, "the dead terminal's file is gone");
    }

    #[test]
    fn panes_that_share_inherited_variables_are_told_apart() {
        let world = World::new();
        terminal(&world, 10, "/dev/pts/1");
        terminal(&world, 20, "/dev/pts/2");
        let env = [("TERM_SESSION_ID", "w0t0p0")];
        bind(&world.context_of(11, env), world.base(), "alice").unwrap();
        bind(&world.context_of(21, env), world.base(), "bob").unwrap();
        let name = |pid| bound(&world.context_of(pid, env), world.base());
        assert_eq!(name(11).as_deref(), Some("alice"));
        assert_eq!(name(21).as_deref(), Some("bob"));
    }

    #[test]
    fn without_a_terminal_nothing_is_bound() {
        let world = World::new();
        world.spawn(30, 1);
        let cx = world.context_of(30, []);
        assert!(!bind(&cx, world.base(), "alice").unwrap());
        assert_eq!(bound(&cx, world.base()), None);
        // A leader that is gone cannot be told from its successor.
        let orphan = world.context_of(31, [("TMUX_PANE", "%1")]);
        assert!(!bind(&orphan, world.base(), "alice").unwrap());
    }

    #[test]
    fn where_processes_cannot_be_told_the_key_alone_decides() {
        let world = World::new();
        let cx = Context::new([("WT_SESSION", "guid")], world.work());
        assert!(bind(&cx, world.base(), "alice").unwrap());
        assert_eq!(bound(&cx, world.base()).as_deref(), Some("alice"));
        let other = Context::new([("WT_SESSION", "other")], world.work());
        assert_eq!(bound(&other, world.base()), None);
    }

    #[test]
    fn a_damaged_binding_binds_nothing() {
        let world = World::new();
        terminal(&world, 10, "/dev/pts/1");
        let cx = world.context_of(11, []);
        bind(&cx, world.base(), "alice").unwrap();
        let dir = world.base().join("terminals");
        let path = fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
        fs::write(path, b"{").unwrap();
        assert_eq!(bound(&cx, world.base()), None);
        assert!(bind(&cx, world.base(), "bob").unwrap());
        assert_eq!(bound(&cx, world.base()).as_deref(), Some("bob"));
    }
}
