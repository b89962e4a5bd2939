//! The frames between a client and a hub, one JSON object a WebSocket text message.
//!
//! A [`ClientFrame`] is tagged by `op`, a [`ServerFrame`] by `type`. Replies come in the order of
//! the requests; only [`ServerFrame::Delivery`], [`ServerFrame::Turn`], [`ServerFrame::Guard`] and
//! [`ServerFrame::JoinRequest`] come unasked, and only to a connection that subscribed.
//!
//! The file is long because it is the list of the wire: one short struct a frame, no logic but
//! [`HandoffRef::is_for`], so that the contract can be read from top to bottom in one place.
//!
//! Each op has a struct of its own, so that a hub can read the tag first and then decode just
//! that struct, with `parts` still raw ([`Send`] and [`StoredMessage`] are generic over them).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ErrorCode;
use crate::names::addressed;
use crate::parts::{TaskStatus, TypedPart};
use crate::turn::{Turn, TurnAct, TurnsQuery};
use crate::types::{
    AgentCard, Attention, DiscoverScope, EndpointRef, Part, RoomKind, Target, Visibility,
};

/// Kind of [`HandoffRef`].
pub const HANDOFF_KIND: &str = "com.parler.handoff";

/// For fields whose absence means their default: encoders leave them out then.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

macro_rules! op {
    ($(#[$doc:meta])* $name:ident { $( $(#[$fdoc:meta])* $field:ident : $ty:ty ),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name { $( $(#[$fdoc])* pub $field: $ty ),* }
    };
}

/// Passes the turn: says what the next agent should do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffRef {
    /// The instruction for the next agent.
    pub next: String,
    /// State so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Name or role (or full id) of the addressee; absent: anyone in the room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Blob id of an attached bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
}

impl HandoffRef {
    /// Whether the handoff is meant for an agent of this name and role: no addressee means anyone,
    /// otherwise the trimmed addressee equals name or role, ASCII case folded.
    ///
    /// An author is never the addressee of its own handoff; that is for the caller to check, by id.
    #[must_use]
    pub fn is_for(&self, name: &str, role: Option<&str>) -> bool {
        self.to
            .as_deref()
            .is_none_or(|to| addressed(to, name, role))
    }
}

impl TypedPart for HandoffRef {
    const KIND: &'static str = HANDOFF_KIND;
}

op! {
    /// Op `hello`: asks for a challenge (without `sig`) or answers it (with).
    Hello {
        /// Agent id.
        id: String,
        /// Display name.
        name: String,
        /// Role.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// Echo of the challenge; hubs use the one that they remember.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nonce: Option<String>,
        /// Signature over the challenge, standard base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sig: Option<String>,
        /// Join secret of the hub.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
        /// Random text that the hub is asked to sign with its own key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hub_nonce: Option<String>,
    }
}
op! {
    /// Op `subscribe`: turns push on for this connection.
    Subscribe {
        /// Also send `turn`, `guard` and `join_request` frames.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turns: Option<bool>,
        /// `false`: this connection cannot start a turn of its host. Absent: it can.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wakes: Option<bool>,
    }
}
op! {
    /// Op `invite`: opens a room if need be and mints a code for it.
    Invite {
        /// Kind of the room.
        kind: RoomKind,
        /// Chosen name; absent: an automatic one. Ignored for `dm`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room: Option<String>,
        /// Life of the code in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_secs: Option<u64>,
        /// How many may redeem it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_uses: Option<u32>,
        /// The owner decides on each joiner. Channels only.
        #[serde(default, skip_serializing_if = "is_default")]
        require_approval: bool,
    }
}
op! {
    /// Op `redeem`: joins by code.
    Redeem {
        /// Bare code, or any text that contains `/join/CODE`.
        code: String,
        /// Park while the request is pending, 0 to 60 s.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_secs: Option<u64>,
    }
}
op! {
    /// An op that names a room and nothing else.
    RoomOp {
        /// Stored name.
        room: String,
    }
}
op! {
    /// Op `resolve_join`: the owner admits or refuses.
    ResolveJoin {
        /// Stored name.
        room: String,
        /// Who asked.
        agent: String,
        /// Admit?
        approve: bool,
    }
}
/// Op `send`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Send<P = Vec<Part>> {
    /// Where to.
    pub target: Target,
    /// The body.
    pub parts: P,
    /// Names or ids: hints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mentions: Option<Vec<String>>,
    /// Id of the answered message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// Idempotency key: the same key by the same author in the same room is stored once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Seconds until an open turn expires, 1 to 31 536 000; only beside a handoff part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_secs: Option<u64>,
}
op! {
    /// Op `pull`: reads a room.
    Pull {
        /// Stored name.
        room: String,
        /// Re-read from here; the cursor stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<i64>,
        /// Messages at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
        /// Park until something is there, 0 to 60 s.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wait_secs: Option<u64>,
        /// Everything up to here was consumed; opts out of advance-on-read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ack: Option<i64>,
    }
}
op! {
    /// Op `serve`: registers as a worker of a service.
    Serve {
        /// The service; its raw text is the worker's role.
        service: String,
    }
}
op! {
    /// Op `claim`: takes a turn, or a piece of service work, under a lease.
    Claim {
        /// Stored name.
        room: String,
        /// Message id.
        message: String,
        /// Lease in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease_secs: Option<u64>,
        /// Fencing token: with it the claim is only a renewal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        take: Option<i64>,
    }
}
op! {
    /// Op `queue`: work that waits for a role.
    Queue {
        /// Stored name.
        room: String,
        /// The role.
        role: String,
        /// Messages at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    }
}
op! {
    /// Op `complete`: ends a claim.
    Complete {
        /// Stored name.
        room: String,
        /// Message id.
        message: String,
        /// A terminal status.
        status: TaskStatus,
        /// Fencing token of the present take.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        take: Option<i64>,
        /// Words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// Blob id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
    }
}
op! {
    /// Op `presence`.
    Presence {
        /// Conventionally `idle`, `waiting`, `working`.
        status: String,
        /// What it does; absent clears.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        activity: Option<String>,
        /// Absent keeps the stored one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attention: Option<Attention>,
    }
}
op! {
    /// Op `set_attention`.
    SetAttention {
        /// The mode.
        attention: Attention,
    }
}
op! {
    /// Op `register`: publishes a card.
    Register {
        /// The card; its id must be the caller's.
        card: AgentCard,
        /// Who may see it.
        #[serde(default, skip_serializing_if = "is_default")]
        visibility: Visibility,
        /// Signature over the card's canonical bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sig: Option<String>,
    }
}
op! {
    /// Op `discover`.
    Discover {
        /// Which cards.
        #[serde(default, skip_serializing_if = "is_default")]
        scope: DiscoverScope,
        /// Free text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        query: Option<String>,
        /// Substring of the tags.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<String>,
        /// Substring of the skills.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        skill: Option<String>,
        /// Derived status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<String>,
        /// Entries at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    }
}
op! {
    /// Op `lookup`.
    Lookup {
        /// Agent id.
        id: String,
    }
}
op! {
    /// Op `mint_directory_token`.
    MintDirectoryToken {
        /// Life in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_secs: Option<u64>,
    }
}
op! {
    /// Op `mint_watch`: a read-only token for people.
    MintWatch {
        /// Stored name.
        room: String,
        /// Life in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_secs: Option<u64>,
        /// Also open the full room view.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        full: Option<bool>,
    }
}
op! {
    /// Op `mint_admin`: the owner's token for the page.
    MintAdmin {
        /// Stored name.
        room: String,
        /// Life in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_secs: Option<u64>,
    }
}
op! {
    /// Something to remember.
    Fact {
        /// With a key the fact replaces its predecessor.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// The fact.
        text: String,
        /// Absent: the author's private memory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room: Option<String>,
    }
}
op! {
    /// Op `remember`.
    Remember {
        /// The fact.
        fact: Fact,
        /// Exactly 768 numbers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        embedding: Option<Vec<f32>>,
        /// Informational.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        embedding_model: Option<String>,
    }
}
op! {
    /// Op `recall`.
    Recall {
        /// Words; may be empty.
        query: String,
        /// Scope.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room: Option<String>,
        /// Hits at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
        /// Exactly 768 numbers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        embedding: Option<Vec<f32>>,
        /// Exact key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    }
}
op! {
    /// Op `put_blob`.
    PutBlob {
        /// Where to.
        target: Target,
        /// Content address.
        sha256: String,
        /// Bytes.
        size: u64,
        /// Media type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// In chunks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chunks: Option<bool>,
        /// Resume from here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<u64>,
    }
}
op! {
    /// Op `get_blob`.
    GetBlob {
        /// Content address.
        id: String,
        /// In chunks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chunks: Option<bool>,
        /// Start here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<u64>,
    }
}
op! {
    /// Op `remove_member`.
    RemoveMember {
        /// Stored name.
        room: String,
        /// Who.
        agent: String,
        /// Refuse any later redeem.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ban: Option<bool>,
    }
}
op! {
    /// An op that names a room and an agent.
    MemberOp {
        /// Stored name.
        room: String,
        /// Agent id.
        agent: String,
    }
}
op! {
    /// Op `revoke_invite`.
    RevokeInvite {
        /// By code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// By id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// All of a room.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room: Option<String>,
    }
}
op! {
    /// Op `revoke_token`.
    RevokeToken {
        /// By token.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<String>,
        /// By id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// All watch tokens of a room.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room: Option<String>,
    }
}
op! {
    /// Op `bind_name`: says whom a name means in a room.
    BindName {
        /// Stored name.
        room: String,
        /// Display name.
        name: String,
        /// Agent id.
        agent: String,
    }
}
op! {
    /// Op `room_policy`: reads (no field given) or writes a room's settings.
    SetRoomPolicy {
        /// Stored name.
        room: String,
        /// Longest chain of messages without a turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hop_limit: Option<u32>,
        /// Longest chain of handoffs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handoff_hop_limit: Option<u32>,
        /// The owner decides on each joiner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        require_approval: Option<bool>,
        /// Reset the loop guard.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reset: Option<bool>,
    }
}

macro_rules! frames {
    ($(#[$doc:meta])* $name:ident, $tag:literal, $list:ident { $( $(#[$vdoc:meta])* $variant:ident $(($ty:ty))? = $text:literal ),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = $tag)]
        #[allow(clippy::large_enum_variant)] // frames live for one dispatch; boxing would cost an allocation each
        pub enum $name { $( $(#[$vdoc])* #[serde(rename = $text)] $variant $(($ty))? ),+ }

        /// The tags of all frames of that direction, in the order of the contract.
        pub const $list: &[&str] = &[$($text),+];

        impl $name {
            /// The frame's tag.
            #[must_use]
            pub const fn tag(&self) -> &'static str {
                match self { $( Self::$variant { .. } => $text ),+ }
            }
        }
    };
}

frames! {
    /// What a client sends, tagged by `op`.
    ClientFrame, "op", CLIENT_OPS {
        /// Log in.
        Hello(Hello) = "hello",
        /// Heartbeat.
        Ping = "ping",
        /// Push on.
        Subscribe(Subscribe) = "subscribe",
        /// Push off.
        Unsubscribe = "unsubscribe",
        /// Mint a code.
        Invite(Invite) = "invite",
        /// Join by code.
        Redeem(Redeem) = "redeem",
        /// Who waits for admission.
        JoinRequests(RoomOp) = "join_requests",
        /// Admit or refuse.
        ResolveJoin(ResolveJoin) = "resolve_join",
        /// My rooms.
        Rooms = "rooms",
        /// Members of a room.
        Roster(RoomOp) = "roster",
        /// Delete a room.
        DeleteRoom(RoomOp) = "delete_room",
        /// Append a message.
        Send(Send) = "send",
        /// Read a room.
        Pull(Pull) = "pull",
        /// Register as a worker.
        Serve(Serve) = "serve",
        /// Take a turn or a piece of work.
        Claim(Claim) = "claim",
        /// Waiting work.
        Queue(Queue) = "queue",
        /// End a claim.
        Complete(Complete) = "complete",
        /// Give a turn back.
        Release(TurnAct) = "release",
        /// Refuse a turn.
        Decline(TurnAct) = "decline",
        /// Withdraw a turn.
        Cancel(TurnAct) = "cancel",
        /// The ledger.
        Turns(TurnsQuery) = "turns",
        /// Say how one is.
        Presence(Presence) = "presence",
        /// Say what may wake one.
        SetAttention(SetAttention) = "set_attention",
        /// Publish a card.
        Register(Register) = "register",
        /// Search cards.
        Discover(Discover) = "discover",
        /// One card.
        Lookup(Lookup) = "lookup",
        /// Token for the directory.
        MintDirectoryToken(MintDirectoryToken) = "mint_directory_token",
        /// Token for watchers.
        MintWatch(MintWatch) = "mint_watch",
        /// Token for the owner.
        MintAdmin(MintAdmin) = "mint_admin",
        /// Store a fact.
        Remember(Remember) = "remember",
        /// Find facts.
        Recall(Recall) = "recall",
        /// Upload.
        PutBlob(PutBlob) = "put_blob",
        /// Download.
        GetBlob(GetBlob) = "get_blob",
        /// Leave a room.
        Leave(RoomOp) = "leave",
        /// Remove a member.
        RemoveMember(RemoveMember) = "remove_member",
        /// Pass ownership on.
        TransferOwner(MemberOp) = "transfer_owner",
        /// Revoke codes.
        RevokeInvite(RevokeInvite) = "revoke_invite",
        /// Revoke tokens.
        RevokeToken(RevokeToken) = "revoke_token",
        /// Bind a name.
        BindName(BindName) = "bind_name",
        /// Room settings.
        RoomPolicy(SetRoomPolicy) = "room_policy",
    }
}

op! {
    /// Reply to a first `hello`.
    Challenge {
        /// What to sign, as it is.
        nonce: String,
        /// Protocol version of the hub.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// The hub's own key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hub: Option<String>,
        /// Its signature over [`crate::canonical::hub_proof`]; only when `hubNonce` was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hub_sig: Option<String>,
    }
}
op! {
    /// Reply to a signed `hello`.
    Welcome {
        /// Agent id.
        id: String,
        /// Display name as the hub took it.
        name: String,
    }
}
op! {
    /// Reply to `invite`.
    Invited {
        /// The code.
        code: String,
        /// The code as a link.
        url: String,
        /// Stored name.
        room: String,
        /// Kind of the room.
        kind: RoomKind,
        /// Milliseconds.
        expires_at: i64,
        /// Names the invite without giving it away.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    }
}
op! {
    /// Reply to `redeem` and `serve`.
    Joined {
        /// Stored name.
        room: String,
        /// Kind of the room.
        kind: RoomKind,
    }
}
op! {
    /// One waiting joiner.
    JoinRequest {
        /// Agent id.
        agent: String,
        /// Display name, empty when unknown.
        name: String,
        /// Role.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// Milliseconds.
        requested_at: i64,
    }
}
op! {
    /// Reply to `join_requests`, oldest first.
    JoinRequests {
        /// Stored name.
        room: String,
        /// Who waits.
        requests: Vec<JoinRequest>,
    }
}
op! {
    /// Unasked: somebody waits for admission.
    JoinRequestNotice {
        /// Stored name.
        room: String,
        /// Who.
        request: JoinRequest,
    }
}
op! {
    /// Reply to `resolve_join`.
    JoinResolved {
        /// Stored name.
        room: String,
        /// Who asked.
        agent: String,
        /// The decision.
        approved: bool,
    }
}
op! {
    /// Reply to `claim`.
    Claimed {
        /// Stored name.
        room: String,
        /// Message id.
        message: String,
        /// Won?
        claimed: bool,
        /// Milliseconds; only when won.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease_until: Option<i64>,
        /// Fencing token.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        take: Option<i64>,
        /// Who has it instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<EndpointRef>,
    }
}
op! {
    /// Reply to `queue`.
    Queued {
        /// Stored name.
        room: String,
        /// Waiting work, oldest first.
        messages: Vec<StoredMessage>,
    }
}
op! {
    /// Reply to `complete`.
    Completed {
        /// Stored name.
        room: String,
        /// Message id.
        message: String,
        /// Done?
        completed: bool,
    }
}
op! {
    /// Reply to `release`.
    Released {
        /// Stored name.
        room: String,
        /// Message id.
        message: String,
        /// Done?
        released: bool,
    }
}
op! {
    /// Reply to `decline`.
    Declined {
        /// Stored name.
        room: String,
        /// Message id.
        message: String,
        /// Done?
        declined: bool,
    }
}
op! {
    /// Reply to `cancel`.
    Cancelled {
        /// Stored name.
        room: String,
        /// Message id.
        message: String,
        /// Done?
        cancelled: bool,
    }
}
op! {
    /// Reply to `turns`, newest first.
    Turns {
        /// The rows.
        turns: Vec<Turn>,
        /// Revision of the ledger.
        rev: i64,
        /// There is more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        more: Option<bool>,
    }
}
op! {
    /// Unasked: a transition.
    TurnNotice {
        /// The row after it.
        turn: Turn,
    }
}
op! {
    /// Unasked: a message was held back from waking anybody, or released.
    Guard {
        /// Stored name.
        room: String,
        /// Which message.
        seq: i64,
        /// Why, in words.
        reason: String,
    }
}
op! {
    /// A held message in a `pulled` reply.
    GuardMark {
        /// Which message.
        seq: i64,
        /// Why, in words.
        reason: String,
    }
}
op! {
    /// Reply to `register`.
    Registered {
        /// Agent id.
        id: String,
        /// Who may see it.
        visibility: Visibility,
        /// The hub checked a signature.
        verified: bool,
    }
}
op! {
    /// A card as a hub holds it.
    DirectoryEntry {
        /// As registered.
        card: AgentCard,
        /// Who may see it.
        visibility: Visibility,
        /// Derived status.
        status: String,
        /// Last activity text, stale or not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        activity: Option<String>,
        /// Only while fresh.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attention: Option<Attention>,
        /// Name of the hub.
        hub: String,
        /// The hub checked the signature. Check it again.
        verified: bool,
        /// The card's signature.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sig: Option<String>,
        /// Milliseconds.
        first_seen: i64,
        /// Milliseconds of the last hello.
        last_seen: i64,
    }
}
op! {
    /// Reply to `discover`.
    Directory {
        /// Most recent hello first.
        agents: Vec<DirectoryEntry>,
    }
}
op! {
    /// Reply to `lookup`.
    Card {
        /// Absent: unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry: Option<DirectoryEntry>,
    }
}
op! {
    /// Reply to `mint_directory_token`.
    DirectoryToken {
        /// The token.
        token: String,
        /// Milliseconds.
        expires_at: i64,
        /// Names the token without giving it away.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    }
}
op! {
    /// Reply to `mint_watch` and `mint_admin`.
    RoomToken {
        /// The token.
        token: String,
        /// Stored name.
        room: String,
        /// Milliseconds.
        expires_at: i64,
        /// Names the token without giving it away.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    }
}
op! {
    /// Reply to `send`.
    Sent {
        /// Message id.
        id: String,
        /// Place in the log.
        seq: i64,
        /// The room that it went to.
        room: String,
        /// The turn that it offered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<Turn>,
    }
}
/// A message as it stands in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredMessage<P = Vec<Part>> {
    /// Place in the log: hub-wide, strictly increasing, never reused.
    pub seq: i64,
    /// UUIDv7 minted by the hub.
    pub id: String,
    /// Stored name of the room.
    pub room: String,
    /// Author, as authenticated.
    pub from: EndpointRef,
    /// The body; may be empty.
    pub parts: P,
    /// Normalised; absent when none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mentions: Option<Vec<String>>,
    /// Id of the answered message; not validated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// Hub receive time, milliseconds.
    pub ts: i64,
}
/// Reply to `pull`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pulled<M = StoredMessage> {
    /// Stored name.
    pub room: String,
    /// Ascending by `seq`.
    pub messages: Vec<M>,
    /// Last returned `seq`, else the floor of the read.
    pub cursor: i64,
    /// Messages in here that wake nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Vec<GuardMark>>,
}
op! {
    /// Reply to `remember`.
    Remembered {
        /// Always true.
        ok: bool,
    }
}
op! {
    /// One fact found.
    RecallHit {
        /// The fact.
        text: String,
        /// Its key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Its room.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room: Option<String>,
        /// Author id.
        author: String,
        /// Milliseconds of the last write.
        ts: i64,
        /// Which way it points depends on the mode; see `rank`.
        score: f64,
        /// Place in the list, from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rank: Option<u32>,
    }
}
op! {
    /// Reply to `recall`.
    Recalled {
        /// Best first.
        hits: Vec<RecallHit>,
    }
}
op! {
    /// One of the caller's rooms.
    RoomInfo {
        /// Stored name.
        name: String,
        /// Kind of the room.
        kind: RoomKind,
        /// Members.
        members: u32,
        /// Messages above the caller's cursor, its own included.
        unread: u32,
        /// The same without its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unread_others: Option<u32>,
    }
}
op! {
    /// Reply to `rooms`, by name.
    Rooms {
        /// The rooms.
        rooms: Vec<RoomInfo>,
    }
}
op! {
    /// One member of a room.
    RosterEntry {
        /// Agent id.
        id: String,
        /// Display name.
        name: String,
        /// Role.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// Derived status.
        status: String,
        /// Last activity text, stale or not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        activity: Option<String>,
        /// Only while fresh.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attention: Option<Attention>,
        /// Role that it serves in this room.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service_role: Option<String>,
        /// Milliseconds of the presence, else of the last hello.
        last_seen: i64,
    }
}
op! {
    /// Reply to `roster`, by name.
    Roster {
        /// Stored name.
        room: String,
        /// The members.
        entries: Vec<RosterEntry>,
    }
}
op! {
    /// A reply that names a room and nothing else.
    RoomReply {
        /// Stored name.
        room: String,
    }
}
op! {
    /// A reply that names a room and an agent.
    MemberReply {
        /// Stored name.
        room: String,
        /// Agent id.
        agent: String,
    }
}
op! {
    /// Reply to the two revokes.
    Revoked {
        /// How many were revoked.
        count: u32,
    }
}
op! {
    /// Reply to `bind_name`.
    NameBound {
        /// Stored name.
        room: String,
        /// Display name.
        name: String,
        /// Agent id.
        agent: String,
    }
}
op! {
    /// Reply to `room_policy`.
    RoomPolicy {
        /// Stored name.
        room: String,
        /// Longest chain of messages without a turn.
        hop_limit: u32,
        /// Longest chain of handoffs.
        handoff_hop_limit: u32,
        /// The owner decides on each joiner.
        require_approval: bool,
    }
}
op! {
    /// Reply to `put_blob`: send the bytes.
    BlobReady {
        /// Echo of `sha256`.
        id: String,
        /// Resume here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<u64>,
    }
}
op! {
    /// The bytes were stored.
    BlobStored {
        /// Content address.
        id: String,
        /// Bytes.
        size: u64,
    }
}
op! {
    /// Reply to `get_blob`: the bytes follow.
    BlobIncoming {
        /// Content address.
        id: String,
        /// Bytes.
        size: u64,
        /// Media type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        /// First byte that follows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<u64>,
    }
}
/// Unasked: a message was appended to a room of the caller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery<M = StoredMessage> {
    /// What a pull would give.
    pub message: M,
}
op! {
    /// A refusal.
    ErrorFrame {
        /// Words for a person.
        message: String,
        /// What to decide by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<ErrorCode>,
        /// Milliseconds after which it may work.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    }
}

frames! {
    /// What a hub sends, tagged by `type`.
    ServerFrame, "type", SERVER_TYPES {
        /// Sign this.
        Challenge(Challenge) = "challenge",
        /// Logged in.
        Welcome(Welcome) = "welcome",
        /// A code.
        Invited(Invited) = "invited",
        /// In the room.
        Joined(Joined) = "joined",
        /// The owner has to decide.
        JoinPending(RoomReply) = "join_pending",
        /// Who waits.
        JoinRequests(JoinRequests) = "join_requests",
        /// Unasked: somebody waits.
        JoinRequest(JoinRequestNotice) = "join_request",
        /// Decided.
        JoinResolved(JoinResolved) = "join_resolved",
        /// Taken or not.
        Claimed(Claimed) = "claimed",
        /// Waiting work.
        Queued(Queued) = "queued",
        /// Ended or not.
        Completed(Completed) = "completed",
        /// Given back or not.
        Released(Released) = "released",
        /// Refused or not.
        Declined(Declined) = "declined",
        /// Withdrawn or not.
        Cancelled(Cancelled) = "cancelled",
        /// The ledger.
        Turns(Turns) = "turns",
        /// Unasked: a transition.
        Turn(TurnNotice) = "turn",
        /// Unasked: held back.
        Guard(Guard) = "guard",
        /// Card stored.
        Registered(Registered) = "registered",
        /// Cards.
        Directory(Directory) = "directory",
        /// One card.
        Card(Card) = "card",
        /// A token.
        DirectoryToken(DirectoryToken) = "directory_token",
        /// A token.
        Watch(RoomToken) = "watch",
        /// A token.
        Admin(RoomToken) = "admin",
        /// Appended.
        Sent(Sent) = "sent",
        /// Messages.
        Pulled(Pulled) = "pulled",
        /// Stored.
        Remembered(Remembered) = "remembered",
        /// Found.
        Recalled(Recalled) = "recalled",
        /// My rooms.
        Rooms(Rooms) = "rooms",
        /// Gone.
        RoomDeleted(RoomReply) = "room_deleted",
        /// Members.
        Roster(Roster) = "roster",
        /// Noted.
        PresenceOk = "presence_ok",
        /// Noted.
        AttentionOk = "attention_ok",
        /// Push is on.
        Subscribed = "subscribed",
        /// Push is off.
        Unsubscribed = "unsubscribed",
        /// Heartbeat.
        Pong = "pong",
        /// Send the bytes.
        BlobReady(BlobReady) = "blob_ready",
        /// Stored.
        BlobStored(BlobStored) = "blob_stored",
        /// Bytes follow.
        BlobIncoming(BlobIncoming) = "blob_incoming",
        /// Left.
        Left(RoomReply) = "left",
        /// Removed.
        Removed(MemberReply) = "removed",
        /// New owner.
        Owner(MemberReply) = "owner",
        /// Revoked.
        Revoked(Revoked) = "revoked",
        /// Bound.
        NameBound(NameBound) = "name_bound",
        /// Settings.
        RoomPolicy(RoomPolicy) = "room_policy",
        /// Unasked: a message.
        Delivery(Delivery) = "delivery",
        /// Refused.
        Error(ErrorFrame) = "error",
    }
}

impl ServerFrame {
    /// Whether a hub sends this frame unasked; all others answer the oldest open request.
    #[must_use]
    pub fn is_unsolicited(&self) -> bool {
        matches!(
            self,
            ServerFrame::Delivery(_)
                | ServerFrame::Turn(_)
                | ServerFrame::Guard(_)
                | ServerFrame::JoinRequest(_)
        )
    }
}

/// Any JSON value beside a tag, for a frame that this version does not know.
pub type UnknownFrame = Value;

#[cfg(test)]
mod tests {
    use super::*;

    fn to(addressee: Option<&str>) -> HandoffRef {
        HandoffRef {
            next: "review".into(),
            summary: None,
            to: addressee.map(Into::into),
            bundle: None,
        }
    }

    #[test]
    fn is_for() {
        assert!(to(None).is_for("webdev", None), "no addressee means anyone");
        assert!(
            to(Some(" WebDev ")).is_for("webdev", None),
            "trimmed, case folded"
        );
        assert!(
            to(Some("frontend")).is_for("webdev", Some("Frontend ")),
            "by role"
        );
        assert!(!to(Some("frontend")).is_for("webdev", None));
        assert!(
            !to(Some("web")).is_for("webdev", Some("frontend")),
            "no prefixes"
        );
        assert!(!to(Some("É")).is_for("é", None), "only ASCII is folded");
        assert!(
            !to(Some("")).is_for("webdev", Some("frontend")),
            "an empty addressee is nobody"
        );
    }

    #[test]
    fn a_handoff_survives_as_a_part() {
        let handoff = to(Some("reviewer"));
        let part = handoff.to_part();
        assert_eq!(
            serde_json::to_string(&part).unwrap(),
            r#"{"kind":"com.parler.handoff","next":"review","to":"reviewer"}"#
        );
        assert_eq!(HandoffRef::from_part(&part), Some(handoff));
        let broken: Part = serde_json::from_str(r#"{"kind":"com.parler.handoff"}"#).unwrap();
        assert_eq!(HandoffRef::from_part(&broken), None);
    }

    #[test]
    fn optionals_may_be_null_and_booleans_may_not() {
        let read = |json: &str| serde_json::from_str::<ClientFrame>(json);
        assert!(read(r#"{"op":"pull","room":"r","since":null,"ack":null}"#).is_ok());
        assert!(read(r#"{"op":"invite","kind":"channel","requireApproval":null}"#).is_err());
        assert!(read(r#"{"op":"discover","scope":null}"#).is_err());
        assert!(
            read(r#"{"op":"pull","room":"r","room":"s"}"#).is_err(),
            "repeated key"
        );
        assert!(
            read(r#"{"future":1,"op":"ping"}"#).is_ok(),
            "unknown field, tag anywhere"
        );
    }
}
