//! The agent's card in the hub's directory: published once there is a connection, and again when
//! the agent takes another name or role or another hub is talked to.
//!
//! What the user says in the environment goes onto it. Where that says nothing, what an earlier
//! card says stays. A hub without a directory, and one that refuses the card, are left alone.

use std::sync::Arc;
use std::time::Duration;

use parler_connector::directory::{About, CardState, check};
use parler_connector::{Client, ClientError};
use parler_protocol::Visibility;
use tokio::time::sleep;

use crate::state::Tools;

/// Pause before the next try while the hub is away.
const PAUSE: Duration = Duration::from_secs(30);

/// What the card is to say beside name and role.
#[derive(Clone, Debug, Default)]
pub struct Card {
    /// Free text, tags and skills; what is empty is taken from an earlier card.
    pub about: About,
    /// Everybody on the hub may find it; else as an earlier card had it, at first only those who
    /// share a room.
    pub public: bool,
}

/// Publishes for as long as it is polled. Looks for no hub: that is for the first tool.
pub(crate) async fn publish(tools: Arc<Tools>, card: Card) {
    let mut generations = tools.agent.generations();
    let mut client = None;
    if *generations.borrow_and_update() > 0 {
        client = tools.agent.client().await.ok();
    }
    loop {
        let Some(known) = client.take() else {
            if generations.changed().await.is_err() {
                return;
            }
            client = tools.agent.client().await.ok();
            continue;
        };
        match register(&known, card.clone()).await {
            Err(error) if error.retryable() => {
                tracing::debug!(%error, "no card yet");
                tokio::select! {
                    () = sleep(PAUSE) => client = Some(known),
                    changed = generations.changed() => match changed {
                        Ok(()) => client = tools.agent.client().await.ok(),
                        Err(_) => return,
                    },
                }
            }
            Err(error) => tracing::debug!(%error, "the hub takes no card"),
            Ok(()) => {}
        }
    }
}

async fn register(client: &Client, card: Card) -> Result<(), ClientError> {
    let mut about = card.about;
    let mut visibility = Visibility::Private;
    let earlier = client.lookup(client.id().as_str()).await?;
    // What this agent did not sign itself is not signed on.
    if let Some(earlier) = earlier.filter(|entry| check(entry) == CardState::Valid) {
        visibility = earlier.visibility;
        let said = earlier.card;
        about.description = about.description.or(said.description);
        if about.tags.is_empty() {
            about.tags = said.tags.unwrap_or_default();
        }
        if about.skills.is_empty() {
            let skills = said.skills.unwrap_or_default();
            about.skills = skills.into_iter().map(|skill| skill.name).collect();
        }
    }
    if card.public {
        visibility = Visibility::Public;
    }
    client.register(about, visibility).await.map(drop)
}
