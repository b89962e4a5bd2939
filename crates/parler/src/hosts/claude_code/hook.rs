//! The two hooks: `stop`, which may keep a session going at the end of a turn, and `rewake`, which
//! waits in the background and opens a turn in a session that sits idle.
//!
//! Neither ever fails towards the host: with a hub that is away or silent, or with input that is
//! no hook's, they do nothing and exit 0. Neither moves a cursor: the model then calls
//! `parler_recv`. Neither makes an identity or starts a hub: a session that never used Parler is
//! left in peace. A message wakes once: that is remembered in the base home, for all of us.

use std::time::Duration;

use parler_connector::config::path_in;
use parler_connector::context::Context;
use parler_connector::home::{self, Ask, Identity, Kind as Program};
use parler_connector::safe;
use parler_connector::wake::consumer::{Claim, ConsumerLock, Holder, claim};
use parler_connector::wake::ledger::{self, TurnWake};
use parler_connector::wake::once::{Freshness, Once, Submit, Thing};
use parler_connector::wake::policy::{Class, Receiver, decide};
use parler_connector::wake::words::wake_text;
use parler_connector::{Client, ClientError, Read, Timeouts};
use parler_protocol::{SigPart, StoredMessage, Turn, TypedPart};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};

use super::configure;
use super::detect::Files;
use super::hooks::Hooks;
use super::turns;
use crate::app::{Agent, App};
use crate::connect_hub;
use crate::local_hub::{LocalHub, State};

/// Largest input that is read; hosts put their last message in it.
const MAX_PAYLOAD: u64 = 4 << 20;
/// How long the host may take to write its input.
const PAYLOAD_WITHIN: Duration = Duration::from_millis(500);
/// All of a Stop hook's look where it does not wait.
const QUICK: Duration = Duration::from_millis(1300);
/// How long the goodbye after it may take: it is only a courtesy to the hub.
const GOODBYE: Duration = Duration::from_millis(100);
/// Login and each request, for a hook: a silent hub is given up well within 15 s.
const PATIENT: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    request: Duration::from_secs(5),
};
/// How long a Stop hook waits where nothing says otherwise.
const DEFAULT_WAIT_SECS: u64 = 30;
/// The longest wait, below the time at which the host ends a hook (600 s).
pub const MAX_WAIT: Duration = Duration::from_secs(590);
/// Between two looks when pushes come; each also finds out whether the hub still answers.
const LOOK_EVERY: Duration = Duration::from_secs(8);
/// Between two looks when none come.
const POLL_EVERY: Duration = Duration::from_secs(2);
/// Between two tries of a waiting hook to reach a hub that is away.
const RETRY_EVERY: Duration = Duration::from_secs(3);
/// Between two looks whether the Stop hook still waits.
const AFTER_STOP_HOOK: Duration = Duration::from_millis(500);
/// How long a turn is taken where no server of the session renews it: the longest that a hub grants.
const ALONE_LEASE: Duration = Duration::from_secs(3600);
/// Rooms that one look goes into, and messages that it reads in each.
const MAX_ROOMS: usize = 20;
const PAGE: u32 = 200;

/// What a host tells a hook. Fields that are missing or of another type count as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    session_id: Option<String>,
    cwd: Option<String>,
}

impl Payload {
    /// Reads it; `None` when it is no JSON object.
    pub fn parse(bytes: &[u8]) -> Option<Payload> {
        #[derive(Deserialize)]
        struct Loose(serde_json::Map<String, serde_json::Value>);
        let Loose(map) = serde_json::from_slice(bytes).ok()?;
        let text = |name: &str| {
            let value = map.get(name).and_then(|value| value.as_str());
            value
                .filter(|text| !text.is_empty() && text.len() <= 4096)
                .map(str::to_owned)
        };
        Some(Payload {
            session_id: text("session_id"),
            cwd: text("cwd"),
        })
    }

    /// Reads it from standard input; a host that does not close it is not waited for.
    pub async fn from_stdin() -> Option<Payload> {
        use tokio::io::AsyncReadExt;
        let mut bytes = Vec::new();
        let mut input = tokio::io::stdin().take(MAX_PAYLOAD);
        let read = async { while matches!(input.read_buf(&mut bytes).await, Ok(n) if n > 0) {} };
        let _ = timeout(PAYLOAD_WITHIN, read).await;
        Payload::parse(&bytes)
    }
}

/// The Stop hook: what to tell the model instead of letting it stop.
pub async fn stop(app: &App, payload: &Payload) -> Option<String> {
    let ear = Ear::open(app, payload)?;
    let wait = ear.stop_wait(&app.cx);
    let allowed = ear.hooks.allowed();
    // What the session has begun comes before anything new.
    let Seen { untold, found } = ear.look_once(app, allowed && wait.is_none()).await?;
    if !allowed {
        return None;
    }
    if !untold.is_empty() {
        let tells = ear.hooks.count() && ear.tells(&untold);
        return tells.then(|| turns::held_text(&untold));
    }
    let found = match wait {
        None => found?,
        Some(wait) => {
            // So that the background hook of the same turn's end leaves it to this one.
            let _waiting = ear.hooks.waiting();
            ear.wait(app, wait, None).await?
        }
    };
    // Counted only now: a look that finds nothing is no block. Noted last: what is noted and then
    // not told would not be told again. The claim is held until it is told.
    (ear.hooks.count() && ear.submit(&found)).then(|| found.text(&ear.agent))
}

/// The background hook: waits until there is something to wake the session for.
pub async fn rewake(app: &App, payload: &Payload) -> Option<String> {
    if app.cx.var("CLAUDE_CODE_MESSAGING_SOCKET").is_some() {
        return None;
    }
    let ear = Ear::open(app, payload)?;
    ear.agent.active()?;
    let mark = ear.hooks.arrive()?;
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let found = ear.wait(app, left, Some(&mark)).await?;
        // Else another hook was quicker.
        if ear.submit(&found) {
            return Some(found.text(&ear.agent));
        }
    }
}

/// A hook's view of its session: whose it is, and what may wake it.
struct Ear {
    agent: Agent,
    session: String,
    holder: Holder,
    once: Once,
    hooks: Hooks,
}

/// What one look of a Stop hook saw.
#[derive(Default)]
struct Seen {
    /// Turns that the session holds, has not answered, and was not told of.
    untold: Vec<Turn>,
    found: Option<Found>,
}

/// Something to wake the session for.
struct Found {
    message: StoredMessage,
    class: Class,
    /// Which take of its turn; 0 for anything that is no turn.
    take: i64,
    /// Others might have taken the turn as well: it was taken before.
    taken: bool,
    /// Other unread messages.
    beside: usize,
    /// Held until the host was told.
    _claim: Option<ConsumerLock>,
}

impl Found {
    fn text(&self, agent: &Agent) -> String {
        let mut text = wake_text(&self.message, self.class, &agent.me(), self.beside);
        if self.taken {
            let id = safe::token(&self.message.id);
            text.push_str(&format!(
                "\nYou have taken this turn. When it is done: parler_turn {{\"action\": \"done\", \
                 \"id\": \"{id}\"}}."
            ));
        }
        text
    }
}

impl Ear {
    /// Finds out whose hook this is; `None` for a session that never used Parler.
    fn open(app: &App, payload: &Payload) -> Option<Ear> {
        let identity = identity(&app.cx, payload)?;
        let agent = app.agent_of(identity, None).ok()?;
        let session = payload.session_id.clone().or_else(|| {
            agent
                .identity
                .session
                .as_ref()
                .and_then(|session| session.session_id.clone())
        });
        let host = agent
            .identity
            .session
            .as_ref()
            .map_or("agent", |session| session.host.as_str());
        let holder = Holder::this(&app.cx, host, session.as_deref());
        let once = Once::open(&agent.identity.base, agent.config.id.as_str());
        let session = session.unwrap_or_else(|| "no session".to_owned());
        let hooks = Hooks::of(&agent.identity.base, &session, app.cx.now_ms());
        Some(Ear {
            agent,
            session,
            holder,
            once,
            hooks,
        })
    }

    /// How long a Stop hook waits; `None`: not at all. It does not where the host has a seam by
    /// which it is woken later (an inbox, or the background hook), nor where no session is active.
    fn stop_wait(&self, cx: &Context) -> Option<Duration> {
        let asked = cx
            .var("PARLER_WAKE_WAIT_SECS")
            .map(|text| text.trim().parse::<u64>());
        let secs = match asked {
            Some(Ok(secs)) => secs,
            Some(Err(_)) => DEFAULT_WAIT_SECS,
            None if cx.var("CLAUDE_CODE_MESSAGING_SOCKET").is_some() => return None,
            None if background_hook_installed(cx) => return None,
            None => DEFAULT_WAIT_SECS,
        };
        self.agent.active()?;
        (secs > 0).then(|| Duration::from_secs(secs).min(MAX_WAIT))
    }

    /// A connection; starts no hub.
    fn client(&self, app: &App, timeouts: Timeouts) -> Option<Client> {
        let place = connect_hub::place(app, &self.agent, None);
        let local = LocalHub::of(&self.agent.identity.base);
        let known = if place.local {
            // Its files are there and it runs: else nobody could have written to this session.
            matches!(local.state().ok()?, State::Running(_)).then_some(())?;
            local.known().ok()?
        } else {
            None
        };
        let endpoint = connect_hub::endpoint_to(app, &self.agent, &place, known.as_ref()).ok()?;
        let mut options = connect_hub::options(&self.agent, endpoint).ok()?;
        options.timeouts = timeouts;
        Some(Client::new(options))
    }

    /// One quick look at the turns that the session holds and, if asked for, at what is new.
    async fn look_once(&self, app: &App, at_new: bool) -> Option<Seen> {
        let client = self.client(
            app,
            Timeouts {
                connect: QUICK,
                request: QUICK,
            },
        )?;
        let look = async {
            let untold = self.settle(&app.cx, &client).await?;
            let found = match at_new && untold.is_empty() {
                true => self.look(&app.cx, &client).await?,
                false => None,
            };
            Ok::<_, ClientError>(Seen { untold, found })
        };
        let seen = timeout(QUICK, look).await;
        let _ = timeout(GOODBYE, client.close()).await;
        // A wait that follows asks the hub more patiently.
        Some(seen.ok().and_then(Result::ok).unwrap_or_default())
    }

    /// Ends the turns that the session holds and has answered, gives back those that it was told
    /// of before, and answers the others.
    async fn settle(&self, cx: &Context, client: &Client) -> Result<Vec<Turn>, ClientError> {
        let me = self.agent.config.id.as_str();
        let mut untold = Vec::new();
        for turn in turns::active(client).await?.unwrap_or_default() {
            let mine = turn.taken_by.as_ref().is_some_and(|by| by.id == me);
            if !mine || self.acts_in(cx, &turn.room).is_none() {
                continue;
            }
            if turn.answered_at.is_some() {
                turns::complete_answered(client, &turn).await?;
                continue;
            }
            let key = turns::told_key(&turn);
            match self.once.ask(turns::told_thing(&key, &turn), &self.session) {
                Ok(Submit::Ring) => untold.push(turn),
                Ok(_) => {
                    // First: this session is not to be woken for it again.
                    let _ = self.once.give_up(&turn.message, &self.session);
                    turns::give_back(client, &turn).await?;
                }
                Err(_) => {}
            }
        }
        Ok(untold)
    }

    /// Notes that the session is told of turns that it holds; `false` when that cannot be noted.
    fn tells(&self, untold: &[Turn]) -> bool {
        untold.iter().all(|turn| {
            let key = turns::told_key(turn);
            let told = self
                .once
                .submit(turns::told_thing(&key, turn), &self.session);
            matches!(told, Ok(Submit::Ring))
        })
    }

    /// Waits until there is something. A hub that is away ends the wait of a Stop hook; the
    /// background hook of that `mark` outlasts it, and ends when a newer one came.
    async fn wait(&self, app: &App, wait: Duration, mark: Option<&str>) -> Option<Found> {
        let deadline = Instant::now() + wait;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let listened = match self.client(app, PATIENT) {
                Some(client) => timeout(left, self.listen(app, &client, mark)).await,
                None => Ok(None),
            };
            match listened {
                Ok(Some(found)) => return Some(found),
                Ok(None) if mark.is_some_and(|mark| self.hooks.is_newest(mark)) => {
                    sleep(RETRY_EVERY.min(left)).await;
                }
                Ok(None) | Err(_) => return None,
            }
            if Instant::now() >= deadline {
                return None;
            }
        }
    }

    /// Listens until there is something; `None` when the hub cannot be asked any more, or when a
    /// newer background hook does this.
    async fn listen(&self, app: &App, client: &Client, mark: Option<&str>) -> Option<Found> {
        let pushed = client.subscribe().await.ok()?;
        // Only shown to others: no reason to fail.
        let _ = client.presence("waiting", None, None).await;
        let every = if pushed { LOOK_EVERY } else { POLL_EVERY };
        loop {
            if mark.is_some_and(|mark| !self.hooks.is_newest(mark)) {
                return None;
            }
            if mark.is_some() && self.hooks.is_waited() {
                // The Stop hook of the same turn's end tells what comes now.
                sleep(AFTER_STOP_HOOK).await;
                continue;
            }
            if let Some(found) = self.look(&app.cx, client).await.ok()? {
                return Some(found);
            }
            tokio::select! {
                _ = client.next_push(), if pushed => {}
                () = sleep(every) => {}
            }
        }
    }

    /// Looks into every room where others wrote something that is unread.
    async fn look(&self, cx: &Context, client: &Client) -> Result<Option<Found>, ClientError> {
        let rooms = client.rooms().await?;
        let mut candidates = Vec::new();
        let mut unread = 0;
        for room in rooms
            .iter()
            .filter(|r| r.unread_others.unwrap_or(r.unread) > 0)
            .take(MAX_ROOMS)
        {
            let page = client
                .pull(&room.name, Read::Unread { limit: PAGE })
                .await?;
            let held: Vec<i64> = page.guard.iter().flatten().map(|mark| mark.seq).collect();
            let me = self.agent.me();
            unread += page
                .messages
                .iter()
                .filter(|message| message.from.id != me.id)
                .count();
            let receiver = Receiver {
                me,
                attention: &self.agent.config.attention,
                serves: &[],
                members: Some(room.members),
                hub_id: None,
                asked: &[],
                all_messages: false,
            };
            for message in page.messages {
                let decision = decide(&message, &receiver, held.contains(&message.seq));
                if let Some(class) = decision.wakes() {
                    candidates.push((message, class));
                }
            }
        }
        // Turns first, then what was said to this agent, each in the order of the log.
        candidates.sort_by_key(|(message, class)| (rank(*class), message.seq));
        let open = match candidates.first() {
            Some((_, Class::Turn)) => turns::active(client).await?,
            _ => None,
        };
        for (message, class) in candidates {
            let open = open.as_ref().filter(|_| class == Class::Turn);
            let turn = open.map(|open| open.iter().find(|turn| turn.message == message.id));
            let wakes = match turn {
                // No turn, or a hub that keeps no ledger.
                None => TurnWake::Wake,
                // Over, or somebody else's.
                Some(None) => TurnWake::No,
                Some(Some(turn)) => ledger::wakes(turn, self.agent.config.id.as_str()),
            };
            let before = turn.flatten().map_or(0, |turn| turn.take);
            let take = match wakes {
                TurnWake::No => continue,
                TurnWake::Wake => before,
                TurnWake::TakeFirst => before.saturating_add(1),
            };
            let Some(_claim) = self.take(cx, &message, take) else {
                continue;
            };
            let taken = wakes == TurnWake::TakeFirst;
            if taken {
                // With no server of this session nobody renews.
                let lease = _claim.is_some().then_some(ALONE_LEASE);
                let (room, id) = (&message.room, &message.id);
                let claimed = client.claim_turn(room, id, lease).await?;
                if !claimed.claimed || claimed.take.is_some_and(|now| now != take) {
                    continue;
                }
            }
            return Ok(Some(Found {
                message,
                class,
                take,
                taken,
                beside: unread.saturating_sub(1),
                _claim,
            }));
        }
        Ok(None)
    }

    /// Whether this session acts in the room; the lock is there when it alone does.
    fn acts_in(&self, cx: &Context, room: &str) -> Option<Option<ConsumerLock>> {
        let (base, id) = (&self.agent.identity.base, self.agent.config.id.as_str());
        match claim(cx, base, id, room, &self.holder).ok()? {
            Claim::Mine(lock) => Some(Some(lock)),
            Claim::Shared => Some(None),
            Claim::Held(_) => None,
        }
    }

    /// Whether this session may be woken for the message: it acts in the room, was not woken for it
    /// before, and it is no old message offered again. Notes no wake: that is for [`Ear::submit`].
    fn take(
        &self,
        cx: &Context,
        message: &StoredMessage,
        take: i64,
    ) -> Option<Option<ConsumerLock>> {
        let lock = self.acts_in(cx, &message.room)?;
        let sig = SigPart::find(&message.parts)?;
        if self.once.admit(message, &sig).ok()? == Freshness::Replay {
            return None;
        }
        let answer = self.once.ask(thing(message, take), &self.session).ok()?;
        (answer == Submit::Ring).then_some(lock)
    }

    /// Notes that the session is woken for it; `false` when another hook did so meanwhile.
    fn submit(&self, found: &Found) -> bool {
        let answer = self
            .once
            .submit(thing(&found.message, found.take), &self.session);
        matches!(answer, Ok(Submit::Ring))
    }
}

fn thing(message: &StoredMessage, take: i64) -> Thing<'_> {
    Thing {
        message: &message.id,
        take,
    }
}

/// Whether this user's settings of the host run our background hook, which then wakes the session.
fn background_hook_installed(cx: &Context) -> bool {
    cx.user_home().is_some_and(|home| {
        let files = Files::of_user(&home, cx.var("CLAUDE_CONFIG_DIR"));
        configure::wakes_in_background(&files)
    })
}

fn rank(class: Class) -> u8 {
    match class {
        Class::Turn => 0,
        Class::RoleWork => 1,
        Class::Directed | Class::Outcome => 2,
        Class::Ambient | Class::Receipt => 3,
    }
}

/// The identity of the session that the host names. One that was never used is none.
fn identity(cx: &Context, payload: &Payload) -> Option<Identity> {
    let mut ask = Ask::new(Program::Hook).session_id(payload.session_id.as_deref());
    if let Some(cwd) = &payload.cwd {
        ask = ask.cwd(cwd);
    }
    let found = home::resolve(cx, &ask).ok()?;
    if path_in(&found.home).exists() {
        return Some(found);
    }
    // A hook of the user's own making, outside an agent host: the home that the user names.
    cx.var("PARLER_HOME")?;
    let plain = home::resolve(cx, &Ask::new(Program::Setup)).ok()?;
    path_in(&plain.home).exists().then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_is_a_payload_and_odd_fields_are_absent() {
        for garbage in ["", "null", "[]", "{", "\"x\"", "5", "\u{0}"] {
            assert_eq!(Payload::parse(garbage.as_bytes()), None, "{garbage:?}");
        }
        let odd = Payload::parse(br#"{"session_id": 5, "cwd": null, "x": [1]}"#);
        assert_eq!(odd, Some(Payload::default()));
        let good = Payload::parse(br#"{"session_id":"s","cwd":"/w","stop_hook_active":false}"#);
        assert_eq!(good.unwrap().session_id.as_deref(), Some("s"));
    }

    #[test]
    fn turns_come_before_talk() {
        assert!(rank(Class::Turn) < rank(Class::Directed));
        assert!(rank(Class::Directed) < rank(Class::Ambient));
    }
}
