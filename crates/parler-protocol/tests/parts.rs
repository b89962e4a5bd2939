//! The wire shape of every part against committed JSON, and the typed view of each extension.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use parler_protocol::parts::ADVERTISED_KINDS;
use parler_protocol::{
    BundleRef, Dispatch, FileRef, HandoffRef, Observation, Part, SigPart, Task, TypedPart,
};

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/parts")
}

fn golden(name: &str) -> Part {
    let text = std::fs::read_to_string(dir().join(format!("{name}.json"))).unwrap();
    let part: Part = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(serde_json::to_string(&part).unwrap() + "\n", text, "{name}");
    part
}

/// The part in the named file, and one without all of the typed view's optional fields, decode
/// and encode as they are; one more field less is no part of that kind.
fn typed<T: TypedPart + PartialEq + Debug>(name: &str, small: &str) -> String {
    for file in [name, small] {
        let part = golden(file);
        let view = T::from_part(&part).unwrap_or_else(|| panic!("{file}"));
        assert_eq!(view.to_part(), part, "{file}: no field more, none less");
        assert_eq!(T::find(&[Part::text("x"), part]), Some(view));
    }
    let (
        Part::Extension { kind, fields },
        Part::Extension {
            fields: required, ..
        },
    ) = (golden(name), golden(small))
    else {
        panic!("{name} is no extension");
    };
    for key in fields.keys() {
        let mut fewer = Part::Extension {
            kind: kind.clone(),
            fields: fields.clone(),
        };
        if let Part::Extension { fields, .. } = &mut fewer {
            fields.remove(key);
        }
        assert_eq!(
            T::from_part(&fewer).is_none(),
            required.contains_key(key),
            "{name}: {key}"
        );
    }
    let mut more = fields;
    more.insert("zzFuture".into(), true.into());
    let more = Part::Extension {
        kind: kind.clone(),
        fields: more,
    };
    assert_eq!(
        T::from_part(&more),
        T::from_part(&golden(name)),
        "{name}: unknown field"
    );
    kind
}

#[test]
fn every_extension_has_its_exact_text_and_typed_view() {
    let kinds = [
        typed::<HandoffRef>("handoff", "handoff.min"),
        typed::<BundleRef>("bundle", "bundle.min"),
        typed::<FileRef>("file", "file.min"),
        typed::<Task>("task", "task.min"),
        typed::<Dispatch>("dispatch", "dispatch"),
        typed::<SigPart>("sig", "sig.min"),
        typed::<Observation>("observation", "observation"),
    ];
    for kind in ADVERTISED_KINDS {
        assert!(kinds.iter().any(|k| k == kind), "{kind}");
    }
}

#[test]
fn every_file_is_a_part_of_the_kind_that_it_is_named_after() {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(dir()).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let part = golden(&stem);
        let name = stem.strip_suffix(".min").unwrap_or(&stem);
        assert_eq!(part.kind().trim_start_matches("com.parler."), name);
        names.insert(name.to_owned());
    }
    let tested = [
        "bundle",
        "data",
        "dispatch",
        "file",
        "handoff",
        "observation",
        "sig",
        "task",
        "text",
    ];
    assert!(names.iter().eq(tested.iter()), "{names:?}");
}

#[test]
fn a_part_of_another_kind_has_no_typed_view() {
    assert_eq!(HandoffRef::from_part(&golden("task")), None);
    assert_eq!(Task::from_part(&golden("data")), None);
    assert_eq!(SigPart::find(&[golden("handoff"), golden("text")]), None);
}
