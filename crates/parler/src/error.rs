//! What a command can fail with: a kind, which is the exit code, the words, and the next step.
//!
//! Library errors become one of these here and nowhere else. No code decides by the text of a
//! message.

use std::fmt;
use std::process::ExitCode;

use parler_connector::ClientError;
use parler_protocol::ErrorCode;

use crate::hosts::edit::EditError;

/// What kind of failure it is. Each has an exit code of its own, listed in `parler --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something that should not happen: an unreadable file, a bug.
    Internal,
    /// The command line makes no sense.
    Usage,
    /// The hub cannot be reached, or does not answer, or is not the right one.
    Unreachable,
    /// The hub, or the owner of a room, said no.
    Refused,
    /// What was named does not exist: a room, an addressee, an invite.
    NotFound,
    /// This machine's set-up: no home, a damaged file, a taken port.
    Config,
    /// The owner of the room has to admit this agent first.
    Pending,
    /// A step of the demonstration failed or took too long.
    Demo,
    /// Nobody reads the output any more. Not a failure: the command just ends.
    ClosedPipe,
    /// Ctrl-C.
    Interrupted,
}

impl Kind {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Kind::ClosedPipe => 0,
            Kind::Internal => 1,
            Kind::Usage => 2,
            Kind::Unreachable => 3,
            Kind::Refused => 4,
            Kind::NotFound => 5,
            Kind::Config => 6,
            Kind::Pending => 7,
            Kind::Demo => 8,
            Kind::Interrupted => 130,
        }
    }

    /// The kind as a word, for `--json`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::ClosedPipe => "closed_pipe",
            Kind::Internal => "internal",
            Kind::Usage => "usage",
            Kind::Unreachable => "unreachable",
            Kind::Refused => "refused",
            Kind::NotFound => "not_found",
            Kind::Config => "config",
            Kind::Pending => "pending",
            Kind::Demo => "demo",
            Kind::Interrupted => "interrupted",
        }
    }
}

/// The table of exit codes, as `--help` shows it.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    done; also when `recv --watch` is ended by SIGTERM or by a closed pipe
  1    something unexpected failed; of `handoff --wait`: the turn ended, and not as done
  2    the command line makes no sense
  3    the hub cannot be reached, does not answer, or is not the expected one; of
       `handoff --wait`: the turn did not end in time
  4    the hub or the owner of the room refused; a turn that somebody else has
  5    what was named does not exist: a room, an invite, an addressee
  6    this machine's set-up is at fault: no HOME, a damaged file, a taken port
  7    the owner of the room has to admit you first
  8    a step of the demo failed or took too long
  130  interrupted (Ctrl-C)";

/// A failed command.
#[derive(Debug)]
pub struct CliError {
    /// Its kind.
    pub kind: Kind,
    /// What happened, to which thing.
    pub message: String,
    /// What to try next.
    pub hint: Option<String>,
}

/// What commands give back.
pub type CliResult<T = ()> = Result<T, CliError>;

impl CliError {
    /// A failure without a next step.
    pub fn new(kind: Kind, message: impl Into<String>) -> CliError {
        CliError {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// The same with a next step.
    pub fn hint(mut self, hint: impl Into<String>) -> CliError {
        self.hint = Some(hint.into());
        self
    }

    /// A command line that makes no sense.
    pub fn usage(message: impl Into<String>) -> CliError {
        CliError::new(Kind::Usage, message)
    }

    /// Prints it to standard error and gives the exit code.
    pub fn report(&self, json: bool) -> ExitCode {
        use std::io::Write;
        let mut stderr = std::io::stderr().lock();
        // A closed standard error leaves nobody to tell.
        let _ = match self.kind {
            Kind::ClosedPipe | Kind::Interrupted => Ok(()),
            _ if json => {
                let error = serde_json::json!({"error": {
                    "kind": self.kind.word(), "message": self.message, "hint": self.hint,
                }});
                writeln!(
                    stderr,
                    "{}",
                    crate::output::json::escape(&error.to_string())
                )
            }
            _ => writeln!(stderr, "{self}"),
        };
        ExitCode::from(self.kind.code())
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clean = crate::output::human::text;
        write!(f, "error: {}", clean(&self.message))?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {}", clean(hint)),
            None => Ok(()),
        }
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> CliError {
        let kind = match &error {
            ClientError::BadUrl { .. } => Kind::Config,
            ClientError::Refused { code, .. } => kind_of(code.as_ref()),
            ClientError::Throttled { .. } => Kind::Refused,
            e if e.is_outage() => Kind::Unreachable,
            ClientError::NotAHub { .. } | ClientError::WrongHub { .. } => Kind::Unreachable,
            ClientError::BadChallenge { .. } | ClientError::AnothersLogin { .. } => {
                Kind::Unreachable
            }
            e if e.is_authentication() => Kind::Refused,
            ClientError::Expelled { .. } | ClientError::TooLarge { .. } => Kind::Refused,
            _ => Kind::Internal,
        };
        CliError {
            kind,
            message: error.to_string(),
            hint: next_step(&error),
        }
    }
}

/// What to try next, in commands that there are.
fn next_step(error: &ClientError) -> Option<String> {
    let step = match error {
        ClientError::TimedOut { .. } | ClientError::Lost { .. } => {
            "try again; parler hub status says how the local hub is and where its log lies"
        }
        ClientError::TooLarge { .. }
        | ClientError::Refused {
            code: Some(ErrorCode::TooLarge),
            ..
        } => "send less at a time, or put it into a file that both sides can read",
        ClientError::Refused {
            code: Some(ErrorCode::UnknownService),
            ..
        } => "check the name; parler invite --service NAME opens one",
        other => return other.hint(),
    };
    Some(step.to_owned())
}

fn kind_of(code: Option<&ErrorCode>) -> Kind {
    match code {
        Some(ErrorCode::NotMember | ErrorCode::InvalidInvite | ErrorCode::UnknownService) => {
            Kind::NotFound
        }
        Some(ErrorCode::Internal | ErrorCode::Timeout) => Kind::Unreachable,
        _ => Kind::Refused,
    }
}

impl From<EditError> for CliError {
    fn from(error: EditError) -> CliError {
        let hint = match &error {
            EditError::Parse { path, .. } | EditError::Shape { path, .. } => Some(format!(
                "it was left as it is; mend {} or move it away, then run this again",
                path.display()
            )),
            EditError::Io { .. } => None,
        };
        CliError {
            kind: Kind::Config,
            message: error.to_string(),
            hint,
        }
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> CliError {
        let kind = match error.kind() {
            std::io::ErrorKind::BrokenPipe => Kind::ClosedPipe,
            _ => Kind::Internal,
        };
        CliError::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_is_documented() {
        use Kind::*;
        for kind in [
            Internal,
            Usage,
            Unreachable,
            Refused,
            NotFound,
            Config,
            Pending,
            Demo,
            Interrupted,
        ] {
            let line = format!("\n  {:<5}", kind.code());
            assert!(EXIT_CODES.contains(&line), "{kind:?}");
        }
    }

    #[test]
    fn a_library_error_keeps_its_words_and_its_next_step() {
        let error = CliError::from(ClientError::Refused {
            code: Some(ErrorCode::NotMember),
            message: "not a member of 'x'".into(),
            retry_after: None,
        });
        assert_eq!(error.kind, Kind::NotFound);
        assert!(
            error
                .to_string()
                .starts_with("error: not a member of 'x'\nhint: "),
            "{error}"
        );
        let error = CliError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!(error.kind.code(), 0);
    }

    #[test]
    fn the_next_step_is_a_command_that_there_is() {
        use clap::CommandFactory;
        let url = || "ws://h/ws".to_owned();
        let refused = |code: &ErrorCode| ClientError::Refused {
            code: Some(code.clone()),
            message: "no".into(),
            retry_after: None,
        };
        let mut errors: Vec<ClientError> = ErrorCode::ALL.iter().map(refused).collect();
        errors.extend([
            ClientError::TimedOut {
                what: "ping",
                url: url(),
            },
            ClientError::Lost {
                what: "ping",
                url: url(),
                reason: "x".into(),
            },
            ClientError::Unreachable {
                url: url(),
                reason: "x".into(),
            },
            ClientError::NotAHub {
                url: url(),
                reason: "x".into(),
            },
            ClientError::TooLarge {
                what: "send",
                bytes: 2,
                limit: 1,
            },
            ClientError::ReplyTooLarge {
                what: "pull",
                limit: 1,
            },
        ]);
        let commands = crate::cli::Cli::command();
        for error in errors {
            let hint = next_step(&error).unwrap_or_default();
            for (at, _) in hint.match_indices("parler ") {
                let command = hint[at + 7..].split([' ', ';', ')', ',']).next().unwrap();
                assert!(
                    commands.find_subcommand(command).is_some(),
                    "{error:?}: {hint}"
                );
            }
        }
    }

    #[test]
    fn words_of_others_drive_no_terminal() {
        let error = CliError::new(Kind::Refused, "no\u{1b}[31m\u{9b}way").hint("\u{7}go");
        assert!(
            !error
                .to_string()
                .chars()
                .any(|c| c.is_control() && c != '\n'),
            "{error:?}"
        );
    }
}
