//! Starts the hub and the two agents, gives them their cues, hears what happened.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use parler_identity::keyfile;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::agent::{FILE, Role};
use super::event::{Event, Step};
use crate::error::{CliError, CliResult, Kind};
use crate::local_hub::{Holder, LocalHub, State};

/// How long one step may take.
const STEP: Duration = Duration::from_secs(15);
/// How long a child may take to end once its part is over.
const END: Duration = Duration::from_secs(5);
/// Ports that are tried for the hub before the demo gives up.
const PORT_TRIES: u32 = 5;
/// Between two looks whether the hub is up.
const PAUSE: Duration = Duration::from_millis(10);
/// How much of a child's complaints an error repeats, in bytes.
const COMPLAINTS: u64 = 4000;

/// What the demo showed.
pub struct Played {
    /// Who listened where.
    pub hub: Holder,
    /// The two agents: name and process.
    pub agents: [(Role, u32); 2],
    /// What happened, in the order of the clock.
    pub events: Vec<Event>,
}

/// Plays the demo in that folder. Afterwards no child runs any more.
///
/// # Errors
/// [`Kind::Demo`]: the step that failed or took too long.
pub async fn play(folder: &Path) -> CliResult<Played> {
    let mut hub = Hub::start(folder).await?;
    let played = act(folder, &hub).await;
    hub.end().await;
    played
}

async fn act(folder: &Path, hub: &Hub) -> CliResult<Played> {
    let mut planner = Player::start(folder, Role::Planner)?;
    let mut webdev = Player::start(folder, Role::Webdev)?;
    let agents = [(Role::Planner, planner.pid()), (Role::Webdev, webdev.pid())];
    let opened = planner.hear(Step::Opened).await?;
    webdev.cue(&opened.text).await?;
    webdev.hear(Step::Waiting).await?;
    planner.cue("go").await?;
    let mut events = vec![planner.hear(Step::Offered).await?];
    for step in [Step::Delivered, Step::Woken, Step::Acted] {
        events.push(webdev.hear(step).await?);
    }
    events.push(planner.hear(Step::Reported).await?);
    planner.end().await?;
    webdev.end().await?;
    if !folder.join(Role::Webdev.name()).join(FILE).is_file() {
        return Err(failed(format!("step 'acted': {FILE} is not there")));
    }
    events.sort_by_key(|event| event.at_us);
    let hub = hub.holder.clone();
    Ok(Played {
        hub,
        agents,
        events,
    })
}

fn failed(what: impl Into<String>) -> CliError {
    CliError::new(Kind::Demo, what)
}

/// This binary, with nothing of the user's own set-up.
fn command(folder: &Path) -> CliResult<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("PARLER_") || text.starts_with("CLAUDE") || text.starts_with("CODEX_") {
            command.env_remove(&name);
        }
    }
    command
        .env("PARLER_BASE", folder.join("base"))
        .env("HOME", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    Ok(command)
}

/// The hub of the demo.
struct Hub {
    child: Child,
    holder: Holder,
}

impl Hub {
    /// Starts it. The port that was free a moment ago may be somebody's by now: then on another.
    async fn start(folder: &Path) -> CliResult<Hub> {
        let mut tries = 0;
        loop {
            tries += 1;
            match Hub::start_once(folder).await {
                Err(error) if tries < PORT_TRIES && error.kind == Kind::Demo => {}
                done => return done,
            }
        }
    }

    async fn start_once(folder: &Path) -> CliResult<Hub> {
        let base = folder.join("base");
        // A free port of its own: the demo must not take the one that the user's hub would choose.
        let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        keyfile::replace(&base.join("hub.port"), format!("{free}\n").as_bytes())
            .map_err(|e| failed(format!("the demo's folder: {e}")))?;
        let mut child = command(folder)?
            .args(["hub", "--local", "--until-stdin-closes"])
            .stdout(Stdio::null())
            .spawn()?;
        let place = LocalHub::of(&base);
        let up = async {
            loop {
                if let State::Running(holder) = place.state()? {
                    return Ok::<_, CliError>(Some(holder));
                }
                if child.try_wait()?.is_some() {
                    return Ok(None);
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        match tokio::time::timeout(STEP, up).await {
            Ok(Ok(Some(holder))) => Ok(Hub { child, holder }),
            Ok(Err(error)) => Err(error),
            Ok(Ok(None)) => {
                let why = complaints(&mut child).await;
                Err(failed(format!("the hub does not come up: {why}")))
            }
            Err(_) => {
                let _ = child.start_kill();
                let secs = STEP.as_secs();
                let why = complaints(&mut child).await;
                // Of no use to be tried again.
                let what = format!("the hub did not come up in {secs} s: {why}");
                Err(CliError::new(Kind::Internal, what))
            }
        }
    }

    async fn end(&mut self) {
        drop(self.child.stdin.take());
        if tokio::time::timeout(END, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

/// One agent's process.
struct Player {
    role: Role,
    child: Child,
    cues: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Player {
    fn start(folder: &Path, role: Role) -> CliResult<Player> {
        let work = folder.join(role.name());
        std::fs::create_dir_all(&work)?;
        let mut child = command(folder)?
            .args(["demo-agent", role.name(), "--as", role.name()])
            .current_dir(work)
            .spawn()
            .map_err(|e| failed(format!("{} does not start: {e}", role.name())))?;
        let (Some(cues), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("an agent without pipes"));
        };
        Ok(Player {
            role,
            child,
            cues,
            says: BufReader::new(out).lines(),
        })
    }

    fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    async fn cue(&mut self, line: &str) -> CliResult {
        Ok(self.cues.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Waits until the agent tells that step.
    async fn hear(&mut self, step: Step) -> CliResult<Event> {
        let (name, word) = (self.role.name(), step.word());
        let event = match tokio::time::timeout(STEP, self.says.next_line()).await {
            Err(_) => {
                let secs = STEP.as_secs();
                return Err(failed(format!(
                    "step '{word}': {name} said nothing for {secs} s"
                )));
            }
            Ok(line) => line?.and_then(|line| serde_json::from_str::<Event>(&line).ok()),
        };
        match event {
            Some(event) if event.step == step => Ok(event),
            _ => {
                let why = complaints(&mut self.child).await;
                Err(failed(format!("step '{word}': {name} failed: {why}")))
            }
        }
    }

    async fn end(&mut self) -> CliResult {
        let name = self.role.name();
        match tokio::time::timeout(END, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(_) => Err(failed(format!(
                "{name} failed: {}",
                complaints(&mut self.child).await
            ))),
            Err(_) => Err(failed(format!("{name} does not end"))),
        }
    }
}

/// What a child wrote on standard error.
async fn complaints(child: &mut Child) -> String {
    let Some(stderr) = child.stderr.take() else {
        return "it said nothing".to_owned();
    };
    let mut bytes = Vec::new();
    // The rest is not worth waiting for.
    let _ = tokio::time::timeout(END, stderr.take(COMPLAINTS).read_to_end(&mut bytes)).await;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    if text.is_empty() {
        "it said nothing".to_owned()
    } else {
        text
    }
}
