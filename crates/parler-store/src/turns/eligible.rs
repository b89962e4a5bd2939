//! Who may claim a turn, apart from any database.

use parler_protocol::AgentId;
use parler_protocol::names::addressed;

/// An agent that might claim.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its id.
    pub id: &'a AgentId,
    /// The name that it logged in with.
    pub name: &'a str,
    /// The role that it logged in with.
    pub role: Option<&'a str>,
}

/// What gives an agent the right to claim a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The turn is addressed to nobody: anyone may.
    Anyone,
    /// It names the agent's id.
    Id,
    /// It names the agent, and in this room the name means it.
    Name,
    /// It names the agent's role.
    Role,
}

/// A name as names are compared: trimmed, ASCII case folded.
#[must_use]
pub fn folded_name(name: &str) -> String {
    name.trim().to_ascii_lowercase()
}

/// The id that an addressee is, if it is one.
#[must_use]
pub fn addressee_id(to: &str) -> Option<AgentId> {
    AgentId::parse(&to.trim().to_ascii_uppercase())
}

/// Why a member of the room may claim a turn that is addressed `to` somebody; `None`: it may not.
/// `offered`: it is the one who offered it. `bound`: the addressee, read as a name, means it in that
/// room.
///
/// Names are claims: of several agents that go by one, only the bound one is meant. So are roles,
/// but a role is meant to be shared. An author never takes its own turn.
#[must_use]
pub fn claim_basis(
    to: Option<&str>,
    offered: bool,
    who: Candidate<'_>,
    bound: bool,
) -> Option<Basis> {
    if offered {
        return None;
    }
    let Some(to) = to else {
        return Some(Basis::Anyone);
    };
    if let Some(id) = addressee_id(to) {
        // Nobody becomes the addressee by taking an id for a name.
        return (*who.id == id).then_some(Basis::Id);
    }
    if to.trim().is_empty() {
        return None;
    }
    if bound && addressed(to, who.name, None) {
        return Some(Basis::Name);
    }
    let role = who.role?;
    // An empty name matches nobody here.
    addressed(to, "", Some(role)).then_some(Basis::Role)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(last: char) -> AgentId {
        let text = format!("U{}{last}", "A".repeat(AgentId::LEN - 2));
        AgentId::parse(&text).unwrap_or_else(|| panic!("{text}"))
    }

    /// Addressee, whether it offered the turn, id, name, role, whether the name means it.
    type Line<'a> = (
        Option<&'a str>,
        bool,
        &'a AgentId,
        &'a str,
        Option<&'a str>,
        bool,
        Option<Basis>,
    );

    #[test]
    fn who_may_claim() {
        let (a, b, c) = (id('A'), id('B'), id('C'));
        let as_name = c.as_str().to_ascii_lowercase();
        let table: &[Line<'_>] = &[
            (None, false, &b, "ben", None, false, Some(Basis::Anyone)),
            (None, true, &a, "ann", None, false, None),
            (Some("ann"), true, &a, "ann", Some("ann"), true, None),
            (
                Some(" BEN "),
                false,
                &b,
                "ben",
                None,
                true,
                Some(Basis::Name),
            ),
            (Some("ben"), false, &c, "ben", None, false, None),
            (Some("ben"), false, &b, "cat", None, true, None),
            (
                Some("web"),
                false,
                &b,
                "ben",
                Some("Web "),
                false,
                Some(Basis::Role),
            ),
            (
                Some("web"),
                false,
                &c,
                "web",
                Some("web"),
                false,
                Some(Basis::Role),
            ),
            (Some("web"), false, &b, "ben", Some("webdev"), false, None),
            (
                Some(c.as_str()),
                false,
                &c,
                "cat",
                None,
                false,
                Some(Basis::Id),
            ),
            (
                Some(&as_name),
                false,
                &c,
                "cat",
                None,
                false,
                Some(Basis::Id),
            ),
            (
                Some(c.as_str()),
                false,
                &b,
                c.as_str(),
                Some(c.as_str()),
                true,
                None,
            ),
            (Some("  "), false, &b, "", Some(""), true, None),
            (Some("x"), false, &b, "", Some(""), true, None),
        ];
        for (to, offered, id, name, role, bound, expected) in table {
            let who = Candidate {
                id,
                name,
                role: *role,
            };
            let basis = claim_basis(*to, *offered, who, *bound);
            assert_eq!(basis, *expected, "{to:?} by {id} as {name}/{role:?}");
        }
    }
}
