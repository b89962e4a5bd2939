use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;

use serde_json::json;

use super::*;
use crate::home::{Ask, Kind, resolve};
use crate::testing::World;

fn home() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    (dir, home)
}

fn json_of(home: &Path) -> Value {
    serde_json::from_slice(&fs::read(path_in(home)).unwrap()).unwrap()
}

#[test]
fn an_identity_is_minted_once_and_read_again() {
    let (_dir, home) = home();
    assert!(Config::load(&home).unwrap().is_none());
    let (config, minted) = Config::load_or_mint(&home, Some(" web dev "), Some("lead")).unwrap();
    assert_eq!(minted, Minted::Yes);
    assert_eq!(
        (config.name.as_str(), config.role.as_deref()),
        ("web dev", Some("lead"))
    );
    assert_eq!(config.keys().unwrap().id(), &config.id);
    let (again, minted) = Config::load_or_mint(&home, Some("other"), None).unwrap();
    assert_eq!(minted, Minted::No);
    assert_eq!((again.id, again.name), (config.id, config.name));
    let file = json_of(&home);
    assert!(
        file.get("hub_url").is_none(),
        "no hub is written for the local one"
    );
    assert!(file.get("attention").is_none());
}

#[test]
fn without_a_name_a_handle_is_made_of_the_id() {
    let (_dir, home) = home();
    let (config, _) = Config::load_or_mint(&home, None, None).unwrap();
    assert_eq!(config.name, handle_for(config.id.as_str()));
}

#[test]
fn names_that_mean_or_hide_something_are_refused() {
    for (name, want) in [
        ("", NameError::Empty),
        (" \u{200B}\u{202E}\n", NameError::Empty),
        ("hub", NameError::Reserved("hub".into())),
        ("Sys\u{200B}tem", NameError::Reserved("System".into())),
        (
            "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK",
            NameError::AnId,
        ),
    ] {
        assert_eq!(new_name(name), Err(want), "{name:?}");
    }
    assert_eq!(new_name(&"é".repeat(129)), Err(NameError::TooLong));
    assert_eq!(new_name("we\u{1b}[31mb\u{202E}"), Ok("we[31mb".into()));
    let (_dir, home) = home();
    let error = Config::load_or_mint(&home, Some("ALL"), None).unwrap_err();
    assert!(error.to_string().contains("'ALL' is reserved"), "{error}");
    assert!(!path_in(&home).exists(), "nothing was minted");
}

#[test]
fn fields_of_other_versions_stay() {
    let (_dir, home) = home();
    Config::load_or_mint(&home, Some("a"), None).unwrap();
    let mut file = json_of(&home);
    file["from_the_future"] = json!({"x": [1, 2]});
    file["attention"] = json!({"mode": "dnd", "muted_rooms": ["noise"]});
    file["hub_url"] = json!("wss://hub.example");
    keyfile::replace(&path_in(&home), file.to_string().as_bytes()).unwrap();
    let config = Config::update(&home, |config| config.name = "b".into()).unwrap();
    assert_eq!(config.hub_url.as_deref(), Some("wss://hub.example"));
    assert_eq!(config.attention.mode, Some(Attention::Dnd));
    assert_eq!(config.attention.room("noise"), Some(RoomAttention::Muted));
    file["name"] = json!("b");
    assert_eq!(json_of(&home), file);
}

#[test]
fn a_damaged_file_is_named_and_left_alone() {
    let (_dir, home) = home();
    let (config, _) = Config::load_or_mint(&home, Some("a"), None).unwrap();
    let good = json_of(&home);
    let with = |field: &str, value: Value| {
        let mut file = good.clone();
        file[field] = value;
        file.to_string()
    };
    let seed = config.keys().unwrap().seed_text();
    let other = KeyPair::generate().unwrap().id().to_string();
    for damaged in [
        String::new(),
        "{".into(),
        "[]".into(),
        good.to_string()[..40].into(),
        with("seed", json!("SUAAA")),
        with("seed", json!(7)),
        with("id", json!(other)),
        with("name", Value::Null),
        with("attention", json!({"mode": 7})),
    ] {
        keyfile::replace(&path_in(&home), damaged.as_bytes()).unwrap();
        let error = Config::load_or_mint(&home, None, None).unwrap_err();
        assert!(
            matches!(error, ConfigError::Damaged { .. }),
            "{damaged}: {error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("config.json") && !text.contains(seed.as_str()),
            "{text}"
        );
        assert_eq!(fs::read_to_string(path_in(&home)).unwrap(), damaged);
    }
}

#[test]
fn twenty_processes_that_start_together_are_one_identity() {
    let (_dir, home) = home();
    let together = Barrier::new(20);
    let made: Vec<(AgentId, Minted)> = std::thread::scope(|scope| {
        let start = |_| {
            let (home, together) = (&home, &together);
            scope.spawn(move || {
                together.wait();
                let (config, minted) = Config::load_or_mint(home, None, None).unwrap();
                (config.id, minted)
            })
        };
        let threads: Vec<_> = (0..20).map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let ids: BTreeSet<&str> = made.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids.len(), 1);
    let minted = made.iter().filter(|(_, minted)| *minted == Minted::Yes);
    assert_eq!(minted.count(), 1);
}

#[test]
fn changes_of_several_processes_are_all_kept() {
    let (_dir, home) = home();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let home = &home;
            scope.spawn(move || {
                let room = format!("room{n}");
                let quiet = Some(RoomAttention::Quiet);
                Config::update(home, |c| c.attention.set_room(&room, quiet)).unwrap();
            });
        }
    });
    let config = Config::load(&home).unwrap().unwrap();
    assert_eq!(config.attention.quiet_rooms.len(), 8);
}

#[test]
fn a_room_is_quiet_or_muted_never_both() {
    let mut attention = AttentionSettings::default();
    attention.set_room("r", Some(RoomAttention::Quiet));
    attention.set_room("r", Some(RoomAttention::Muted));
    assert!(attention.quiet_rooms.is_empty());
    assert_eq!(attention.room("r"), Some(RoomAttention::Muted));
    attention.set_room("r", None);
    assert_eq!(attention, AttentionSettings::default());
}

#[cfg(unix)]
#[test]
fn the_file_is_private_and_an_open_one_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, home) = home();
    Config::load_or_mint(&home, None, None).unwrap();
    let path = path_in(&home);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&home)), (0o600, 0o700));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let error = Config::load(&home).unwrap_err();
    assert!(error.to_string().contains("chmod 600"), "{error}");
}

#[test]
fn the_seed_is_not_shown() {
    let (_dir, home) = home();
    let (config, _) = Config::load_or_mint(&home, None, None).unwrap();
    let seed = config.keys().unwrap().seed_text();
    assert!(!format!("{config:?}").contains(seed.as_str()));
}

// What holds for one run -------------------------------------------------------------------------

fn run(world: &World, env: &[(&str, &str)], flags: &Flags) -> Effective {
    let mut cx = world.context([]);
    for (name, value) in env {
        cx = cx.with_var(name, *value);
    }
    let identity = resolve(&cx, &Ask::new(Kind::Shell)).unwrap();
    let (config, _) = Config::open(&world.context([]), &identity).unwrap();
    effective(&config, &cx, &identity, flags).unwrap()
}

fn named(url: &str, from: &str) -> HubChoice {
    HubChoice::Named {
        url: url.into(),
        from: from.into(),
        carried: false,
    }
}

#[test]
fn a_hub_that_a_key_brought_stays_one_until_somebody_names_it() {
    let world = World::new();
    Config::load_or_mint(world.base(), Some("a"), None).unwrap();
    Config::update(world.base(), |c| c.set_hub("wss://keyed", true)).unwrap();
    let carried = |env: &[(&str, &str)], flags: &Flags| match run(&world, env, flags).hub {
        HubChoice::Named { carried, .. } => carried,
        HubChoice::Local => panic!("it is named"),
    };
    let none = Flags::default();
    assert!(carried(&[], &none));
    assert!(carried(&[("CLAUDE_CODE_SESSION_ID", "s")], &none), "a slot");
    assert!(!carried(&[("PARLER_HUB", "wss://keyed")], &none));
    let flags = Flags {
        hub: Some("wss://keyed".into()),
        ..Flags::default()
    };
    assert!(!carried(&[], &flags));
    Config::update(world.base(), |c| c.set_hub("wss://keyed", false)).unwrap();
    assert!(!carried(&[], &none));
}

#[test]
fn flag_goes_before_environment_before_file_before_default() {
    let world = World::new();
    Config::load_or_mint(world.base(), Some("filed"), None).unwrap();
    let plain = run(&world, &[], &Flags::default());
    assert_eq!(
        (plain.hub, plain.name.as_str(), plain.role),
        (HubChoice::Local, "filed", None)
    );
    assert!(plain.changed.is_empty());

    Config::update(world.base(), |c| c.hub_url = Some("ws://filed".into())).unwrap();
    assert_eq!(
        run(&world, &[], &Flags::default()).hub,
        named("ws://filed", "config")
    );

    let env = [
        ("PARLER_HUB", "ws://env"),
        ("PARLER_NAME", "envy"),
        ("PARLER_ROLE", "qa\u{200B}"),
    ];
    let over = run(&world, &env, &Flags::default());
    assert_eq!(over.hub, named("ws://env", "PARLER_HUB"));
    assert_eq!(
        (over.name.as_str(), over.role.as_deref()),
        ("envy", Some("qa"))
    );
    assert_eq!(
        over.changed,
        [
            "hub is 'ws://env' by PARLER_HUB (config: ws://filed)",
            "name is 'envy' by PARLER_NAME (config: filed)",
            "role is 'qa' by PARLER_ROLE (config: none)",
        ]
    );
    let flags = Flags {
        hub: Some("ws://flag".into()),
        name: Some("flagged".into()),
        role: Some("ops".into()),
        ca: None,
    };
    let flagged = run(&world, &env, &flags);
    assert_eq!(flagged.hub, named("ws://flag", "--hub"));
    assert_eq!(
        (flagged.name.as_str(), flagged.role.as_deref()),
        ("flagged", Some("ops"))
    );
    // Nothing was written back.
    assert_eq!(Config::load(world.base()).unwrap().unwrap().name, "filed");
}

#[test]
fn a_name_that_nobody_may_have_is_an_error_that_names_its_source() {
    let world = World::new();
    let cx = world.context([("PARLER_NAME", "system")]);
    let identity = resolve(&cx, &Ask::new(Kind::Shell)).unwrap();
    let (config, _) = Config::open(&world.context([]), &identity).unwrap();
    let error = effective(&config, &cx, &identity, &Flags::default()).unwrap_err();
    assert!(error.to_string().starts_with("PARLER_NAME: "), "{error}");
    // Also when the identity would be a new one.
    let fresh = World::new();
    let cx = fresh.context([("PARLER_NAME", "system")]);
    let identity = resolve(&cx, &Ask::new(Kind::Shell)).unwrap();
    let error = Config::open(&cx, &identity).unwrap_err();
    assert!(error.to_string().starts_with("PARLER_NAME: "), "{error}");
}

#[test]
fn a_hostile_name_in_the_file_goes_out_clean() {
    let world = World::new();
    Config::load_or_mint(world.base(), Some("a"), None).unwrap();
    Config::update(world.base(), |c| c.name = "we\u{1b}[31m\u{202E}b".into()).unwrap();
    assert_eq!(run(&world, &[], &Flags::default()).name, "we[31mb");
    let config = Config::update(world.base(), |c| c.name = "\u{200B}".into()).unwrap();
    let name = run(&world, &[], &Flags::default()).name;
    assert_eq!(name, handle_for(config.id.as_str()));
}

#[test]
fn a_slot_inherits_the_hub_of_its_parent_and_nothing_else() {
    let world = World::new();
    let (parent, _) = Config::load_or_mint(world.base(), Some("parent"), Some("boss")).unwrap();
    Config::update(world.base(), |c| c.hub_url = Some("wss://team".into())).unwrap();
    let cx = world.context([("CLAUDE_CODE_SESSION_ID", "s")]);
    let identity = resolve(&cx, &Ask::new(Kind::Mcp)).unwrap();
    let (config, minted) = Config::open(&cx, &identity).unwrap();
    assert_eq!(minted, Minted::Yes);
    assert_ne!(config.id, parent.id);
    let effective = effective(&config, &cx, &identity, &Flags::default()).unwrap();
    assert!(matches!(&effective.hub, HubChoice::Named { url, from, .. }
        if url == "wss://team" && from.ends_with("config.json")));
    assert_ne!(effective.name, "parent");
    assert_eq!(effective.role, None);
    assert!(effective.changed.is_empty());
}

#[test]
fn the_name_of_a_named_identity_is_its_own() {
    let world = World::new();
    let cx = world.context([("PARLER_NAME", "exported")]);
    let identity = resolve(&cx, &Ask::new(Kind::Shell).named(Some("alice"))).unwrap();
    let (config, _) = Config::open(&cx, &identity).unwrap();
    assert_eq!(config.name, "alice");
    let effective = effective(&config, &cx, &identity, &Flags::default()).unwrap();
    assert_eq!(effective.name, "alice");
}

#[test]
fn an_attention_mode_of_a_newer_version_is_kept_and_is_no_damage() {
    let world = World::new();
    Config::load_or_mint(world.base(), Some("a"), None).unwrap();
    let path = path_in(world.base());
    let read = || -> Value { serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap() };
    let mut file = read();
    file["attention"] = json!({"mode":"telepathy","quiet_rooms":["r"]});
    keyfile::replace(&path, file.to_string().as_bytes()).unwrap();
    let config = Config::update(world.base(), |c| c.name = "b".into()).unwrap();
    assert_eq!(config.attention.mode, None);
    assert_eq!(config.attention.room("r"), Some(RoomAttention::Quiet));
    assert_eq!(read()["attention"], file["attention"]);
    let set = |c: &mut Config| c.attention.mode = parler_protocol::Attention::from_wire("dnd");
    Config::update(world.base(), set).unwrap();
    assert_ne!(read()["attention"]["mode"], "telepathy");
    file["attention"] = json!({"quiet_rooms":7});
    keyfile::replace(&path, file.to_string().as_bytes()).unwrap();
    assert!(matches!(
        Config::load(world.base()),
        Err(ConfigError::Damaged { .. })
    ));
}

#[test]
fn authorities_come_from_the_flag_the_environment_the_file_or_the_parent() {
    let world = World::new();
    Config::load_or_mint(world.base(), None, None).unwrap();
    let none = Flags::default();
    assert_eq!(run(&world, &[], &none).ca, None);
    Config::update(world.base(), |c| c.ca = Some("/etc/file.pem".into())).unwrap();
    let is = |env: &[(&str, &str)], flags: &Flags, want: &str| {
        assert_eq!(run(&world, env, flags).ca.as_deref(), Some(Path::new(want)));
    };
    is(&[], &none, "/etc/file.pem");
    is(&[("CLAUDE_CODE_SESSION_ID", "s")], &none, "/etc/file.pem");
    is(&[("PARLER_CA", "/etc/env.pem")], &none, "/etc/env.pem");
    let flags = Flags {
        ca: Some("/etc/flag.pem".into()),
        ..Flags::default()
    };
    is(&[("PARLER_CA", "/etc/env.pem")], &flags, "/etc/flag.pem");
}
