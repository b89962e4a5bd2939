//! A long random life of many turns, compared at every step with a small model, through restarts
//! and through callers that vanish in the middle.
//!
//! [`super::STEPS`] in the environment makes it longer, `PARLER_TURNS_SEED` (hexadecimal) tells one again.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use parler_protocol::turn::Transition;
use parler_protocol::{RoomName, Seq, TurnState};

use super::random::Dice;
use super::story::{Story, T0, agent, together};
use super::turn_story::{all, cast, claiming, find, handoff, r, reply, report, step, view};
use crate::{ActOutcome, Append, TakeOutcome, TurnClaim, TurnEnd, TurnFind, TurnStep};

/// Steps of the short form; the long one is some tens of thousands.
const STEPS: usize = 1500;
/// A history that is told every time, beside one that differs each time.
const SEED: u64 = 0x7042;
const MEMBERS: u8 = 4;
/// Older turns are left alone, so that the busy ones are met again and again.
const BUSY: usize = 6;
const ADDRESSEES: [Option<&str>; 5] = [None, Some("ben"), Some("WebDev"), Some("dan"), Some("x")];

/// A turn as the model sees it. Written apart from the store's own arrows on purpose.
#[derive(Clone, Debug)]
struct Model {
    offerer: u8,
    to: Option<&'static str>,
    state: TurnState,
    holder: Option<u8>,
    take: i64,
    lease: i64,
    deadline: Option<i64>,
    seq: i64,
}

impl Model {
    fn may_claim(&self, who: u8) -> bool {
        let meant = match self.to {
            None => true,
            Some("ben") => who == 1,
            Some("WebDev") => who == 1 || who == 2,
            Some("dan") => who == 3,
            Some(_) => false,
        };
        meant && who != self.offerer
    }

    fn tick(&mut self, now: i64) {
        if self.state == TurnState::Taken && self.lease <= now {
            (self.state, self.holder) = (TurnState::Open, None);
        } else if self.state == TurnState::Open && self.deadline.is_some_and(|end| end <= now) {
            self.state = TurnState::Expired;
        }
    }

    fn holds(&self, who: u8, take: Option<i64>) -> bool {
        self.state == TurnState::Taken
            && self.holder == Some(who)
            && take.is_none_or(|take| take == self.take)
    }

    fn taken_by(&mut self, who: u8, until: i64) {
        (self.state, self.holder, self.deadline) = (TurnState::Taken, Some(who), None);
        self.take += 1;
        self.lease = until;
    }

    fn claim(&mut self, who: u8, renews: Option<i64>, now: i64, lease: i64) -> Expect {
        if self.holds(who, renews) {
            self.lease = now + lease;
            return Expect::Won(self.take);
        }
        if !self.holds(who, None) && !self.may_claim(who) {
            return Expect::NotEligible;
        }
        if self.state == TurnState::Open && renews.is_none() {
            self.taken_by(who, now + lease);
            return Expect::Won(self.take);
        }
        let taken = self.state == TurnState::Taken;
        Expect::Lost(self.holder.filter(|_| taken))
    }

    fn complete(&mut self, who: u8, take: Option<i64>, end: TurnState) -> bool {
        let holds = self.holds(who, take);
        if holds {
            self.state = end;
        }
        holds
    }

    fn release(&mut self, who: u8, take: Option<i64>) -> bool {
        let holds = self.holds(who, take);
        if holds {
            (self.state, self.holder) = (TurnState::Open, None);
        }
        holds
    }

    fn decline(&mut self, who: u8) -> bool {
        let named = matches!((self.to, who), (Some("ben"), 1) | (Some("dan"), 3));
        let declines = named && who != self.offerer && self.state == TurnState::Open;
        if declines {
            self.state = TurnState::Declined;
        }
        declines
    }

    fn cancel(&mut self) -> bool {
        let active = !self.state.terminal();
        if active {
            self.state = TurnState::Cancelled;
        }
        active
    }

    /// A reply that reports an end, or passes the turn on.
    fn reported(&mut self, who: u8, end: TurnState, now: i64) {
        if self.state == TurnState::Open && self.may_claim(who) {
            self.taken_by(who, now);
        }
        self.complete(who, None, end);
    }
}

#[derive(Debug, PartialEq)]
enum Expect {
    Won(i64),
    Lost(Option<u8>),
    NotEligible,
}

struct Life {
    turns: BTreeMap<String, Model>,
    order: Vec<String>,
    dice: Dice,
    now: i64,
    rev: i64,
    at: String,
}

pub(super) async fn any_life_of_turns_agrees_with_a_simple_model(s: &mut Story) {
    let number = |name: &str, radix| {
        let text = std::env::var(name).ok()?;
        u64::from_str_radix(text.trim_start_matches("0x"), radix).ok()
    };
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let clock = u64::from(clock.unwrap().subsec_nanos());
    let steps = number(super::STEPS, 10).map_or(STEPS, |n| usize::try_from(n).unwrap());
    let seeds = match number("PARLER_TURNS_SEED", 16) {
        Some(seed) => vec![seed],
        None => vec![SEED, clock],
    };
    cast(s, MEMBERS).await;
    for seed in seeds {
        let mut life = Life {
            turns: BTreeMap::new(),
            order: Vec::new(),
            dice: Dice(seed),
            now: T0,
            rev: find(s, all(0)).await.rev,
            at: String::new(),
        };
        for step in 0..steps {
            life.at = format!("seed {seed:#x}, step {step}");
            life.step(s).await;
        }
        life.compare_all(s).await;
        // The next seed's clock begins anew: what is open now must not meet it.
        for id in &life.order {
            let cancel = step(0, id, life.now);
            s.store.cancel_turn(cancel).await.unwrap();
        }
    }
}

impl Life {
    fn who(&mut self) -> u8 {
        u8::try_from(self.dice.below(MEMBERS.into())).unwrap()
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.dice.below(of.len())]
    }

    /// One of the busy turns.
    fn pick(&mut self) -> Option<String> {
        let busy = self.order.len().min(BUSY);
        if busy == 0 {
            return None;
        }
        let at = self.order.len() - 1 - self.dice.below(busy);
        Some(self.order[at].clone())
    }

    /// A fencing token: none, the present one, or a wrong one.
    fn token(&mut self, id: &str) -> Option<i64> {
        let take = self.turns[id].take;
        match self.dice.below(6) {
            0 | 1 => None,
            2 | 3 => Some(take),
            4 => Some(take - 1),
            _ => Some(take + 1),
        }
    }

    async fn step(&mut self, s: &mut Story) {
        if self.dice.below(3) == 0 {
            let ahead = self.one_of(&[1, 500, 20_000, 61_000]);
            self.now += ahead;
        }
        let roll = self.dice.below(100);
        let Some(id) = self.pick().filter(|_| roll >= 8) else {
            return self.offer(s, None).await;
        };
        let who = self.who();
        match roll {
            8..40 => self.claim(s, &id, who).await,
            40..52 => self.complete(s, &id, who).await,
            52..62 => self.release(s, &id, who).await,
            62..66 => self.decline(s, &id, who).await,
            66..69 => self.cancel(s, &id, who).await,
            69..74 => self.reply(s, &id, who).await,
            74..78 => self.offer(s, Some((&id, who))).await,
            78..82 => self.race(s, &id).await,
            82..86 => self.settle(s).await,
            86..90 => self.see(s, &id, who).await,
            90..94 => self.vanish(s, &id).await,
            94..96 => s.reopen().await,
            _ => self.compare_all(s).await,
        }
        self.compare(s, &id).await;
    }

    /// Offers a turn, perhaps in reply to another.
    async fn offer(&mut self, s: &Story, answers: Option<(&str, u8)>) {
        let by = match answers {
            Some((_, by)) => by,
            None => self.who(),
        };
        let to = self.one_of(&ADDRESSEES);
        let deadline = (self.dice.below(4) == 0).then(|| self.now + 30_000);
        let mut append = Append {
            reply_to: answers.map(|(id, _)| id.to_owned()),
            now: self.now,
            ..handoff(s, by, to)
        };
        if let Some(offer) = append.ledger.as_mut().and_then(|l| l.offer.as_mut()) {
            offer.deadline = deadline;
        }
        let entry = s.append(append).await;
        if let Some((id, by)) = answers {
            let now = self.now;
            self.model(id).reported(by, TurnState::Done, now);
        }
        let turn = Model {
            offerer: by,
            to,
            state: TurnState::Open,
            holder: None,
            take: 0,
            lease: 0,
            deadline,
            seq: entry.seq.0,
        };
        self.order.push(entry.id.to_string());
        self.turns.insert(entry.id.to_string(), turn);
    }

    /// The model of a turn as time has left it.
    fn model(&mut self, id: &str) -> &mut Model {
        let turn = self.turns.get_mut(id).unwrap();
        turn.tick(self.now);
        turn
    }

    fn claiming(&mut self, id: &str, who: u8) -> TurnClaim {
        let renews = match self.dice.below(4) {
            0 => self.token(id),
            _ => None,
        };
        TurnClaim {
            renews,
            lease: 30_000 * i64::try_from(1 + self.dice.below(4)).unwrap(),
            ..claiming(who, id, self.now)
        }
    }

    async fn claim(&mut self, s: &Story, id: &str, who: u8) {
        let claim = self.claiming(id, who);
        let outcome = s.store.claim_turn(claim.clone()).await.unwrap();
        self.claimed(id, who, &claim, &outcome);
    }

    fn claimed(&mut self, id: &str, who: u8, claim: &TurnClaim, outcome: &TakeOutcome) {
        let (now, at) = (self.now, self.at.clone());
        let expected = self.model(id).claim(who, claim.renews, now, claim.lease);
        let seen = match outcome {
            TakeOutcome::Won { take, lease_until } => {
                assert_eq!(*lease_until, now + claim.lease, "{at}");
                Expect::Won(*take)
            }
            TakeOutcome::Lost { holder } => Expect::Lost(holder.as_ref().map(|holder| {
                (0..MEMBERS)
                    .find(|n| agent(*n) == holder.id.as_str())
                    .unwrap()
            })),
            TakeOutcome::NotEligible => Expect::NotEligible,
            other => panic!("{at}: {other:?}"),
        };
        assert_eq!(seen, expected, "{at}");
    }

    /// All claim at once: they are answered as if one after the other.
    async fn race(&mut self, s: &Story, id: &str) {
        let claims: Vec<_> = (0..MEMBERS).map(|n| claiming(n, id, self.now)).collect();
        let racing = claims.iter().map(|claim| s.store.claim_turn(claim.clone()));
        let outcomes = together(racing).await;
        for ((who, claim), outcome) in (0..).zip(&claims).zip(outcomes) {
            self.claimed(id, who, claim, &outcome.unwrap());
        }
    }

    fn done(&self, outcome: &ActOutcome, expected: bool) {
        let expected = match expected {
            true => ActOutcome::Done,
            false => ActOutcome::Nothing,
        };
        assert_eq!(*outcome, expected, "{}", self.at);
    }

    async fn complete(&mut self, s: &Story, id: &str, who: u8) {
        let take = self.token(id);
        let end = self.one_of(&[TurnState::Done, TurnState::Failed, TurnState::Cancelled]);
        let step = TurnStep {
            take,
            ..step(who, id, self.now)
        };
        let end_of = TurnEnd {
            step,
            end,
            result: None,
        };
        let outcome = s.store.complete_turn(end_of).await.unwrap();
        let expected = self.model(id).complete(who, take, end);
        self.done(&outcome, expected);
    }

    async fn release(&mut self, s: &Story, id: &str, who: u8) {
        let take = self.token(id);
        let step = TurnStep {
            take,
            ..step(who, id, self.now)
        };
        let outcome = s.store.release_turn(step).await.unwrap();
        let expected = self.model(id).release(who, take);
        self.done(&outcome, expected);
    }

    async fn decline(&mut self, s: &Story, id: &str, who: u8) {
        let step = step(who, id, self.now);
        let outcome = s.store.decline_turn(step).await.unwrap();
        let expected = self.model(id).decline(who);
        self.done(&outcome, expected);
    }

    async fn cancel(&mut self, s: &Story, id: &str, who: u8) {
        let step = step(who, id, self.now);
        let outcome = s.store.cancel_turn(step).await.unwrap();
        // The first of the cast owns the room.
        if who != 0 && self.model(id).offerer != who {
            assert_eq!(outcome, ActOutcome::NotOwner, "{}", self.at);
            return;
        }
        let expected = self.model(id).cancel();
        self.done(&outcome, expected);
    }

    async fn reply(&mut self, s: &Story, id: &str, who: u8) {
        let end = self.one_of(&[None, Some(TurnState::Done), Some(TurnState::Failed)]);
        let message = reply(s, who, id, end.map(report), self.now);
        s.append(message).await;
        let now = self.now;
        match end {
            Some(end) => self.model(id).reported(who, end, now),
            None => self.model(id).tick(now),
        }
    }

    async fn settle(&mut self, s: &Story) {
        while s.store.settle_turns(self.now).await.unwrap() > 0 {}
        for turn in self.turns.values_mut() {
            turn.tick(self.now);
        }
        let due = s.store.turns_due().await.unwrap();
        assert!(due.is_none_or(|due| due > self.now), "{}", self.at);
        self.compare_all(s).await;
    }

    async fn see(&mut self, s: &Story, id: &str, who: u8) {
        let seq = self.turns[id].seq;
        let (room, by) = (r(), agent(who));
        let cursor = s.store.advance(&room, &by, Seq(seq), self.now);
        let cursor = cursor.await.unwrap();
        let view = view(s, id).await;
        let row = view
            .candidates
            .iter()
            .find(|c| agent(who) == c.who.id.as_str());
        assert!(
            row.is_none_or(|row| row.seen && cursor.0 >= seq),
            "{}",
            self.at
        );
    }

    /// Callers that go away after asking, and a restart right behind them: each of their steps is
    /// taken whole or not at all, and in their order.
    async fn vanish(&mut self, s: &mut Story, id: &str) {
        let who = self.who();
        let claim = self.claiming(id, who);
        let now = self.now;
        let release = step(who, id, now);
        {
            let mut first = s.store.claim_turn(claim.clone());
            let mut second = s.store.release_turn(release);
            std::future::poll_fn(|cx| {
                let _ = first.as_mut().poll(cx);
                let _ = second.as_mut().poll(cx);
                std::task::Poll::Ready(())
            })
            .await;
        }
        s.reopen().await;
        // What came of it, only the store knows: one of three states, and all of them are legal.
        let before = self.model(id).clone();
        let mut claimed = before.clone();
        claimed.claim(who, claim.renews, now, claim.lease);
        let mut both = claimed.clone();
        both.release(who, None);
        let turn = view(s, id).await.row.turn;
        let matches = |model: &Model| {
            let holder = model.holder.map(|n| agent(n).to_string());
            let now_holds = turn.taken_by.as_ref().map(|by| by.id.clone());
            (model.state, model.take, holder) == (turn.state, turn.take, now_holds)
                && (model.state != TurnState::Taken || turn.lease_until == Some(model.lease))
        };
        // Where nothing reached the store, time has not been looked at either.
        let untouched = self.turns[id].clone();
        let found = [both, claimed, before, untouched].into_iter().find(matches);
        let found = found.unwrap_or_else(|| panic!("{}: {turn:?}", self.at));
        self.turns.insert(id.to_owned(), found);
    }

    async fn compare_all(&mut self, s: &Story) {
        let newest = TurnFind {
            limit: 30,
            ..all(1)
        };
        let found = find(s, newest).await;
        assert!(found.rev >= self.rev, "{}", self.at);
        self.rev = found.rev;
        let listed: Vec<_> = found.turns.iter().map(|v| &v.row.turn.message).collect();
        let newest: Vec<_> = self.order.iter().rev().take(listed.len()).collect();
        // Turns of an earlier seed are older than all of these.
        assert_eq!(listed[..newest.len()], newest, "{}", self.at);
        assert!(
            newest.len() == self.order.len() || found.more,
            "{}",
            self.at
        );
        for id in self.order.clone().iter().rev().take(BUSY) {
            self.compare(s, id).await;
        }
    }

    /// A turn of the store is that of the model, and its history is a walk along arrows.
    async fn compare(&mut self, s: &Story, id: &str) {
        let one = TurnFind {
            message: Some(id.to_owned()),
            room: Some(RoomName::new("r")),
            ..all(1)
        };
        let mut found = find(s, one).await;
        let at = &self.at;
        assert_eq!(found.turns.len(), 1, "{at}: exactly one row");
        let view = found.turns.remove(0);
        let (turn, model) = (view.row.turn, &self.turns[id]);
        let mut ticked = model.clone();
        ticked.tick(self.now);
        let state = |m: &Model| (m.state, m.take, m.holder.map(|n| agent(n).to_string()));
        let seen = (turn.state, turn.take, turn.taken_by.map(|by| by.id));
        assert!(
            seen == state(model) || seen == state(&ticked),
            "{at}: {seen:?}, not {model:?}"
        );
        assert_ne!(seen.2.as_deref(), Some(turn.from.id.as_str()), "{at}");
        walk(&view.history.unwrap(), turn.state, turn.take, at);
    }
}

fn walk(history: &[Transition], state: TurnState, take: i64, at: &str) {
    use TurnState::{Cancelled, Declined, Done, Expired, Failed, Open, Taken};
    let mut stands = history.first().map_or(Open, |first| first.from);
    let mut takes = 0;
    for line in history {
        assert_eq!(line.from, stands, "{at}: {history:?}");
        let arrow = matches!(
            (line.from, line.to),
            (Open, Taken | Declined | Cancelled | Expired)
                | (Taken, Open | Done | Failed | Cancelled)
        );
        assert!(arrow, "{at}: {line:?}");
        takes += i64::from(line.to == Taken);
        stands = line.to;
    }
    assert_eq!(stands, state, "{at}");
    assert!(
        takes == take || history.len() >= crate::MAX_TURN_HISTORY as usize,
        "{at}"
    );
}
