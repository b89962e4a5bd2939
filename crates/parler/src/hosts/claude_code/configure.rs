//! Wires `parler mcp` into Claude Code's user files, and takes it out again.
//!
//! Two files: `.claude.json` gets the MCP server, `settings.json` the permission to call its tools
//! and the two hooks. A hook's command line is shown to the model, so nothing stands in it but the
//! command: hub, name and identity are found by the session that the host names.

use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstInputValue, CstObject};
use serde_json::Value;

use super::detect::{Files, HOST};
use crate::hosts::edit::{self, Document, EditError};
use crate::hosts::undo::{Original, Undo};
use crate::output::human;

/// Name of the MCP server in the host's files.
pub const SERVER: &str = "parler";
/// Lets the model call this server's tools without a question each time.
const PERMISSION: &str = "mcp__parler__*";
/// Seconds that the host lets a hook run: the longest wait that a user may ask for.
const HOOK_TIMEOUT_SECS: u32 = 600;

/// What to write.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Absolute path of the binary.
    pub binary: PathBuf,
    /// Environment of the MCP server, in this order.
    pub env: Vec<(String, String)>,
    /// Also install the hooks.
    pub hooks: bool,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was edited.
    Written,
    /// It is as it should be already.
    Unchanged,
}

/// Writes both files.
///
/// # Errors
/// [`EditError`]: the file that it names was left alone.
pub fn connect(
    files: &Files,
    wanted: &Wanted,
    base_home: &Path,
) -> Result<Vec<(PathBuf, Outcome)>, EditError> {
    let mut undo = Undo::open(base_home, HOST);
    // Both are planned before either is written: an unreadable second file leaves the first alone.
    let plans = [
        (
            &files.state,
            plan(&files.state, &ServerEntry(wanted), &undo)?,
        ),
        (
            &files.settings,
            plan(&files.settings, &Settings(wanted), &undo)?,
        ),
    ];
    let mut outcomes = Vec::new();
    for (path, plan) in plans {
        outcomes.push((
            path.clone(),
            match plan {
                None => Outcome::Unchanged,
                Some((original, new)) => {
                    undo.note(path, &original, &new)?;
                    edit::write(path, &new)?;
                    Outcome::Written
                }
            },
        ));
    }
    Ok(outcomes)
}

/// Takes everything out again; a file that nobody else wrote since gets its original bytes back.
///
/// # Errors
/// [`EditError`]: the file that it names was left alone.
pub fn remove(files: &Files, base_home: &Path) -> Result<Vec<(PathBuf, Outcome)>, EditError> {
    let mut undo = Undo::open(base_home, HOST);
    let nothing = Wanted {
        binary: PathBuf::new(),
        env: Vec::new(),
        hooks: false,
    };
    let state = take_out(&files.state, &ServerEntry(&nothing), &mut undo)?;
    let settings = take_out(&files.settings, &Settings(&nothing), &mut undo)?;
    Ok(vec![
        (files.state.clone(), state),
        (files.settings.clone(), settings),
    ])
}

/// The environment that the present entry gives to the MCP server.
pub fn current_env(files: &Files) -> Vec<(String, String)> {
    let Ok(Some(text)) = edit::read(&files.state) else {
        return Vec::new();
    };
    let value = value_of(&files.state, &text).unwrap_or_default();
    let env = value["mcpServers"][SERVER]["env"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    env.into_iter()
        .filter_map(|(k, v)| Some((k, v.as_str()?.to_owned())))
        .collect()
}

/// Whether the settings run our background hook. Settings that cannot be read run none.
pub fn wakes_in_background(files: &Files) -> bool {
    let Ok(Some(text)) = edit::read(&files.settings) else {
        return false;
    };
    let settings = value_of(&files.settings, &text).unwrap_or_default();
    own_commands(&settings)
        .iter()
        .any(|command| command.trim_end().ends_with(" hook rewake"))
}

/// The snippets for a person who would rather paste them.
pub fn snippets(wanted: &Wanted) -> Vec<(&'static str, String)> {
    let render = |edit: &dyn Edit| {
        let document = Document::parse(Path::new(""), "").ok()?;
        edit.add(&document).ok()?;
        Some(document.text())
    };
    vec![
        (
            "~/.claude.json",
            render(&ServerEntry(wanted)).unwrap_or_default(),
        ),
        (
            "~/.claude/settings.json",
            render(&Settings(wanted)).unwrap_or_default(),
        ),
    ]
}

/// One file's part of the set-up.
trait Edit {
    /// Whether the file says already what is wanted, and no more of ours.
    fn satisfied(&self, file: &Value) -> bool;
    /// Whether the file has anything of ours.
    fn present(&self, file: &Value) -> bool;
    /// Adds what is wanted.
    fn add(&self, document: &Document) -> Result<(), EditError>;
    /// Takes ours out, and containers that only we needed; `before` is the file before the edit.
    fn strip(&self, document: &Document, before: &Value) -> Result<(), EditError>;
}

fn plan(
    path: &Path,
    edit: &dyn Edit,
    undo: &Undo,
) -> Result<Option<(Original, String)>, EditError> {
    let current = edit::read(path)?;
    let text = current.as_deref().unwrap_or_default();
    if current.is_some() && edit.satisfied(&value_of(path, text)?) {
        return Ok(None);
    }
    let original = match (&current, undo.exact(path, text)) {
        (None, _) => Original::Absent,
        (Some(_), Some(original)) => original,
        // Edited before, and rewritten by the host since: the original is what is not ours.
        (Some(text), None) if undo.before(path).is_some() => {
            Original::Text(stripped(path, text, edit, undo)?)
        }
        (Some(text), None) => Original::Text(text.clone()),
    };
    let document = Document::parse(path, original.text())?;
    edit.add(&document)?;
    let mut new = document.text();
    if original == Original::Absent {
        new.push('\n');
    }
    Ok(Some((original, new)))
}

fn take_out(path: &Path, edit: &dyn Edit, undo: &mut Undo) -> Result<Outcome, EditError> {
    let Some(text) = edit::read(path)? else {
        undo.forget(path)?;
        return Ok(Outcome::Unchanged);
    };
    match undo.exact(path, &text) {
        Some(Original::Text(original)) => edit::write(path, &original)?,
        Some(Original::Absent) => edit::delete(path)?,
        None if !edit.present(&value_of(path, &text)?) => {
            undo.forget(path)?;
            return Ok(Outcome::Unchanged);
        }
        None => edit::write(path, &stripped(path, &text, edit, undo)?)?,
    }
    undo.forget(path)?;
    Ok(Outcome::Written)
}

fn stripped(path: &Path, text: &str, edit: &dyn Edit, undo: &Undo) -> Result<String, EditError> {
    if !edit.present(&value_of(path, text)?) {
        return Ok(text.to_owned());
    }
    let before = undo.before(path);
    let before = before.and_then(|original| value_of(path, original.text()).ok());
    let document = Document::parse(path, text)?;
    edit.strip(&document, &before.unwrap_or_default())?;
    Ok(document.text())
}

fn value_of(path: &Path, text: &str) -> Result<Value, EditError> {
    Ok(Document::parse(path, text)?.value())
}

/// The entry in `mcpServers`.
struct ServerEntry<'a>(&'a Wanted);

impl ServerEntry<'_> {
    fn entry(&self) -> CstInputValue {
        let text = |s: &str| CstInputValue::String(s.to_owned());
        let env = self
            .0
            .env
            .iter()
            .map(|(k, v)| (k.clone(), text(v)))
            .collect();
        CstInputValue::Object(vec![
            ("type".into(), text("stdio")),
            ("command".into(), text(&self.0.binary.to_string_lossy())),
            ("args".into(), CstInputValue::Array(vec![text("mcp")])),
            ("env".into(), CstInputValue::Object(env)),
        ])
    }
}

impl Edit for ServerEntry<'_> {
    fn satisfied(&self, file: &Value) -> bool {
        let env: serde_json::Map<_, _> = self
            .0
            .env
            .iter()
            .map(|(k, v)| (k.clone(), Value::from(v.as_str())))
            .collect();
        file["mcpServers"][SERVER]
            == serde_json::json!({
                "type": "stdio", "command": self.0.binary.to_string_lossy(), "args": ["mcp"], "env": env,
            })
    }

    fn present(&self, file: &Value) -> bool {
        file["mcpServers"].get(SERVER).is_some()
    }

    fn add(&self, document: &Document) -> Result<(), EditError> {
        let servers = document.object_in(&document.top(), "mcpServers")?;
        edit::set(&servers, SERVER, self.entry());
        Ok(())
    }

    fn strip(&self, document: &Document, before: &Value) -> Result<(), EditError> {
        let top = document.top();
        let servers = document.object_in(&top, "mcpServers")?;
        match before["mcpServers"].get(SERVER) {
            Some(own) => edit::set(&servers, SERVER, edit::input(own)),
            None => remove_property(&servers, SERVER),
        }
        drop_empty(&top, "mcpServers", before);
        Ok(())
    }
}

/// The permission and the hooks.
struct Settings<'a>(&'a Wanted);

impl Settings<'_> {
    fn commands(&self) -> [String; 2] {
        let binary = human::shell_word(&self.0.binary.to_string_lossy());
        ["stop", "rewake"].map(|kind| format!("{binary} hook {kind}"))
    }

    fn hooks(&self) -> CstInputValue {
        let [stop, rewake] = self.commands();
        let text = |s: &str| CstInputValue::String(s.to_owned());
        let hook = |command: &str, background: bool| {
            let mut fields = vec![
                ("type".to_owned(), text("command")),
                ("command".to_owned(), text(command)),
            ];
            if background {
                fields.push(("asyncRewake".to_owned(), CstInputValue::Bool(true)));
            }
            fields.push(("timeout".to_owned(), HOOK_TIMEOUT_SECS.into()));
            CstInputValue::Object(fields)
        };
        let list = CstInputValue::Array(vec![hook(&stop, false), hook(&rewake, true)]);
        CstInputValue::Object(vec![("hooks".to_owned(), list)])
    }
}

impl Edit for Settings<'_> {
    fn satisfied(&self, file: &Value) -> bool {
        let wanted: Vec<String> = if self.0.hooks {
            self.commands().into()
        } else {
            Vec::new()
        };
        allows(file) && own_commands(file) == wanted
    }

    fn present(&self, file: &Value) -> bool {
        allows(file) || !own_commands(file).is_empty()
    }

    fn add(&self, document: &Document) -> Result<(), EditError> {
        let top = document.top();
        let permissions = document.object_in(&top, "permissions")?;
        let allow = document.array_in(&permissions, "allow")?;
        let known = allow
            .elements()
            .iter()
            .any(|e| e.to_serde_value() == Some(PERMISSION.into()));
        if !known {
            allow.append(PERMISSION.into());
        }
        if self.0.hooks {
            let hooks = document.object_in(&top, "hooks")?;
            strip_hooks(document, &hooks)?;
            document.array_in(&hooks, "Stop")?.append(self.hooks());
        }
        Ok(())
    }

    fn strip(&self, document: &Document, before: &Value) -> Result<(), EditError> {
        let top = document.top();
        if edit::property(&top, "permissions").is_some() && !allows(before) {
            let permissions = document.object_in(&top, "permissions")?;
            let allow = document.array_in(&permissions, "allow")?;
            for element in allow.elements() {
                if element.to_serde_value() == Some(PERMISSION.into()) {
                    element.remove();
                }
            }
            drop_empty(&permissions, "allow", &before["permissions"]);
            drop_empty(&top, "permissions", before);
        }
        if edit::property(&top, "hooks").is_some() {
            let hooks = document.object_in(&top, "hooks")?;
            strip_hooks(document, &hooks)?;
            drop_empty(&hooks, "Stop", &before["hooks"]);
            drop_empty(&top, "hooks", before);
        }
        Ok(())
    }
}

/// Takes our commands out of the Stop hooks, and groups that had nothing else.
fn strip_hooks(document: &Document, hooks: &CstObject) -> Result<(), EditError> {
    for group in document.array_in(hooks, "Stop")?.elements() {
        let Some(list) = group
            .as_object()
            .and_then(|group| group.array_value("hooks"))
        else {
            continue;
        };
        let (ours, others): (Vec<_>, Vec<_>) = list
            .elements()
            .into_iter()
            .partition(|hook| hook.to_serde_value().is_some_and(|hook| is_own(&hook)));
        if ours.is_empty() {
            continue;
        }
        if others.is_empty() {
            group.remove();
        } else {
            ours.into_iter()
                .for_each(jsonc_parser::cst::CstNode::remove);
        }
    }
    Ok(())
}

fn allows(file: &Value) -> bool {
    let allow = file["permissions"]["allow"].as_array();
    allow.is_some_and(|list| list.iter().any(|rule| rule == PERMISSION))
}

fn own_commands(file: &Value) -> Vec<String> {
    let groups = file["hooks"]["Stop"].as_array().into_iter().flatten();
    groups
        .filter_map(|group| group["hooks"].as_array())
        .flatten()
        .filter(|hook| is_own(hook))
        .filter_map(|hook| Some(hook["command"].as_str()?.to_owned()))
        .collect()
}

/// Whether a hook runs one of our commands, from whatever place and version.
fn is_own(hook: &Value) -> bool {
    let command = hook["command"].as_str().unwrap_or_default().trim_end();
    [" hook stop", " hook rewake"].iter().any(|end| {
        let program = command.strip_suffix(end).unwrap_or_default();
        program
            .trim_end_matches(['\'', '"'])
            .trim_end_matches(".exe")
            .ends_with("parler")
    })
}

fn remove_property(object: &CstObject, name: &str) {
    if let Some(prop) = edit::property(object, name) {
        prop.remove();
    }
}

/// Removes an empty container, unless the file had one before.
fn drop_empty(parent: &CstObject, name: &str, before: &Value) {
    if before.get(name).is_some() {
        return;
    }
    let Some(prop) = edit::property(parent, name) else {
        return;
    };
    let empty = prop
        .object_value()
        .is_some_and(|o| o.properties().is_empty())
        || prop.array_value().is_some_and(|a| a.elements().is_empty());
    if empty {
        prop.remove();
    }
}

#[cfg(test)]
#[path = "configure_tests.rs"]
mod tests;
