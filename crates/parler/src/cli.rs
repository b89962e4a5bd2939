//! The commands, one line each. Their arguments and what they do live in `commands/`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::app::{App, Globals};
use crate::commands::{
    attention, completions, connect, demo, demo_agent, directory, exit_codes, handoff, hook, hub,
    init, invite, join, leave, mcp, members, memory, presence, recv, room, rooms, roster, send,
    serve, session, task, token, turns, whoami,
};
use crate::error::{CliResult, EXIT_CODES};

const ABOUT: &str = "Agents pass turns: open a session, hand off, wait for your turn";

const EXAMPLES: &str = "\
Two agents, two terminals:
  parler session open --as planner --topic auth --context \"OAuth callback\"
  parler session join KEY --as webdev --role frontend      # the key that open printed
  parler recv --watch                                      # there: wait for the turn
  parler handoff --for webdev --summary \"API done\" --next \"build the login page\"

In Claude Code:
  parler connect claude-code

Two agents in one go, nothing to set up:
  parler demo";

/// The command line.
#[derive(Parser)]
#[command(name = "parler", version, about = ABOUT, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
#[command(arg_required_else_help = true, disable_help_subcommand = false)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Open, join or leave a session: a room where agents pass the turn
    Session(session::Args),
    /// Pass the turn on and say what comes next
    Handoff(handoff::Args),
    /// List turns that were passed, and who has them
    Turns(turns::ListArgs),
    /// Take a turn, finish it, or give it back
    Turn(turns::Args),
    /// Read what is unread; with --watch, go on reading
    Recv(recv::Args),
    /// Say something in a room, or to an agent
    Send(send::Args),
    /// Serve a role: register, and list the work that waits for it
    Serve(serve::Args),
    /// Take a piece of work, report on it, end it
    Task(task::Args),
    /// List your rooms and what is unread in them
    Rooms(rooms::Args),
    /// Look at or change the settings of a room
    Room(room::Args),
    /// List who is in a room
    Roster(roster::Args),
    /// Say how you are: idle, waiting or working
    Presence(presence::Args),
    /// Show or set what may wake you
    Attention(attention::Args),
    /// Make a code by which others get into a room, or take one back
    Invite(invite::Args),
    /// Join a room by a code or key
    Join(join::Args),
    /// Leave a room
    Leave(leave::Args),
    /// Remove a member from a room that you own
    Remove(members::RemoveArgs),
    /// Make another member the owner of your room
    Transfer(members::MemberArgs),
    /// Delete a room that you own, with everything in it
    DeleteRoom(leave::DeleteArgs),
    /// Publish your card: how others find you, and may write to you
    Register(directory::RegisterArgs),
    /// Find agents by their cards
    Discover(directory::DiscoverArgs),
    /// Show the card of an agent
    Card(directory::CardArgs),
    /// Keep a fact for later: privately, or for everybody in a room
    Remember(memory::RememberArgs),
    /// Find facts: your own and those of your rooms
    Recall(memory::RecallArgs),
    /// Make a token for the directory over HTTP, or revoke a token
    Token(token::Args),
    /// Say who you are here, on which hub, and why
    Whoami(whoami::Args),
    /// Make this identity, or set its hub, name and role
    Init(init::Args),
    /// Set up an agent host: its MCP server, permission and hooks
    Connect(connect::Args),
    /// Serve the Model Context Protocol on standard input and output (for agent hosts)
    Mcp(mcp::Args),
    /// What a host's hooks run
    Hook(hook::Args),
    /// Run a hub; `hub status` and `hub stop` are about the local one
    Hub(Box<hub::Args>),
    /// Show two agents passing the turn: a hub, two processes, a timeline
    Demo(demo::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// List the exit codes
    ExitCodes(exit_codes::Args),
    /// One of the two agents of the demo
    #[command(hide = true)]
    DemoAgent(demo_agent::Args),
}

impl Command {
    /// Runs it. Whether it waits, and so has no time limit, is for [`Command::waits`] to say.
    pub async fn run(self, app: &App) -> CliResult<ExitCode> {
        let done = match self {
            Command::Session(args) => session::run(app, args).await,
            Command::Handoff(args) => return handoff::run(app, args).await,
            Command::Turns(args) => turns::list(app, args).await,
            Command::Turn(args) => turns::run(app, args).await,
            Command::Room(args) => room::run(app, args).await,
            Command::Recv(args) => recv::run(app, args).await,
            Command::Send(args) => send::run(app, args).await,
            Command::Serve(args) => serve::run(app, args).await,
            Command::Task(args) => task::run(app, args).await,
            Command::Rooms(args) => rooms::run(app, args).await,
            Command::Roster(args) => roster::run(app, args).await,
            Command::Presence(args) => presence::run(app, args).await,
            Command::Attention(args) => attention::run(app, args).await,
            Command::Invite(args) => invite::run(app, args).await,
            Command::Join(args) => join::run(app, args).await,
            Command::Leave(args) => leave::run(app, args).await,
            Command::Remove(args) => members::remove(app, args).await,
            Command::Transfer(args) => members::transfer(app, args).await,
            Command::DeleteRoom(args) => leave::delete(app, args).await,
            Command::Register(args) => directory::register(app, args).await,
            Command::Discover(args) => directory::discover(app, args).await,
            Command::Card(args) => directory::card(app, args).await,
            Command::Remember(args) => memory::remember(app, args).await,
            Command::Recall(args) => memory::recall(app, args).await,
            Command::Token(args) => token::run(app, args).await,
            Command::Whoami(args) => whoami::run(app, args),
            Command::Init(args) => init::run(app, args),
            Command::Connect(args) => connect::run(app, args),
            Command::Mcp(args) => mcp::run(app, args).await,
            Command::Hook(args) => return hook::run(app, args).await,
            Command::Hub(args) => return hub::run(app, *args).await,
            Command::Demo(args) => demo::run(app, args).await,
            Command::Completions(args) => completions::run(app, args),
            Command::ExitCodes(args) => exit_codes::run(app, args),
            Command::DemoAgent(args) => demo_agent::run(app, args).await,
        };
        done.map(|()| ExitCode::SUCCESS)
    }

    /// Whether the command may take as long as it takes.
    pub fn waits(&self) -> bool {
        match self {
            Command::Recv(args) => args.watch,
            Command::Turns(args) => args.watch,
            Command::Handoff(args) => args.wait.is_some(),
            Command::Serve(args) => args.waits(),
            Command::Session(args) => args.waits(),
            Command::Mcp(_) | Command::Hook(_) | Command::Hub(_) => true,
            Command::Demo(_) | Command::DemoAgent(_) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    /// Splits a line as a shell would, as far as our documents need it.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ' ' if !quoted => {
                    words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)))
                }
                '|' | '#' | '>' if !quoted && word.is_empty() => break,
                _ => word.push(c),
            }
        }
        words.extend((!word.is_empty()).then_some(word));
        words
    }

    /// The commands in the code blocks of a document.
    fn commands_in(text: &str) -> Vec<String> {
        let mut inside = false;
        let mut found = Vec::new();
        for line in text.lines() {
            let line = line.trim();
            if line.starts_with("```") {
                inside = !inside;
            } else if inside {
                let line = line.trim_start_matches("$ ");
                found.extend(line.starts_with("parler ").then(|| line.to_owned()));
            }
        }
        found
    }

    #[test]
    fn the_documents_name_only_commands_that_there_are() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
        let docs = std::fs::read_dir(root.join("docs"))
            .into_iter()
            .flatten()
            .flatten();
        files.extend(docs.map(|file| file.path()));
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            for command in commands_in(&text) {
                if let Err(error) = Cli::try_parse_from(words(&command)) {
                    assert!(
                        !error.use_stderr(),
                        "{}: {command}: {error}",
                        file.display()
                    );
                }
            }
        }
    }

    #[test]
    fn the_examples_of_the_help_texts_can_be_typed() {
        let mut root = Cli::command();
        root.build();
        let mut open = vec![root];
        while let Some(command) = open.pop() {
            let text = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            for line in text
                .lines()
                .map(str::trim)
                .filter(|line| line.starts_with("parler "))
            {
                let parsed = Cli::try_parse_from(words(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.err().unwrap());
            }
            open.extend(command.get_subcommands().cloned());
        }
    }

    #[test]
    fn every_command_says_what_it_is_for() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }
}
