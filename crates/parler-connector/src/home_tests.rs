use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Barrier;

use super::*;
use crate::config::Config;
use crate::testing::World;

const CLAUDE: &str = "CLAUDE_CODE_SESSION_ID";
const CODEX: &str = "CODEX_THREAD_ID";

fn resolve_as(cx: &Context, kind: Kind) -> Identity {
    resolve(cx, &Ask::new(kind)).unwrap()
}

/// A host process and the MCP server below it.
fn start_host(world: &World, host: u32) -> u32 {
    world.spawn(host, 1);
    world.spawn(host + 1, host);
    host + 1
}

fn claude(world: &World, pid: u32, session: &str) -> Identity {
    resolve_as(&world.context_of(pid, [(CLAUDE, session)]), Kind::Mcp)
}

fn codex(world: &World, pid: u32) -> Identity {
    let ask = Ask::new(Kind::Mcp).host("codex");
    resolve(&world.context_of(pid, []), &ask).unwrap()
}

fn slot(identity: &Identity) -> u32 {
    match identity.rule {
        Rule::Slot { slot, .. } => slot,
        ref rule => panic!("{rule:?}"),
    }
}

#[test]
fn the_base_home_is_named_or_in_the_users_home() {
    let base = |env: &[(&str, &str)]| base_home(&Context::new(env.iter().copied(), "/w"));
    let home = ("HOME", "/home/me");
    assert_eq!(base(&[home]).unwrap(), PathBuf::from("/home/me/.parler"));
    for (value, want) in [
        ("/srv/p", "/srv/p"),
        ("~/p", "/home/me/p"),
        ("rel", "/w/rel"),
        ("", "/home/me/.parler"),
    ] {
        let found = base(&[home, ("PARLER_BASE", value)]).unwrap();
        assert_eq!(found, PathBuf::from(want), "{value:?}");
    }
    // Whatever PARLER_HOME says.
    let found = base(&[home, ("PARLER_HOME", "/elsewhere")]).unwrap();
    assert_eq!(found, PathBuf::from("/home/me/.parler"));
    for nothing in [&[][..], &[("HOME", "")]] {
        let error = base(nothing).unwrap_err();
        assert!(error.to_string().contains("set PARLER_BASE"), "{error}");
    }
}

#[test]
fn in_a_plain_shell_the_flag_wins_then_the_variable_then_the_terminal_then_the_base() {
    let world = World::new();
    world.spawn_in(10, 1, 10, Some("/dev/pts/1"));
    world.spawn_in(11, 10, 10, Some("/dev/pts/1"));
    let plain = world.context_of(11, []);
    let named = Ask::new(Kind::Shell).named(Some("alice"));

    let identity = resolve_as(&plain, Kind::Shell);
    assert_eq!(
        (identity.home.as_path(), identity.rule),
        (world.base(), Rule::Base)
    );

    let alice = resolve(&plain, &named).unwrap();
    assert_eq!(alice.home, named_home(world.base(), "alice"));
    assert_eq!(alice.name.as_deref(), Some("alice"));
    assert!(matches!(alice.rule, Rule::As { bound: true, .. }));

    let bound = resolve_as(&plain, Kind::Shell);
    assert_eq!(bound.home, alice.home);
    assert!(matches!(bound.rule, Rule::Terminal { .. }));

    let elsewhere = world.root().join("elsewhere");
    let variable = plain.clone().with_var("PARLER_HOME", elsewhere.as_os_str());
    let chosen = resolve_as(&variable, Kind::Shell);
    assert_eq!((chosen.home, chosen.rule), (elsewhere, Rule::ParlerHome));
    assert_eq!(resolve(&variable, &named).unwrap().home, alice.home);
}

#[test]
fn a_terminal_that_is_used_again_is_nobody_in_particular() {
    let world = World::new();
    let open = |pid| {
        world.spawn_in(pid, 1, pid, Some("/dev/pts/1"));
        world.context_of(pid, [])
    };
    let named = Ask::new(Kind::Shell).named(Some("alice"));
    resolve(&open(10), &named).unwrap();
    world.end(10);
    let again = open(10);
    assert_eq!(resolve_as(&again, Kind::Shell).rule, Rule::Base);
}

#[test]
fn a_name_is_one_identity_and_no_other_names() {
    let world = World::new();
    let home = |name: &str| {
        let ask = Ask::new(Kind::Shell).named(Some(name));
        resolve(&world.context([]), &ask).map(|identity| identity.home)
    };
    assert_eq!(home("web dev").unwrap(), home(" web  dev ").unwrap());
    let names = [
        "web dev", "web_dev", "Web dev", "web.dev", "wébdev", "木", "林",
    ];
    let homes: BTreeSet<PathBuf> = names.iter().map(|name| home(name).unwrap()).collect();
    assert_eq!(homes.len(), names.len());
    assert!(
        homes
            .iter()
            .all(|home| home.parent() == Some(&world.base().join("as")))
    );
    let long = home(&"x".repeat(200)).unwrap();
    assert!(long.file_name().unwrap().len() <= 64);
    let escape = home("../../etc").unwrap();
    assert!(
        escape.starts_with(world.base().join("as"))
            && escape.components().count() == long.components().count()
    );
    for bad in ["", "  ", "\u{200B}", "HUB", "all", &"x".repeat(300)] {
        let error = home(bad).unwrap_err();
        assert!(error.to_string().starts_with("--as: "), "{error}");
    }
}

#[test]
fn a_name_given_inside_a_host_does_not_bind_the_users_terminal() {
    let world = World::new();
    world.spawn_in(10, 1, 10, Some("/dev/pts/1"));
    let ask = Ask::new(Kind::Shell).named(Some("helper"));
    let inside = world.context_of(10, [(CLAUDE, "s")]);
    let identity = resolve(&inside, &ask).unwrap();
    assert!(matches!(identity.rule, Rule::As { bound: false, .. }));
    assert_eq!(
        resolve_as(&world.context_of(10, []), Kind::Shell).rule,
        Rule::Base
    );
}

#[test]
fn two_live_sessions_of_a_workspace_are_two_identities() {
    let world = World::new();
    let first = codex(&world, start_host(&world, 10));
    let second = codex(&world, start_host(&world, 20));
    assert_eq!((slot(&first), slot(&second)), (0, 1));
    assert_ne!(first.home, second.home);
    assert!(first.home.starts_with(world.base().join("ws")));
    let third_home = {
        drop(first);
        world.end(10);
        world.end(11);
        codex(&world, start_host(&world, 30)).home
    };
    assert_ne!(third_home, second.home, "the free slot is taken again");
    assert_eq!(third_home, codex(&world, start_host(&world, 40)).home);
}

#[test]
fn hosts_and_workspaces_do_not_share_slots() {
    let world = World::new();
    let other = world.root().join("other");
    std::fs::create_dir(&other).unwrap();
    let home = |host: &str, cwd: PathBuf| {
        let ask = Ask::new(Kind::Mcp).host(host).cwd(cwd);
        resolve(&world.context([]), &ask).unwrap().home
    };
    let homes = BTreeSet::from([
        home("codex", world.work()),
        home("opencode", world.work()),
        home("codex", other),
    ]);
    assert_eq!(homes.len(), 3);
}

#[cfg(unix)]
#[test]
fn a_workspace_reached_through_a_link_is_the_same() {
    let world = World::new();
    let link = world.root().join("link");
    std::os::unix::fs::symlink(world.work(), &link).unwrap();
    let direct = codex(&world, start_host(&world, 10));
    let home = direct.home.clone();
    drop(direct);
    let ask = Ask::new(Kind::Mcp).host("codex").cwd(link);
    assert_eq!(resolve(&world.context([]), &ask).unwrap().home, home);
}

#[test]
fn a_resumed_session_finds_its_identity() {
    let world = World::new();
    let home_a = claude(&world, start_host(&world, 10), "a").home;
    let home_b = claude(&world, start_host(&world, 20), "b").home;
    assert_ne!(home_a, home_b, "a session never gets what another one owns");
    let b = claude(&world, start_host(&world, 30), "b");
    let a = claude(&world, start_host(&world, 40), "a");
    assert_eq!((a.home, b.home), (home_a, home_b));
    assert_eq!((a.note, b.note), (None, None));
}

#[test]
fn a_resumed_session_whose_identity_is_in_use_gets_another_and_says_so() {
    let world = World::new();
    let running = claude(&world, start_host(&world, 10), "a");
    let twin = claude(&world, start_host(&world, 20), "a");
    assert_ne!(running.home, twin.home);
    let note = twin.note.unwrap();
    assert!(note.contains("in use"), "{note}");
}

#[test]
fn the_commands_and_hooks_of_a_session_are_its_identity() {
    let world = World::new();
    let parent = world.root().join("for-claude");
    let server_env = [(CLAUDE, "s"), ("PARLER_HOME", parent.to_str().unwrap())];
    let server = start_host(&world, 10);
    let identity = resolve_as(&world.context_of(server, server_env), Kind::Mcp);
    assert!(identity.home.starts_with(parent.join("ws")));
    assert_eq!(identity.parent.as_deref(), Some(parent.as_path()));

    // A command in the session's shell, somewhere else, without the server's PARLER_HOME.
    let deeper = world.work().join("src");
    std::fs::create_dir(&deeper).unwrap();
    let shell = world.context_of(99, [(CLAUDE, "s")]).with_cwd(deeper);
    let found = resolve_as(&shell, Kind::Shell);
    assert_eq!(found.home, identity.home);
    assert!(found.lock.is_none());

    // A hook that has the id from its payload only.
    let ask = Ask::new(Kind::Hook)
        .host("claude-code")
        .session_id(Some("s"));
    let hook = resolve(&world.context_of(98, []), &ask).unwrap();
    assert_eq!(hook.home, identity.home);

    // Also after the server has ended.
    drop(identity);
    world.end(server);
    assert_eq!(resolve_as(&shell, Kind::Shell).home, found.home);
}

#[test]
fn a_session_with_nothing_but_commands_has_an_identity_of_its_own() {
    let world = World::new();
    let home = |session: &str| {
        let cx = world.context_of(99, [(CLAUDE, session)]);
        resolve_as(&cx, Kind::Shell).home
    };
    let (a, b) = (home("a"), home("b"));
    assert_ne!(a, b);
    assert_eq!((home("a"), home("b")), (a.clone(), b));
    // Its MCP server, started later, is the same.
    assert_eq!(claude(&world, start_host(&world, 10), "a").home, a);
}

#[test]
fn a_session_id_that_is_told_late_is_learnt() {
    let world = World::new();
    let server = start_host(&world, 10);
    let identity = codex(&world, server);
    let home = identity.home.clone();

    // A command below the host, before any call told the server its thread.
    world.spawn(15, 10);
    let shell = world.context_of(15, [(CODEX, "t1")]);
    assert_eq!(resolve_as(&shell, Kind::Shell).home, home);

    let mut entry = identity.entry.clone().unwrap();
    let registry = Registry::open(&world.context([]), world.base());
    registry.name_session(&mut entry, "t1").unwrap();
    registry.name_session(&mut entry, "t2").unwrap();
    assert_eq!(entry.session_id.as_deref(), Some("t1"), "once");
    assert_eq!(registry.live().len(), 1, "one entry, under its id");
    // A command that is not below the host finds it by the id.
    let far = world.context_of(99, [(CODEX, "t1")]);
    assert_eq!(resolve_as(&far, Kind::Shell).home, home);
}

#[test]
fn sessions_of_one_host_process_are_not_mixed_up() {
    let world = World::new();
    world.spawn(10, 1); // serves several threads
    world.spawn(11, 10);
    let first = codex(&world, 11);
    let registry = Registry::open(&world.context([]), world.base());
    let mut entry = first.entry.clone().unwrap();
    registry.name_session(&mut entry, "t1").unwrap();
    world.spawn(15, 10);
    let other = resolve_as(&world.context_of(15, [(CODEX, "t2")]), Kind::Shell);
    assert_ne!(other.home, first.home);
    // Two servers that nobody claimed: neither is guessed.
    world.spawn(12, 10);
    world.spawn(13, 10);
    let (a, b) = (codex(&world, 12), codex(&world, 13));
    let third = resolve_as(&world.context_of(15, [(CODEX, "t3")]), Kind::Shell);
    assert!(third.home != a.home && third.home != b.home);
}

#[test]
fn a_host_that_renames_its_session_keeps_the_identity() {
    let world = World::new();
    let server = start_host(&world, 10);
    let identity = claude(&world, server, "before");
    world.spawn(15, 10);
    let cleared = world.context_of(15, [(CLAUDE, "after")]);
    assert_eq!(resolve_as(&cleared, Kind::Shell).home, identity.home);
    // The new id is remembered: it is what a later resume will name.
    let home = identity.home.clone();
    drop(identity);
    world.end(10);
    world.end(server);
    assert_eq!(claude(&world, start_host(&world, 20), "after").home, home);
}

#[test]
fn a_host_without_session_ids_is_found_by_its_process() {
    let world = World::new();
    let server = start_host(&world, 10);
    let ask = Ask::new(Kind::Mcp).host("opencode");
    let identity = resolve(&world.context_of(server, [("OPENCODE", "1")]), &ask).unwrap();
    let second = start_host(&world, 20);
    let other = resolve(&world.context_of(second, [("OPENCODE", "1")]), &ask).unwrap();
    world.spawn(15, 10);
    world.spawn(25, 20);
    let shell = |pid| resolve_as(&world.context_of(pid, [("OPENCODE", "1")]), Kind::Shell).home;
    assert_eq!((shell(15), shell(25)), (identity.home, other.home));
}

#[test]
fn a_named_session_is_one_identity_for_ever() {
    let world = World::new();
    let identity = |value: &str, kind| {
        let env = [(CLAUDE, "whatever"), ("PARLER_AGENT_SESSION", value)];
        resolve_as(&world.context_of(start_host(&world, 10), env), kind)
    };
    let a = identity("a", Kind::Mcp);
    assert_eq!(a.home, identity("a", Kind::Shell).home);
    assert_eq!(a.home, identity("a", Kind::Mcp).home, "held or not");
    assert_ne!(a.home, identity("b", Kind::Mcp).home);
    let folder = crate::naming::scoped_folder(&world.work(), Some("a"));
    assert_eq!(a.home, world.base().join("ws").join(folder));
    assert!(matches!(a.rule, Rule::AgentSession { .. }));
    // The session's shell has the server's identity although it lacks the variable.
    let shell = world.context_of(99, [(CLAUDE, "whatever")]);
    let registry = Registry::open(&shell, world.base());
    let newest = registry.find_session("whatever").remove(0).home;
    assert_eq!(resolve_as(&shell, Kind::Shell).home, newest);
}

#[test]
fn slots_can_be_switched_off() {
    let world = World::new();
    let elsewhere = world.root().join("shared");
    let shared = [(CLAUDE, "s"), ("PARLER_SHARED_IDENTITY", "1")];
    for kind in [Kind::Mcp, Kind::Shell, Kind::Hook] {
        let identity = resolve_as(&world.context(shared), kind);
        assert_eq!(
            (identity.home.as_path(), identity.rule),
            (world.base(), Rule::Shared)
        );
    }
    let cx = world
        .context(shared)
        .with_var("PARLER_HOME", elsewhere.as_os_str());
    assert_eq!(resolve_as(&cx, Kind::Mcp).home, elsewhere);
    let off = [(CLAUDE, "s"), ("PARLER_SHARED_IDENTITY", "0")];
    assert!(matches!(
        resolve_as(&world.context(off), Kind::Mcp).rule,
        Rule::Slot { .. }
    ));
}

#[test]
fn without_a_directory_there_are_no_slots() {
    let world = World::new();
    let gone = world
        .context([(CLAUDE, "s")])
        .with_cwd(world.root().join("gone"));
    assert_eq!(resolve_as(&gone, Kind::Mcp).rule, Rule::Shared);
}

#[test]
fn commands_that_set_up_never_have_a_slot() {
    let world = World::new();
    let cx = world.context([(CLAUDE, "s")]);
    assert_eq!(resolve_as(&cx, Kind::Setup).rule, Rule::Base);
}

/// A home as an older client left it.
fn old_home(world: &World, session: Option<&str>) -> PathBuf {
    let folder = crate::naming::scoped_folder(&world.work(), session);
    let home = world.base().join("ws").join(folder);
    Config::load_or_mint(&home, Some("oldie"), None).unwrap();
    home
}

#[test]
fn a_home_that_was_there_before_is_adopted() {
    let world = World::new();
    let old = old_home(&world, Some("s"));
    let shell = world.context_of(99, [(CLAUDE, "s")]);
    let found = resolve_as(&shell, Kind::Shell);
    assert_eq!(found.home, old);
    assert!(matches!(found.rule, Rule::Adopted { .. }));
    let server = claude(&world, start_host(&world, 10), "s");
    assert_eq!(server.home, old);
    assert_ne!(claude(&world, start_host(&world, 20), "t").home, old);

    let world = World::new();
    let old = old_home(&world, None);
    assert_eq!(codex(&world, start_host(&world, 10)).home, old);
    // It is held by one at a time, like any slot.
    let world = World::new();
    let old = old_home(&world, None);
    let first = codex(&world, start_host(&world, 10));
    let second = codex(&world, start_host(&world, 20));
    assert_eq!(first.home, old);
    assert_eq!(slot(&second), 0);
}

#[test]
fn another_hosts_session_id_around_says_nothing() {
    let world = World::new();
    let ask = Ask::new(Kind::Mcp).host("opencode");
    let cx = world.context([(CLAUDE, "of-the-shell-that-started-it")]);
    let identity = resolve(&cx, &ask).unwrap();
    let session = identity.session.unwrap();
    assert_eq!(
        (session.host.as_str(), session.session_id),
        ("opencode", None)
    );
}

#[test]
fn twenty_sessions_that_start_together_are_twenty_identities() {
    let world = World::new();
    for n in 0..20 {
        start_host(&world, 100 + 2 * n);
    }
    let together = Barrier::new(20);
    let identities: Vec<Identity> = std::thread::scope(|scope| {
        let start = |n: u32| {
            let (world, together) = (&world, &together);
            scope.spawn(move || {
                together.wait();
                codex(world, 101 + 2 * n)
            })
        };
        let threads: Vec<_> = (0..20).map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let slots: BTreeSet<u32> = identities.iter().map(slot).collect();
    assert_eq!(slots, (0..20).collect());
}

#[test]
fn twenty_commands_of_a_new_session_are_one_identity() {
    let world = World::new();
    let together = Barrier::new(20);
    let homes: BTreeSet<PathBuf> = std::thread::scope(|scope| {
        let start = |_| {
            let (world, together) = (&world, &together);
            scope.spawn(move || {
                let cx = world.context_of(99, [(CLAUDE, "s")]);
                together.wait();
                resolve_as(&cx, Kind::Shell).home
            })
        };
        let threads: Vec<_> = (0..20).map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(homes.len(), 1);
}

#[test]
fn every_rule_is_told_in_words() {
    let (host, workspace) = ("codex".to_owned(), PathBuf::from("/w"));
    for (rule, words) in [
        (
            Rule::As {
                name: "a".into(),
                bound: true,
            },
            "--as a; this terminal is bound to it",
        ),
        (Rule::ParlerHome, "PARLER_HOME"),
        (
            Rule::Terminal { name: "a".into() },
            "this terminal is bound to 'a' by an earlier --as",
        ),
        (
            Rule::AgentSession { value: "x".into() },
            "PARLER_AGENT_SESSION=x",
        ),
        (
            Rule::Slot {
                host: host.clone(),
                workspace: workspace.clone(),
                slot: 1,
                session: Some("s".into()),
            },
            "codex in /w, slot 1, session s",
        ),
        (
            Rule::Adopted {
                host: host.clone(),
                workspace,
            },
            "codex in /w, a home that was there before",
        ),
        (
            Rule::Server { host },
            "the identity of this codex session's MCP server",
        ),
        (Rule::Shared, "one shared identity in every workspace"),
        (Rule::Base, "the default identity of this user"),
    ] {
        assert_eq!(rule.to_string(), words);
    }
}

#[cfg(unix)]
#[test]
fn what_is_made_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let identity = claude(&world, start_host(&world, 10), "s");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for folder in [
        world.base(),
        &world.base().join("ws"),
        &identity.home,
        &world.base().join("sessions"),
    ] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    assert_eq!(mode(&identity.home.join("slot.lock")), 0o600);
    assert_eq!(mode(&world.base().join("ws").join("choice.lock")), 0o600);
}
