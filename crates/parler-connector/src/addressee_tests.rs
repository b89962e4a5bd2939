use parler_identity::KeyPair;

use super::*;

fn id(n: u8) -> String {
    KeyPair::from_seed_bytes([n; 32]).id().to_string()
}

fn member(n: u8, name: &str, role: Option<&str>) -> RosterEntry {
    RosterEntry {
        id: id(n),
        name: name.into(),
        role: role.map(Into::into),
        status: "idle".into(),
        activity: None,
        attention: None,
        service_role: None,
        last_seen: 0,
    }
}

fn known(names: &[&str]) -> Vec<Candidate> {
    (1..)
        .zip(names)
        .map(|(n, name)| Candidate::from(&member(n, name, None)))
        .collect()
}

#[test]
fn a_unique_name_an_id_and_the_end_of_one_are_taken() {
    let known = known(&["me", "Planner", "webdev"]);
    let me = id(1);
    for wanted in [
        "planner",
        " PLANNER ",
        &id(2),
        short_id(&id(2)),
        &format!("…{}", short_id(&id(2))),
    ] {
        assert_eq!(pick(wanted, &known, &me).unwrap().id, id(2), "{wanted}");
    }
    assert_eq!(
        pick(&id(9), &known, &me).unwrap().id,
        id(9),
        "an id needs nobody"
    );
}

#[test]
fn two_of_one_name_are_listed_with_the_ends_of_their_ids() {
    let known = known(&["me", "Planner", "planner", "Planner"]);
    let unclear = pick("planner", &known, &id(1)).unwrap_err();
    let said = unclear.say("planner", crate::safe::name);
    for n in 2..=4 {
        assert!(said.contains(&format!("…{}", short_id(&id(n)))), "{said}");
    }
    // Who takes the end of another's id for a name is no one's stand-in.
    let mut tricked = known;
    tricked[2].name = short_id(&id(2)).to_owned();
    assert!(
        matches!(pick(short_id(&id(2)), &tricked, &id(1)), Err(Unclear::Several(two)) if two.len() == 2)
    );
}

#[test]
fn what_only_looks_like_a_name_is_refused() {
    let both = known(&["me", "planner", "pl\u{430}nner"]);
    // Plain letters mean the plain name, whoever else there is.
    assert_eq!(pick("planner", &both, &id(1)).unwrap().id, id(2));
    assert!(
        matches!(pick("pl\u{430}nner", &both, &id(1)), Err(Unclear::LooksLike(it)) if it.id == id(2))
    );
    let one = known(&["me", "planner"]);
    let unclear = pick("\u{440}lanner", &one, &id(1)).unwrap_err();
    assert!(
        unclear
            .say("\u{440}lanner", crate::safe::name)
            .contains(short_id(&id(2)))
    );
    // Also one's own name is nobody else's.
    assert!(matches!(
        pick("m\u{435}", &known(&["me", "x"]), &id(1)),
        Err(Unclear::LooksLike(_))
    ));
    let other_script = known(&["me", "петя"]);
    assert_eq!(pick("ПЕТЯ", &other_script, &id(1)).unwrap().id, id(2));
}

#[test]
fn what_names_nobody_says_why() {
    let known = known(&["myself", "planner"]);
    let pick = |wanted: &str| pick(wanted, &known, &id(1));
    assert_eq!(pick("  "), Err(Unclear::Empty));
    assert_eq!(pick("plan\u{200B}ner"), Err(Unclear::Invisible));
    assert_eq!(pick("pla\u{1b}[31mnner"), Err(Unclear::Invisible));
    for word in ["all", "ME", "system", "hub", "any"] {
        assert_eq!(pick(word), Err(Unclear::Reserved), "{word}");
    }
    assert_eq!(pick("MySelf"), Err(Unclear::Myself));
    let mut mistyped = id(2);
    mistyped.replace_range(10..11, if &mistyped[10..11] == "A" { "B" } else { "A" });
    assert_eq!(pick(&mistyped), Err(Unclear::Mistyped));
    match pick("ghost") {
        Err(Unclear::Nobody(there)) => assert_eq!(there.len(), 1, "the others, not oneself"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_handoff_goes_to_a_name_a_role_an_id_or_anyone() {
    let room = [
        member(1, "me", Some("lead")),
        member(2, "webdev", Some("frontend")),
        member(3, "css", Some("Frontend")),
        member(4, "Ärger", None),
    ];
    let of = |to: Option<&str>| audience(to, &room, &id(1)).unwrap();
    assert_eq!((of(None).to, of(None).members.len()), (None, 3));
    let by_role = of(Some("FRONTEND"));
    assert_eq!(
        (by_role.to.as_deref(), by_role.members.len()),
        (Some("FRONTEND"), 2)
    );
    let by_name = of(Some("WebDev"));
    assert_eq!(
        (by_name.to.as_deref(), by_name.members.len()),
        (Some("WebDev"), 1)
    );
    // Readers fold ASCII only.
    assert_eq!(of(Some("ärger")).to.as_deref(), Some("Ärger"));
    for given in [id(3), short_id(&id(3)).to_owned()] {
        let by_id = of(Some(&given));
        assert_eq!((by_id.to, by_id.members.len()), (Some(id(3)), 1));
    }
}

#[test]
fn a_handoff_to_nobody_or_to_two_of_a_name_is_refused() {
    let room = [
        member(1, "me", Some("lead")),
        member(2, "webdev", None),
        member(3, "Webdev", None),
    ];
    let of = |to: &str| audience(Some(to), &room, &id(1)).unwrap_err();
    assert!(matches!(of("webdev"), Unclear::Several(two) if two.len() == 2));
    assert_eq!(
        of("lead"),
        Unclear::Nobody(room[1..].iter().map(Candidate::from).collect())
    );
    assert_eq!(of(&id(1)), Unclear::Myself);
    assert!(matches!(of(&id(9)), Unclear::Nobody(_)));
    assert!(matches!(of("w\u{435}bdev"), Unclear::LooksLike(_)));
    assert_eq!(of("all"), Unclear::Reserved);
}
