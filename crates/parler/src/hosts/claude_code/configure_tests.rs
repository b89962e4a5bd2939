use std::fs;

use super::*;

struct Home {
    dir: tempfile::TempDir,
    files: Files,
}

impl Home {
    fn new(state: Option<&str>, settings: Option<&str>) -> Home {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::of_user(dir.path(), None);
        fs::create_dir(dir.path().join(".claude")).unwrap();
        for (path, text) in [(&files.state, state), (&files.settings, settings)] {
            if let Some(text) = text {
                fs::write(path, text).unwrap();
            }
        }
        Home { dir, files }
    }

    fn base(&self) -> PathBuf {
        self.dir.path().join("base")
    }

    fn connect(&self, wanted: &Wanted) -> Vec<Outcome> {
        let done = connect(&self.files, wanted, &self.base()).unwrap();
        done.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn remove(&self) -> Vec<Outcome> {
        let done = remove(&self.files, &self.base()).unwrap();
        done.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn texts(&self) -> [Option<String>; 2] {
        [&self.files.state, &self.files.settings].map(|path| fs::read_to_string(path).ok())
    }

    fn value(&self, path: &Path) -> Value {
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }
}

fn wanted() -> Wanted {
    Wanted {
        binary: "/opt/my tools/parler".into(),
        env: vec![("PARLER_HUB".into(), "ws://127.0.0.1:7070".into())],
        hooks: true,
    }
}

#[test]
fn the_host_starts_the_server_and_the_hooks() {
    let home = Home::new(Some("{\"numStartups\": 5}"), None);
    assert_eq!(home.connect(&wanted()), [Outcome::Written; 2]);
    let state = home.value(&home.files.state);
    assert_eq!(state["numStartups"], 5);
    assert_eq!(
        state["mcpServers"]["parler"]["command"],
        "/opt/my tools/parler"
    );
    assert_eq!(
        state["mcpServers"]["parler"]["env"]["PARLER_HUB"],
        "ws://127.0.0.1:7070"
    );
    let settings = home.value(&home.files.settings);
    assert_eq!(settings["permissions"]["allow"][0], PERMISSION);
    let hooks = &settings["hooks"]["Stop"][0]["hooks"];
    assert_eq!(hooks[0]["command"], "'/opt/my tools/parler' hook stop");
    assert_eq!(hooks[1]["command"], "'/opt/my tools/parler' hook rewake");
    assert_eq!(hooks[1]["asyncRewake"], true);
    assert_eq!(current_env(&home.files), wanted().env);
}

#[test]
fn a_second_run_changes_no_byte_and_remove_gives_the_bytes_back() {
    let shapes = [
        None,
        Some(""),
        Some("{}"),
        Some("{ }\r\n"),
        Some("{\"mcpServers\":{},\"hooks\":{\"Stop\":[]},\"permissions\":{\"allow\":[]}}"),
        Some("{\n\t\"a\": 1, // why\n\t\"mcpServers\": {\n\t\t\"x\": {}\n\t}\n}\n"),
        Some("\u{feff}{\"z\":[1,2],\r\n \"a\":null}\r\n\r\n"),
        Some(
            "{\"permissions\": {\"allow\": [\"Bash\",],},\n\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}]}}",
        ),
    ];
    for shape in shapes {
        let home = Home::new(shape, shape);
        assert_eq!(home.connect(&wanted()), [Outcome::Written; 2], "{shape:?}");
        let first = home.texts();
        assert_eq!(
            home.connect(&wanted()),
            [Outcome::Unchanged; 2],
            "{shape:?}"
        );
        assert_eq!(home.texts(), first);
        let other = Wanted {
            hooks: false,
            env: Vec::new(),
            ..wanted()
        };
        home.connect(&other);
        assert!(!home.texts()[1].as_deref().unwrap().contains("hook stop"));
        home.connect(&wanted());
        assert_eq!(home.texts(), first, "the same set-up gives the same bytes");
        assert_eq!(home.remove(), [Outcome::Written; 2]);
        assert_eq!(
            home.texts(),
            [shape.map(str::to_owned), shape.map(str::to_owned)]
        );
        assert_eq!(home.remove(), [Outcome::Unchanged; 2]);
    }
}

#[test]
fn what_the_host_wrote_meanwhile_survives_a_remove() {
    let state = "{\n  \"mcpServers\": {\n    \"parler\": {\"command\": \"mine\"}\n  }\n}\n";
    let settings = "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"say done\"}]}]}}";
    let home = Home::new(Some(state), Some(settings));
    home.connect(&wanted());
    for path in [&home.files.state, &home.files.settings] {
        let mut value = home.value(path);
        value["written by the host"] = true.into();
        fs::write(path, value.to_string()).unwrap();
    }
    assert_eq!(
        home.connect(&wanted()),
        [Outcome::Unchanged; 2],
        "what is wanted is still there"
    );
    assert_eq!(home.remove(), [Outcome::Written; 2]);
    let mut expected: Value = serde_json::from_str(state).unwrap();
    expected["written by the host"] = true.into();
    assert_eq!(
        home.value(&home.files.state),
        expected,
        "the user's own entry is back"
    );
    let mut expected: Value = serde_json::from_str(settings).unwrap();
    expected["written by the host"] = true.into();
    assert_eq!(home.value(&home.files.settings), expected);
}

#[test]
fn a_file_that_cannot_be_read_leaves_both_alone() {
    let home = Home::new(Some("{\"a\": 1}"), Some("{broken"));
    let error = connect(&home.files, &wanted(), &home.base())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("settings.json") && error.contains("not valid JSON"),
        "{error}"
    );
    assert_eq!(
        home.texts(),
        [Some("{\"a\": 1}".into()), Some("{broken".into())]
    );
    let home = Home::new(Some("{\"mcpServers\": []}"), None);
    let error = connect(&home.files, &wanted(), &home.base())
        .unwrap_err()
        .to_string();
    assert!(error.contains("\"mcpServers\" is not an object"), "{error}");
}

#[test]
fn only_our_own_commands_count_as_ours() {
    for (command, own) in [
        ("parler hook stop", true),
        ("'/a b/parler' hook rewake", true),
        ("/old/place/parler hook stop", true),
        ("parley hook stop", false),
        ("parler hook stop --mine", false),
        ("hook stop", false),
    ] {
        assert_eq!(
            is_own(&serde_json::json!({ "command": command })),
            own,
            "{command}"
        );
    }
}

#[test]
fn the_snippets_are_complete_documents() {
    for (_, text) in snippets(&wanted()) {
        serde_json::from_str::<Value>(&text).unwrap();
    }
}
