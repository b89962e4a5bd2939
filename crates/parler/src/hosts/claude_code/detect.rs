//! Where Claude Code keeps its files, and whether it is here.

use std::path::{Path, PathBuf};

/// The name under which its things are kept and shown.
pub const HOST: &str = "claude-code";

/// The files that `connect` edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// User-wide state, with `mcpServers`.
    pub state: PathBuf,
    /// User settings, with `permissions` and `hooks`.
    pub settings: PathBuf,
}

impl Files {
    /// The user's files: below `CLAUDE_CONFIG_DIR` when that is set, else in the home directory.
    pub fn of_user(home: &Path, config_dir: Option<&str>) -> Files {
        match config_dir.filter(|dir| !dir.is_empty()) {
            Some(dir) => Files {
                state: Path::new(dir).join(".claude.json"),
                settings: Path::new(dir).join("settings.json"),
            },
            None => Files {
                state: home.join(".claude.json"),
                settings: home.join(".claude").join("settings.json"),
            },
        }
    }

    /// Whether Claude Code ran for this user, or its command is on the search path.
    pub fn installed(&self, search_path: &str) -> bool {
        self.state.exists()
            || self.settings.parent().is_some_and(Path::is_dir)
            || std::env::split_paths(search_path).any(|dir| dir.join("claude").is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_follow_the_configured_folder() {
        let home = Path::new("/home/u");
        let plain = Files::of_user(home, Some(""));
        assert_eq!(plain.state, Path::new("/home/u/.claude.json"));
        assert_eq!(plain.settings, Path::new("/home/u/.claude/settings.json"));
        let moved = Files::of_user(home, Some("/cfg"));
        assert_eq!(moved.state, Path::new("/cfg/.claude.json"));
        assert_eq!(moved.settings, Path::new("/cfg/settings.json"));
        assert!(!plain.installed(""));
    }
}
