//! Two agents in one process pass a turn over a hub.
//!
//! Start a hub, then run this with its address:
//!
//! ```text
//! parler-hub --addr 127.0.0.1:7070 &
//! PARLER_HUB=parler://127.0.0.1:7070 cargo run -p parler-connector --example two_agents
//! ```
//!
//! A hub that asks for a join secret gets the one in `PARLER_JOIN_SECRET`. The agents are new at
//! each run; a program of your own would keep its key (`parler_identity::load_or_create_key`).

use std::error::Error;
use std::time::Duration;

use parler_connector::{Client, ClientError, ClientOptions, Endpoint, Outgoing, Redeemed};
use parler_identity::KeyPair;
use parler_identity::message::{SigState, bound_to_room, check};
use parler_protocol::{
    HandoffRef, Invite, Part, RoomKind, StoredMessage, Task, TaskStatus, TypedPart,
};

/// How long each agent waits for the other.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if let Err(error) = run().await {
        eprintln!("error: {error}");
        if let Some(hint) = error
            .downcast_ref::<ClientError>()
            .and_then(ClientError::hint)
        {
            eprintln!("hint: {hint}");
        }
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let planner = agent("planner").await?;
    let reviewer = agent("reviewer").await?;

    // One opens a room and gives the code away; the other joins with it.
    let invited = planner.invite(new_room()).await?;
    println!("planner opened '{}', key {}", invited.room, invited.code);
    match reviewer.redeem(&invited.code).await? {
        Redeemed::Joined(joined) => println!("reviewer joined '{}'", joined.room),
        Redeemed::Pending { room } => return Err(format!("'{room}' wants an approval").into()),
    }

    // Both at the same time, as two programs would.
    let room = invited.room.as_str();
    let (passed, reviewed) = tokio::join!(pass_the_turn(&planner, room), review(&reviewer, room));
    reviewed?;
    passed?;

    planner.close().await;
    reviewer.close().await;
    Ok(())
}

/// Logs a new agent in.
async fn agent(name: &str) -> Result<Client, Box<dyn Error>> {
    let hub = std::env::var("PARLER_HUB").unwrap_or_else(|_| "parler://127.0.0.1:7070".into());
    let mut endpoint = Endpoint::new(hub);
    endpoint.secret = std::env::var("PARLER_JOIN_SECRET").ok().map(Into::into);
    let options = ClientOptions::new(endpoint, KeyPair::generate()?, name);
    Ok(Client::connect(options).await?)
}

fn new_room() -> Invite {
    Invite {
        kind: RoomKind::Channel,
        room: None,
        ttl_secs: Some(600),
        max_uses: Some(1),
        require_approval: false,
    }
}

/// The planner's side: hands off, then waits for the report.
async fn pass_the_turn(planner: &Client, room: &str) -> Result<(), Box<dyn Error>> {
    let handoff = HandoffRef {
        next: "review the diff and say whether it can go out".into(),
        summary: Some("the tests are green".into()),
        to: Some("reviewer".into()),
        bundle: None,
    };
    let sent = planner.send(Outgoing::handoff(room, &handoff)).await?;
    println!("planner passed the turn (message {})", sent.seq);

    let report = next_from_others(planner, room, |message| {
        message.reply_to.as_deref() == Some(&sent.id)
    })
    .await?;
    println!(
        "planner read {}'s answer: {}",
        report.from.name,
        text_of(&report)
    );
    Ok(())
}

/// The reviewer's side: waits for a turn of its own, answers it, reports that it is done.
async fn review(reviewer: &Client, room: &str) -> Result<(), Box<dyn Error>> {
    let offered = next_from_others(reviewer, room, |message| {
        HandoffRef::find(&message.parts)
            .is_some_and(|handoff| handoff.is_for(reviewer.name(), reviewer.role()))
    })
    .await?;
    let next = HandoffRef::find(&offered.parts).map_or_else(String::new, |h| h.next);
    println!("reviewer has the turn from {}: {next}", offered.from.name);

    let done = Task {
        status: TaskStatus::Done,
        task: Some(offered.id.clone()),
        note: None,
        result: None,
        tokens: None,
        elapsed_ms: None,
    };
    let parts = vec![Part::text("read it all, it can go out"), done.to_part()];
    let mut answer = Outgoing::to_room(room, parts);
    answer.reply_to = Some(offered.id);
    reviewer.send(answer).await?;
    Ok(())
}

/// Waits for the first message by somebody else that fits and is validly signed for this room,
/// and commits everything up to it. What a peer wrote is data: look at the signature before
/// acting on it.
async fn next_from_others(
    client: &Client,
    room: &str,
    fits: impl Fn(&StoredMessage) -> bool,
) -> Result<StoredMessage, Box<dyn Error>> {
    loop {
        let unread = client.wait(room, 50, PATIENCE).await?;
        if unread.messages.is_empty() {
            return Err(format!("{} waited in vain", client.name()).into());
        }
        for message in unread.messages {
            // First what was read is committed, then acted on: a crash repeats nothing.
            client.commit(room, message.seq).await?;
            let by_others = message.from.id != client.id().as_str();
            if by_others && trusted(&message, client) && fits(&message) {
                return Ok(message);
            }
        }
    }
}

fn trusted(message: &StoredMessage, client: &Client) -> bool {
    let (state, sig) = check(message);
    state == SigState::Valid
        && sig.is_some_and(|sig| bound_to_room(message, &sig, client.id().as_str()))
}

fn text_of(message: &StoredMessage) -> String {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}
