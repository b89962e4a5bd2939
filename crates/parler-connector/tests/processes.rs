//! Identities with real processes: this test program starts itself as the commands and servers of
//! a user, each with an environment of its own, and looks at what they say.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // helpers of tests

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use parler_connector::config::{Config, Minted};
use parler_connector::home::{Ask, Context, Kind, resolve};
use parler_connector::wake::once::{Once, Submit, Thing};

const PART: &str = "PARLER_TEST_PART";

/// What a started program does: resolves its identity, mints it, says who it is, and stays until
/// its input ends. Does nothing as part of an ordinary run.
#[test]
fn part() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let kind = match part.as_str() {
        "mcp" => Kind::Mcp,
        _ => Kind::Shell,
    };
    let cx = Context::from_process();
    let name = std::env::var("AS").ok();
    let ask = Ask::new(kind).named(name.as_deref());
    let ask = match std::env::var("HOST") {
        Ok(host) => ask.host(host),
        Err(_) => ask,
    };
    let identity = resolve(&cx, &ask).unwrap();
    let (config, minted) = Config::open(&cx, &identity).unwrap();
    let once = Once::open(&identity.base, config.id.as_str());
    let thing = Thing {
        message: "m",
        take: 0,
    };
    let rang = once.submit(thing, "s").unwrap() == Submit::Ring;
    let fresh = minted == Minted::Yes;
    println!(
        "SAYS {} {fresh} {rang} {}",
        config.id,
        identity.home.display()
    );
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lines().next();
}

struct Program {
    child: Child,
    says: Option<Vec<String>>,
}

impl Program {
    fn start(home: &Path, part: &str, env: &[(&str, &str)]) -> Self {
        let work = home.join("work");
        std::fs::create_dir_all(&work).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "part", "--nocapture", "--test-threads=1"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env(PART, part)
            .envs(env.iter().copied())
            .current_dir(work)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Program { child, says: None }
    }

    /// Id, whether it was minted, whether it rang, home.
    fn says(&mut self) -> &[String] {
        let out = self.child.stdout.take();
        self.says.get_or_insert_with(|| {
            let lines = BufReader::new(out.unwrap()).lines();
            let line = lines.map_while(Result::ok).find_map(|line| {
                let said = &line[line.find("SAYS ")? + 5..];
                Some(said.to_owned())
            });
            line.unwrap().split(' ').map(str::to_owned).collect()
        })
    }

    fn id(&mut self) -> String {
        self.says()[0].clone()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn twenty_commands_that_start_together_are_one_new_identity_that_rings_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut programs: Vec<Program> = (0..20)
        .map(|_| Program::start(dir.path(), "shell", &[]))
        .collect();
    let said: Vec<Vec<String>> = programs.iter_mut().map(|p| p.says().to_vec()).collect();
    let ids: BTreeSet<&str> = said.iter().map(|s| s[0].as_str()).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(said.iter().filter(|s| s[1] == "true").count(), 1, "minted");
    assert_eq!(said.iter().filter(|s| s[2] == "true").count(), 1, "rang");
}

#[test]
fn servers_of_one_workspace_are_told_apart_and_a_killed_one_gives_its_slot_back() {
    let dir = tempfile::tempdir().unwrap();
    let start = || Program::start(dir.path(), "mcp", &[("HOST", "codex")]);
    let mut servers: Vec<Program> = (0..4).map(|_| start()).collect();
    let ids: BTreeSet<String> = servers.iter_mut().map(Program::id).collect();
    assert_eq!(ids.len(), 4);
    let mut killed = servers.remove(1);
    let id = killed.id();
    killed.kill();
    assert_eq!(start().id(), id);
}

#[test]
fn a_session_its_commands_and_its_resumption_are_one_identity() {
    let dir = tempfile::tempdir().unwrap();
    let claude = [("CLAUDE_CODE_SESSION_ID", "a")];
    let mut server = Program::start(dir.path(), "mcp", &claude);
    let id = server.id();
    assert_eq!(Program::start(dir.path(), "shell", &claude).id(), id);
    let other = [("CLAUDE_CODE_SESSION_ID", "b")];
    assert_ne!(Program::start(dir.path(), "mcp", &other).id(), id);
    server.kill();
    assert_eq!(Program::start(dir.path(), "shell", &claude).id(), id);
    assert_eq!(Program::start(dir.path(), "mcp", &claude).id(), id);
}

#[test]
fn a_named_identity_is_the_same_from_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let alice = Program::start(dir.path(), "shell", &[("AS", "alice")]).id();
    let again = [("AS", "alice"), ("CLAUDE_CODE_SESSION_ID", "a")];
    assert_eq!(Program::start(dir.path(), "shell", &again).id(), alice);
    assert_ne!(
        Program::start(dir.path(), "shell", &[("AS", "bob")]).id(),
        alice
    );
}
