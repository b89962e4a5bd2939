//! The message vocabulary: agents and their cards, routes, parts, and the envelope [`Message`]
//! that a user of the library sees.
//!
//! On the hub's own wire a message is addressed by a [`Target`] on the way in and stands in a
//! room on the way out ([`crate::StoredMessage`]). [`Message`] is the transport-neutral form of
//! both: [`Message::from_stored`] and [`Message::into_send`] convert. Its `contextId` has no place
//! on the hub's wire: it is lost in a send, and never set on what a hub delivers.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::names::SERVICE_PREFIX;
use crate::{Send, StoredMessage};

macro_rules! word_enum {
    ($(#[$doc:meta])* $name:ident { $( $(#[$vdoc:meta])* $variant:ident = $text:literal ),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "lowercase")]
        pub enum $name { $( $(#[$vdoc])* $variant ),+ }

        impl $name {
            /// The word as it stands on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $text ),+ }
            }
            /// Reads the word; `None` for any other text.
            #[must_use]
            pub fn from_wire(text: &str) -> Option<Self> {
                match text { $( $text => Some(Self::$variant), )+ _ => None }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

word_enum! {
    /// What a room is for; set at its creation, never changed.
    RoomKind {
        /// A named group.
        Channel = "channel",
        /// Two agents.
        Dm = "dm",
        /// Work that whoever is free takes.
        Service = "service",
    }
}
word_enum! {
    /// Who may see a card.
    #[derive(Default)]
    Visibility {
        /// Everybody, outside views included.
        Public = "public",
        /// Agents of the hub.
        #[default]
        Private = "private",
    }
}
word_enum! {
    /// Which cards `discover` looks at.
    #[derive(Default)]
    DiscoverScope {
        /// All cards of the hub.
        #[default]
        Hub = "hub",
        /// Public cards only.
        Public = "public",
    }
}
word_enum! {
    /// What an agent wants to be woken for. Advice to peers; the receiver decides.
    Attention {
        /// Everything that may wake.
        Open = "open",
        /// Only what is directed at it, or shared work.
        Dnd = "dnd",
        /// Only turns and its own role's work.
        Focus = "focus",
    }
}
word_enum! {
    /// What a card describes.
    EndpointKind {
        /// An agent.
        Agent = "agent",
        /// Something else that can be addressed.
        Endpoint = "endpoint",
    }
}

/// Where a send or an upload goes: exactly one of three.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Target {
    /// A room by its full stored name.
    Room {
        /// The stored name.
        room: String,
    },
    /// The one-to-one room with an agent.
    Dm {
        /// The agent's id.
        agent: String,
    },
    /// Whoever serves.
    Service {
        /// The service, before tokenising.
        service: String,
    },
}

/// Who wrote a message, as authenticated by the hub at the time of sending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointRef {
    /// Agent id.
    pub id: String,
    /// Display name: a claim.
    pub name: String,
    /// Role: a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// One skill on a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// Stable id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What an agent says about itself, signed by its key.
///
/// Unknown fields are dropped on decode and are not covered by the signature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// Agent id; must equal the authenticated id on `register`.
    pub id: String,
    /// Display name.
    pub name: String,
    /// What the card describes.
    pub kind: EndpointKind,
    /// Role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Words to be found by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Skills to be found by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<Skill>>,
    /// Anything else; keep floats out, they have no canonical form everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Map<String, Value>>,
    /// Protocol version that the agent speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
}

/// One piece of a message's body.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// Any JSON value.
    Data {
        /// The value, `null` included.
        data: Value,
    },
    /// A part of a reverse-DNS kind; all siblings are kept.
    Extension {
        /// The kind, for example `com.parler.handoff`.
        kind: String,
        /// All other fields, verbatim.
        fields: Map<String, Value>,
    },
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Part::Text { text: text.into() }
    }

    /// The `kind` as it stands on the wire.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Part::Text { .. } => "text",
            Part::Data { .. } => "data",
            Part::Extension { kind, .. } => kind,
        }
    }
}

/// Whether a kind is an extension's: `^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$`.
#[must_use]
pub fn is_extension_kind(kind: &str) -> bool {
    let mut labels = 0;
    for label in kind.split('.') {
        if label.is_empty()
            || !label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        {
            return false;
        }
        labels += 1;
    }
    labels >= 2
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("kind", self.kind())?;
        match self {
            Part::Text { text } => map.serialize_entry("text", text)?,
            Part::Data { data } => map.serialize_entry("data", data)?,
            Part::Extension { fields, .. } => {
                for (key, value) in fields {
                    map.serialize_entry(key, value)?;
                }
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(d)?;
        let Some(Value::String(kind)) = fields.get_mut("kind").map(Value::take) else {
            return Err(D::Error::custom("a part needs a string `kind`"));
        };
        match kind.as_str() {
            "text" => match fields.remove("text") {
                Some(Value::String(text)) => Ok(Part::Text { text }),
                _ => Err(D::Error::custom("a text part needs a string `text`")),
            },
            "data" => match fields.remove("data") {
                Some(data) => Ok(Part::Data { data }),
                None => Err(D::Error::custom("a data part needs `data`")),
            },
            kind_text if is_extension_kind(kind_text) => {
                // Not `remove`: where a map keeps insertion order that puts the last field first.
                fields = fields.into_iter().filter(|(k, _)| k != "kind").collect();
                Ok(Part::Extension { kind, fields })
            }
            other => Err(D::Error::custom(format_args!(
                "unknown part kind `{other}`"
            ))),
        }
    }
}

/// Where a [`Message`] goes or went: exactly one of a channel, an agent, a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// A room by its stored name (`channel`).
    Channel(String),
    /// One agent by its id (`to`).
    To(String),
    /// A service by its name (`toService`).
    ToService(String),
}

impl From<Route> for Target {
    fn from(route: Route) -> Self {
        match route {
            Route::Channel(room) => Target::Room { room },
            Route::To(agent) => Target::Dm { agent },
            Route::ToService(service) => Target::Service { service },
        }
    }
}

/// The transport-neutral envelope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "MessageFields", into = "MessageFields")]
pub struct Message {
    /// Message id; on a hub a UUIDv7 that the hub mints.
    pub id: String,
    /// Milliseconds since the epoch; on a hub its receive time.
    pub ts: i64,
    /// The name of the hub (or other space) that the message lives in.
    pub space: String,
    /// Who wrote it.
    pub from: EndpointRef,
    /// Where it went.
    pub route: Route,
    /// Names or ids that it mentions: hints.
    pub mentions: Option<Vec<String>>,
    /// The body.
    pub parts: Vec<Part>,
    /// Id of the message that it answers.
    pub reply_to: Option<String>,
    /// Conversation id of other transports; has no place on the hub's wire.
    pub context_id: Option<String>,
}

impl Message {
    /// Makes the envelope of what a hub delivered.
    ///
    /// `space` is the hub's name, `kind` the kind of the room, `me` this agent's id and `dm_peer`
    /// the other member of a direct-message room (needed only there; without it a message of my
    /// own is routed to the room by name).
    #[must_use]
    pub fn from_stored(
        stored: StoredMessage,
        space: &str,
        kind: RoomKind,
        me: &str,
        dm_peer: Option<&str>,
    ) -> Self {
        let route = match kind {
            RoomKind::Channel => Route::Channel(stored.room),
            RoomKind::Service => Route::ToService(
                stored
                    .room
                    .strip_prefix(SERVICE_PREFIX)
                    .unwrap_or(&stored.room)
                    .to_owned(),
            ),
            RoomKind::Dm if stored.from.id != me => Route::To(me.to_owned()),
            RoomKind::Dm => match dm_peer {
                Some(peer) => Route::To(peer.to_owned()),
                None => Route::Channel(stored.room),
            },
        };
        Message {
            id: stored.id,
            ts: stored.ts,
            space: space.to_owned(),
            from: stored.from,
            route,
            mentions: stored.mentions,
            parts: stored.parts,
            reply_to: stored.reply_to,
            context_id: None,
        }
    }

    /// Turns the envelope into what a send needs. `id`, `ts`, `space` and `from` are the hub's to
    /// say; `context_id` is dropped.
    #[must_use]
    pub fn into_send(self, client_id: Option<String>) -> Send {
        Send {
            target: self.route.into(),
            parts: self.parts,
            mentions: self.mentions,
            reply_to: self.reply_to,
            client_id,
            deadline_secs: None,
        }
    }
}

/// The JSON face of [`Message`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageFields {
    id: String,
    ts: i64,
    space: String,
    from: EndpointRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to_service: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mentions: Option<Vec<String>>,
    parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reply_to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context_id: Option<String>,
}

impl TryFrom<MessageFields> for Message {
    type Error = &'static str;

    fn try_from(f: MessageFields) -> Result<Self, Self::Error> {
        let route = match (f.channel, f.to, f.to_service) {
            (Some(room), None, None) => Route::Channel(room),
            (None, Some(agent), None) => Route::To(agent),
            (None, None, Some(service)) => Route::ToService(service),
            _ => return Err("a message needs exactly one of channel, to, toService"),
        };
        Ok(Message {
            id: f.id,
            ts: f.ts,
            space: f.space,
            from: f.from,
            route,
            mentions: f.mentions,
            parts: f.parts,
            reply_to: f.reply_to,
            context_id: f.context_id,
        })
    }
}

impl From<Message> for MessageFields {
    fn from(m: Message) -> Self {
        let (mut channel, mut to, mut to_service) = (None, None, None);
        match m.route {
            Route::Channel(room) => channel = Some(room),
            Route::To(agent) => to = Some(agent),
            Route::ToService(service) => to_service = Some(service),
        }
        MessageFields {
            id: m.id,
            ts: m.ts,
            space: m.space,
            from: m.from,
            channel,
            to,
            to_service,
            mentions: m.mentions,
            parts: m.parts,
            reply_to: m.reply_to,
            context_id: m.context_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ME: &str = "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK";
    const PEER: &str = "UPEER";

    fn stored(room: &str, from: &str) -> StoredMessage {
        StoredMessage {
            seq: 7,
            id: "m".into(),
            room: room.into(),
            from: EndpointRef {
                id: from.into(),
                name: "planner".into(),
                role: None,
            },
            parts: vec![Part::text("hi")],
            mentions: Some(vec!["webdev".into()]),
            reply_to: Some("r".into()),
            ts: 5,
        }
    }

    #[test]
    fn a_part_reads_and_writes_its_three_forms() {
        for (given, want) in [
            (
                json!({"kind":"text","text":"x","junk":1}),
                json!({"kind":"text","text":"x"}),
            ),
            (
                json!({"kind":"data","data":null,"junk":1}),
                json!({"kind":"data","data":null}),
            ),
            (
                json!({"z":1,"kind":"org.x","a":{"b":[]}}),
                json!({"kind":"org.x","a":{"b":[]},"z":1}),
            ),
        ] {
            let part: Part = serde_json::from_value(given).unwrap();
            assert_eq!(serde_json::to_value(&part).unwrap(), want);
        }
        let part: Part = serde_json::from_str(r#"{"a":1,"kind":"org.x","a":2}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&part).unwrap(),
            r#"{"kind":"org.x","a":2}"#
        );
    }

    #[test]
    fn a_part_without_its_sibling_or_with_a_plain_kind_is_refused() {
        for bad in [
            json!({"kind":"text"}),
            json!({"kind":"text","text":1}),
            json!({"kind":"data"}),
            json!({"kind":"plain"}),
            json!({"kind":"a..b"}),
            json!({"kind":"a.b_c"}),
            json!({"kind":1}),
            json!({"text":"x"}),
            json!("text"),
        ] {
            assert!(
                serde_json::from_value::<Part>(bad.clone()).is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_message_has_exactly_one_route() {
        let base = json!({"id":"m","ts":1,"space":"h","from":{"id":"U","name":"n"},"parts":[]});
        let with = |extra: Value| {
            let mut m = base.clone();
            m.as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            serde_json::from_value::<Message>(m)
        };
        for (extra, route) in [
            (json!({"channel":"r"}), Route::Channel("r".into())),
            (json!({"to":"U"}), Route::To("U".into())),
            (json!({"toService":"s"}), Route::ToService("s".into())),
        ] {
            let message = with(extra.clone()).unwrap();
            assert_eq!(message.route, route);
            let back = serde_json::to_value(&message).unwrap();
            let (key, value) = extra.as_object().unwrap().iter().next().unwrap();
            assert_eq!(back.get(key), Some(value));
        }
        assert!(with(json!({})).is_err());
        assert!(with(json!({"channel":"r","to":"U"})).is_err());
    }

    #[test]
    fn what_a_hub_delivers_becomes_an_envelope() {
        let of = |room: &str, kind, from: &str, peer| {
            Message::from_stored(stored(room, from), "Hub", kind, ME, peer)
        };
        let channel = of("release-train", RoomKind::Channel, PEER, None);
        assert_eq!(channel.route, Route::Channel("release-train".into()));
        assert_eq!(
            (channel.space.as_str(), channel.ts, channel.context_id),
            ("Hub", 5, None)
        );
        assert_eq!(
            of("dm.ab12cd", RoomKind::Dm, PEER, None).route,
            Route::To(ME.into())
        );
        assert_eq!(
            of("dm.ab12cd", RoomKind::Dm, ME, Some(PEER)).route,
            Route::To(PEER.into())
        );
        assert_eq!(
            of("dm.ab12cd", RoomKind::Dm, ME, None).route,
            Route::Channel("dm.ab12cd".into())
        );
        assert_eq!(
            of("svc.review", RoomKind::Service, PEER, None).route,
            Route::ToService("review".into())
        );
    }

    #[test]
    fn an_envelope_becomes_a_send() {
        for (route, target) in [
            (
                Route::Channel("r".into()),
                json!({"kind":"room","room":"r"}),
            ),
            (Route::To(PEER.into()), json!({"kind":"dm","agent":PEER})),
            (
                Route::ToService("s".into()),
                json!({"kind":"service","service":"s"}),
            ),
        ] {
            let mut message =
                Message::from_stored(stored("r", ME), "Hub", RoomKind::Channel, ME, None);
            message.route = route;
            message.context_id = Some("elsewhere".into());
            let send = message.into_send(Some("k".into()));
            assert_eq!(
                serde_json::to_value(&send).unwrap(),
                json!({"target":target,"parts":[{"kind":"text","text":"hi"}],"mentions":["webdev"],
                       "replyTo":"r","clientId":"k"})
            );
        }
    }
}
