//! Editing a JSON file that belongs to somebody else.
//!
//! Keeps comments, key order, indentation and line ends of what it does not touch. Follows a
//! symbolic link to its target, keeps the mode, replaces the file in one step. Refuses to touch
//! what it cannot read as JSON (with comments and trailing commas, which hosts accept).

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;

use crate::os;

/// Largest file that is edited: hosts keep histories in theirs, but not that much.
const MAX_BYTES: u64 = 64 << 20;
/// Deepest nesting that is read; the parser calls itself once a level.
const MAX_DEPTH: usize = 200;
const BOM: char = '\u{feff}';

/// Why a file was left alone.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// Not JSON.
    #[error("{path} is not valid JSON ({why})", path = path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        why: String,
    },
    /// JSON, but not shaped as the host would write it.
    #[error("in {path}, {what}", path = path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// What is where something else was expected.
        what: String,
    },
    /// The file system said no.
    #[error("can't {doing} {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What failed.
        doing: &'static str,
        /// The system's words.
        source: io::Error,
    },
}

fn failed(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> EditError {
    let path = path.to_owned();
    move |source| EditError::Io {
        path,
        doing,
        source,
    }
}

/// Reads a file as text; `None` when there is none.
///
/// # Errors
/// [`EditError::Io`], [`EditError::Parse`] when it is not text.
pub fn read(path: &Path) -> Result<Option<String>, EditError> {
    match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(path, "read")(e)),
        Ok(meta) if !meta.is_file() || meta.len() > MAX_BYTES => {
            return Err(EditError::Shape {
                path: path.to_owned(),
                what: "there is no ordinary file of reasonable size".into(),
            });
        }
        Ok(_) => {}
    }
    let bytes = fs::read(path).map_err(failed(path, "read"))?;
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| EditError::Parse {
            path: path.to_owned(),
            why: "it is not UTF-8 text".into(),
        })
}

/// Replaces a file's content in one step: links are followed, the mode is kept; a new file is
/// private.
///
/// # Errors
/// [`EditError::Io`]; the old content is then untouched.
pub fn write(path: &Path, text: &str) -> Result<(), EditError> {
    let target = target_of(path);
    let mode = match fs::metadata(&target) {
        Ok(meta) => os::mode(&meta),
        Err(_) => Some(0o600),
    };
    let dir = match target.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    fs::create_dir_all(dir).map_err(failed(dir, "create the folder"))?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".parler-").suffix(".tmp");
    os::permissions(&mut builder, Some(0o600));
    let mut temp = builder
        .tempfile_in(dir)
        .map_err(failed(&target, "write beside"))?;
    temp.write_all(text.as_bytes())
        .and_then(|()| temp.as_file().sync_all())
        .map_err(failed(&target, "write"))?;
    if let Some(mode) = mode {
        os::set_mode(temp.path(), mode).map_err(failed(&target, "keep the mode of"))?;
    }
    temp.persist(&target)
        .map_err(|e| failed(&target, "replace")(e.error))?;
    Ok(())
}

/// Where a path leads: through its links, also when the last one points to nothing yet.
fn target_of(path: &Path) -> PathBuf {
    if let Ok(target) = fs::canonicalize(path) {
        return target;
    }
    match (fs::read_link(path), path.parent()) {
        (Ok(target), Some(dir)) => dir.join(target),
        _ => path.to_owned(),
    }
}

/// Removes a file that an edit had created.
///
/// # Errors
/// [`EditError::Io`]; no file is no error.
pub fn delete(path: &Path) -> Result<(), EditError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed(path, "remove")(e)),
        _ => Ok(()),
    }
}

/// A JSON document under edit.
pub struct Document {
    path: PathBuf,
    bom: bool,
    root: CstRootNode,
}

impl Document {
    /// Parses the text of a file; blank text is an empty object.
    ///
    /// # Errors
    /// [`EditError::Parse`], [`EditError::Shape`] when it is JSON but no object.
    pub fn parse(path: &Path, text: &str) -> Result<Document, EditError> {
        let bare = text.strip_prefix(BOM).unwrap_or(text);
        let parse_error = |why: String| EditError::Parse {
            path: path.to_owned(),
            why,
        };
        if depth(bare) > MAX_DEPTH {
            return Err(parse_error(format!(
                "nested deeper than {MAX_DEPTH} levels"
            )));
        }
        let root = CstRootNode::parse(bare, &options()).map_err(|e| parse_error(e.to_string()))?;
        let document = Document {
            path: path.to_owned(),
            bom: bare.len() != text.len(),
            root,
        };
        match document.root.value() {
            None => {}
            Some(value) if value.as_object().is_some() => {}
            Some(_) => return Err(document.shape("the whole document is not an object".into())),
        }
        Ok(document)
    }

    /// The document as text.
    pub fn text(&self) -> String {
        let text = self.root.to_string();
        if self.bom {
            format!("{BOM}{text}")
        } else {
            text
        }
    }

    /// What it says.
    pub fn value(&self) -> Value {
        self.root.to_serde_value().unwrap_or_default()
    }

    /// The outermost object, created when the text was blank.
    pub fn top(&self) -> CstObject {
        self.root.object_value_or_set()
    }

    /// The object of that name inside another one; created when there is none.
    ///
    /// # Errors
    /// [`EditError::Shape`] when something else stands there.
    pub fn object_in(&self, parent: &CstObject, name: &str) -> Result<CstObject, EditError> {
        match property(parent, name) {
            None => Ok(parent.object_value_or_set(name)),
            Some(prop) => prop
                .object_value()
                .ok_or_else(|| self.shape(format!("{name:?} is not an object"))),
        }
    }

    /// The array of that name inside an object; created when there is none.
    ///
    /// # Errors
    /// [`EditError::Shape`] when something else stands there.
    pub fn array_in(&self, parent: &CstObject, name: &str) -> Result<CstArray, EditError> {
        match property(parent, name) {
            None => Ok(parent.array_value_or_set(name)),
            Some(prop) => prop
                .array_value()
                .ok_or_else(|| self.shape(format!("{name:?} is not a list"))),
        }
    }

    fn shape(&self, what: String) -> EditError {
        EditError::Shape {
            path: self.path.clone(),
            what,
        }
    }
}

/// The property of that name; of several the last one, which is the one that JSON readers see.
pub fn property(object: &CstObject, name: &str) -> Option<CstObjectProp> {
    object
        .properties()
        .into_iter()
        .rfind(|prop| prop.decoded_name().as_deref() == Some(name))
}

/// Sets a property, in place when it is there.
pub fn set(object: &CstObject, name: &str, value: CstInputValue) {
    match property(object, name) {
        Some(prop) => prop.set_value(value),
        None => {
            object.append(name, value);
        }
    }
}

/// A parsed value as the editor takes it.
pub fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(b) => CstInputValue::Bool(*b),
        Value::Number(n) => CstInputValue::Number(n.to_string()),
        Value::String(s) => CstInputValue::String(s.clone()),
        Value::Array(list) => CstInputValue::Array(list.iter().map(input).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(k, v)| (k.clone(), input(v))).collect())
        }
    }
}

fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// The deepest nesting of brackets outside strings (comments may only make it larger).
fn depth(text: &str) -> usize {
    let (mut now, mut deepest, mut quoted, mut escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                now += 1;
                deepest = deepest.max(now);
            }
            b'}' | b']' if !quoted => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Document, EditError> {
        Document::parse(Path::new("/tmp/x.json"), text)
    }

    #[test]
    fn an_untouched_document_keeps_every_byte() {
        for text in [
            "",
            "{}",
            "{ }\n",
            "{\r\n\t\"a\": [1,2 ,],\r\n}",
            "\u{feff}{\"a\":1}",
            "// c\n{} ",
        ] {
            assert_eq!(parse(text).unwrap().text(), text);
        }
    }

    #[test]
    fn what_is_not_json_is_named() {
        let deep = "[".repeat(5000);
        for text in [
            "{",
            "{\"a\":}",
            "[1]",
            "\"x\"",
            "{\"a\":1 \"b\":2}",
            "{'a':1}",
            "nonsense",
            &deep,
        ] {
            let error = parse(text).err().unwrap().to_string();
            assert!(error.contains("/tmp/x.json"), "{error}");
        }
        assert!(depth("{\"[[[\\\"[[\": [1]}") == 2);
    }

    #[test]
    fn comments_and_order_survive_an_edit() {
        let text = "{\n  // mine\n  \"z\": 1, // keep\n  \"a\": {\"k\": 2}\n}\n";
        let document = parse(text).unwrap();
        let a = document.object_in(&document.top(), "a").unwrap();
        set(&a, "new", input(&serde_json::json!({"x": [true]})));
        let edited = document.text();
        assert!(
            edited.starts_with("{\n  // mine\n  \"z\": 1, // keep\n  \"a\": {"),
            "{edited}"
        );
        assert!(edited.ends_with("}\n"), "{edited}");
        assert!(document.object_in(&document.top(), "z").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_and_a_mode_are_kept() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real.json"), dir.path().join("link.json"));
        fs::write(&real, "{}").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real.json", &link).unwrap();
        write(&link, "{\"a\":1}").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "{\"a\":1}");
        assert_eq!(
            fs::metadata(&real).unwrap().permissions().mode() & 0o777,
            0o640
        );
        let fresh = dir.path().join("sub/fresh.json");
        write(&fresh, "{}").unwrap();
        assert_eq!(
            fs::metadata(&fresh).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}
