//! Login: a challenge, and the proof that the other end holds the key that its id names.
//!
//! 1. A `hello` without `sig` is answered by `challenge`: a nonce minted for this connection,
//!    naming this hub and its own end (60 s). With `hubNonce`, the hub proves its key as well.
//! 2. A `hello` with `sig` is checked against the nonce that the hub remembers; the first such try
//!    spends it, whatever the outcome. The id, name and role of this hello count.
//! 3. Then the join secret, if the hub has one; then the agent is in.
//!
//! Four hellos a connection. Deadlines are kept by [`super::session`].

use std::net::IpAddr;
use std::sync::Arc;

use parler_identity::challenge::prove_hub;
use parler_protocol::{
    Challenge, ErrorCode, Hello, PROTOCOL_VERSION, ServerFrame, Welcome, clean, limits,
};
use secrecy::ExposeSecret as _;
use subtle::ConstantTimeEq as _;

use crate::error::OpError;
use crate::state::{Agent, HubState};
use crate::{now_ms, random};

/// Where the login of one connection stands.
#[derive(Debug, Default)]
pub struct Handshake {
    hellos: u32,
    nonce: Option<Nonce>,
}

#[derive(Debug)]
struct Nonce {
    text: String,
    expires: i64,
}

/// What a `hello` led to.
#[derive(Debug)]
pub enum Step {
    /// Go on: send this.
    Reply(ServerFrame),
    /// Logged in: send this, and from now on it is this agent.
    In(ServerFrame, Agent),
}

impl Handshake {
    /// Takes one `hello`.
    ///
    /// # Errors
    /// The refusal to send; the connection stays open.
    pub async fn hello(
        &mut self,
        state: &Arc<HubState>,
        hello: Hello,
        address: IpAddr,
    ) -> Result<Step, OpError> {
        self.hellos += 1;
        if self.hellos > limits::MAX_HELLOS {
            return Err(OpError::new(
                ErrorCode::RateLimited,
                "too many logins on one connection: open a new one",
            ));
        }
        check_caps(&hello)?;
        match &hello.sig {
            None => Ok(Step::Reply(self.challenge(state, &hello))),
            Some(sig) => {
                self.prove(&hello, sig)?;
                admit(state, hello, address).await
            }
        }
    }

    fn challenge(&mut self, state: &HubState, hello: &Hello) -> ServerFrame {
        let expires = now_ms() + limits::CHALLENGE_TTL_MS;
        let text = format!(
            "parler-auth:v1:{}:{expires}:{}",
            state.hub12(),
            random::challenge_id()
        );
        // A hub nonce of a strange shape is not signed: it is answered as by a hub without a key.
        let proof = hello
            .hub_nonce
            .as_ref()
            .and_then(|n| prove_hub(state.key(), n, &text).ok());
        let frame = ServerFrame::Challenge(Challenge {
            nonce: text.clone(),
            version: Some(PROTOCOL_VERSION.to_owned()),
            hub: Some(state.key().id().to_string()),
            hub_sig: proof,
        });
        self.nonce = Some(Nonce { text, expires });
        frame
    }

    fn prove(&mut self, hello: &Hello, sig: &str) -> Result<(), OpError> {
        let nonce = self.nonce.take().ok_or_else(|| {
            OpError::new(
                ErrorCode::Protocol,
                "no challenge is open: send `hello` without `sig`",
            )
        })?;
        let refused = |why| OpError::new(ErrorCode::Unauthenticated, why);
        if now_ms() > nonce.expires {
            return Err(refused("challenge expired — reconnect and retry"));
        }
        // `verify` also refuses an id that is no user key.
        if !parler_identity::verify(&hello.id, nonce.text.as_bytes(), sig) {
            return Err(refused("signature verification failed"));
        }
        Ok(())
    }
}

fn check_caps(hello: &Hello) -> Result<(), OpError> {
    let caps = [
        ("id", Some(&hello.id), limits::MAX_HELLO_FIELD_BYTES),
        ("name", Some(&hello.name), limits::MAX_HELLO_FIELD_BYTES),
        ("role", hello.role.as_ref(), limits::MAX_HELLO_FIELD_BYTES),
        ("sig", hello.sig.as_ref(), limits::MAX_HELLO_SIG_BYTES),
        ("secret", hello.secret.as_ref(), limits::MAX_FIELD_BYTES),
        ("nonce", hello.nonce.as_ref(), limits::MAX_FIELD_BYTES),
        (
            "hubNonce",
            hello.hub_nonce.as_ref(),
            limits::MAX_HELLO_FIELD_BYTES,
        ),
    ];
    for (field, value, cap) in caps {
        if value.is_some_and(|v| v.len() > cap) {
            return Err(OpError::too_large(field, cap));
        }
    }
    Ok(())
}

async fn admit(state: &Arc<HubState>, hello: Hello, address: IpAddr) -> Result<Step, OpError> {
    check_secret(state, hello.secret.as_deref(), address)?;
    let id = parler_identity::parse_id(&hello.id).ok_or_else(|| {
        OpError::new(
            ErrorCode::Unauthenticated,
            "the id is not the text of a user key",
        )
    })?;
    let name = clean::name(&hello.name);
    if !clean::usable_name(&name) {
        return Err(OpError::new(
            ErrorCode::NotAuthorized,
            "that name is empty or reserved (all, any, me, system, hub): choose another",
        ));
    }
    let role = hello.role.as_deref().map(clean::name);
    state
        .store()
        .hello(&id, &name, role.as_deref(), now_ms())
        .await?;
    let welcome = ServerFrame::Welcome(Welcome {
        id: id.to_string(),
        name: name.clone(),
    });
    let agent = Agent {
        id,
        name: name.into(),
        role: role.map(Into::into),
    };
    Ok(Step::In(welcome, agent))
}

/// Who guesses the secret waits longer and longer; who gives none guesses nothing.
fn check_secret(state: &HubState, given: Option<&str>, from: IpAddr) -> Result<(), OpError> {
    let Some(secret) = &state.config().join_secret else {
        return Ok(());
    };
    let given = given.filter(|given| !given.is_empty());
    if given.is_some() {
        let throttled = |retry| OpError::rate_limited("wrong join secrets", retry);
        let may = state.budgets().may_guess(from, now_ms());
        may.map_err(throttled)?;
    }
    let secret = secret.expose_secret().as_bytes();
    let matches = given.is_some_and(|given| bool::from(given.as_bytes().ct_eq(secret)));
    if matches {
        return Ok(());
    }
    let why = if given.is_none() {
        "this hub asks for a join secret: set PARLER_JOIN_SECRET"
    } else {
        state.budgets().guessed_wrong(from, now_ms());
        "wrong join secret"
    };
    Err(OpError::new(ErrorCode::NotAuthorized, why))
}
