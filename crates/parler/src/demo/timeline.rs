//! The demo as people read it, and as programs do.

use serde_json::{Value, json};

use super::event::{Event, Step};
use super::stage::Played;
use crate::output::human::{Paint, hang, text};

/// Left of the further lines of a step.
const GUTTER: &str = "                         ";

/// The timeline in words.
pub fn words(played: &Played, paint: Paint) -> String {
    let mut lines = vec![
        "A hub and two agents, each a process with a key of its own:".to_owned(),
        format!("  hub      process {}, {}", played.hub.pid, played.hub.addr),
    ];
    for (role, pid) in played.agents {
        lines.push(format!("  {:8} process {pid}", role.name()));
    }
    lines.push(String::new());
    for event in &played.events {
        lines.push(row(event, start(played), paint));
    }
    lines.push(String::new());
    let total = played
        .events
        .last()
        .map_or(0.0, |last| ms(last, start(played)));
    lines.push(paint.strong(&format!(
        "The turn went there and back in {total:.1} ms. Nothing is left running, the folder is gone."
    )));
    lines.join("\n")
}

/// The timeline as an object.
pub fn object(played: &Played) -> Value {
    let steps: Vec<Value> = played
        .events
        .iter()
        .map(|event| {
            json!({
                "step": event.step, "agent": event.agent, "text": event.text,
                "ms": ms(event, start(played)),
            })
        })
        .collect();
    json!({ "steps": steps, "hub": played.hub.addr.to_string() })
}

fn start(played: &Played) -> u64 {
    let offered = played
        .events
        .iter()
        .find(|event| event.step == Step::Offered);
    offered.map_or(0, |event| event.at_us)
}

/// Milliseconds between the offer and the event.
fn ms(event: &Event, start_us: u64) -> f64 {
    // A demo lasts seconds: far below what a float holds exactly.
    std::time::Duration::from_micros(event.at_us.saturating_sub(start_us)).as_secs_f64() * 1000.0
}

fn row(event: &Event, start_us: u64, paint: Paint) -> String {
    let says = match event.step {
        Step::Offered => format!("{} hands the turn over: {}", event.agent, text(&event.text)),
        Step::Delivered => format!("it reaches {}, who was blocked waiting", event.agent),
        Step::Woken => format!("{} sees:\n{}", event.agent, paint.turn(&text(&event.text))),
        Step::Acted => format!("{} {}", event.agent, text(&event.text)),
        Step::Reported => format!("{} reads: {}", event.agent, text(&event.text)),
        Step::Opened | Step::Waiting => text(&event.text),
    };
    let time = format!("{:8.1} ms  {:<10} ", ms(event, start_us), event.step.word());
    format!("{}{}", paint.strong(&time), hang(&says, GUTTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_the_time_since_the_offer() {
        let event = Event {
            step: Step::Acted,
            at_us: 3_300,
            agent: "webdev".into(),
            text: "wrote login.html".into(),
        };
        let shown = row(&event, 1_000, Paint::new(false));
        assert_eq!(shown, "     2.3 ms  acted      webdev wrote login.html");
    }
}
