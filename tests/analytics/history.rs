//! Random histories, with kills in between: what is shown is what follows from the events, to the
//! last digit, for each interval, group and filter.

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::recomputed::Asked;
use super::{asked, log};
use crate::support::clock::Clock;
use crate::support::dice::Dice;
use crate::support::{Client, Server, sized, unique};

/// Kills of a history.
const KILLS: usize = 20;
/// So long the server's clock goes ahead between two of them, at most.
const MINUTES_MAX: u64 = 3 * 24 * 60;
const CHANNELS: [&str; 3] = ["chat", "email", "voice"];
const PRIORITIES: [&str; 4] = ["low", "normal", "high", "urgent"];

/// Who plays, and with what.
struct Play {
    dice: Dice,
    customer: String,
    users: Vec<String>,
    conversations: Vec<String>,
    messages: Vec<String>,
}

impl Play {
    async fn new(c: &Client, seed: u64) -> Self {
        let mut users = Vec::new();
        for _ in 0..3 {
            users.push(c.user("agent").await);
        }
        Self {
            dice: Dice::new(seed),
            customer: c.customer().await,
            users,
            conversations: vec![c.conversation().await],
            messages: Vec::new(),
        }
    }

    fn one_of<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[usize::try_from(self.dice.below(of.len() as u64)).unwrap()]
    }

    fn conversation(&mut self) -> String {
        let place = self.dice.below(self.conversations.len() as u64);
        self.conversations[usize::try_from(place).unwrap()].clone()
    }

    /// A request by chance: its method, path and body.
    fn request(&mut self) -> (&'static str, String, Value) {
        let at = format!("/v1/conversations/{}", self.conversation());
        match self.dice.below(16) {
            0 | 1 => {
                let mut body = json!({
                    "customer_id": self.customer,
                    "channel": self.one_of(&CHANNELS), "priority": self.one_of(&PRIORITIES),
                });
                if self.dice.below(2) == 0 {
                    body["initial_message"] = json!("It begins.");
                }
                ("POST", "/v1/conversations".to_owned(), body)
            }
            2..=6 => {
                let sender = self.one_of(&["customer", "agent", "agent", "system"]);
                let body = json!({"content": "Words.", "sender_type": sender});
                ("POST", format!("{at}/messages"), body)
            }
            7 => ("POST", format!("{at}/close"), json!({})),
            8 => ("POST", format!("{at}/reopen"), json!({})),
            9 => ("PATCH", at, json!({"channel": self.one_of(&CHANNELS)})),
            10 => ("PATCH", at, json!({"priority": self.one_of(&PRIORITIES)})),
            11 | 12 => {
                let user = self.dice.below(self.users.len() as u64 + 1);
                let user = self.users.get(usize::try_from(user).unwrap());
                ("PATCH", at, json!({"assignee_id": user}))
            }
            13 => {
                let status = self.one_of(&["pending", "active", "closed"]);
                (
                    "PATCH",
                    at,
                    json!({"status": status, "metadata": {"n": unique("n")}}),
                )
            }
            14 => {
                let until = Utc::now() + chrono::TimeDelta::days(400);
                let until = until.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
                (
                    "PATCH",
                    at,
                    json!({"status": "pending", "snoozed_until": until}),
                )
            }
            _ => match self.messages.pop() {
                Some(message) if self.dice.below(2) == 0 => ("DELETE", message, json!(null)),
                Some(message) => ("PATCH", message, json!({"content": "Other words."})),
                None => ("POST", format!("{at}/close"), json!({"reason": "enough"})),
            },
        }
    }

    /// Sends some requests at once. Where `server` is given, it is killed while they run.
    async fn some(&mut self, c: &Client, count: usize, kill: Option<&mut Server>) {
        let requests: Vec<_> = (0..count).map(|_| self.request()).collect();
        let sent = requests.into_iter().map(|(method, path, body)| {
            let call = c.call(method, &path);
            let call = if body.is_null() {
                call
            } else {
                call.json(&body)
            };
            async move { call.try_send().await.ok() }
        });
        let killed = async {
            if let Some(server) = kill {
                server.kill9();
            }
        };
        let (answers, ()) = tokio::join!(join_all(sent), killed);
        for answer in answers
            .into_iter()
            .flatten()
            .filter(|answer| answer.status == 201)
        {
            if let Some(message) = answer["message_id"].as_str() {
                let conversation = answer["conversation_id"].as_str().unwrap();
                let at = format!("/v1/conversations/{conversation}/messages/{message}");
                self.messages.push(at);
            } else if let Some(made) = answer["conversation_id"].as_str() {
                self.conversations.push(made.to_owned());
            }
        }
    }
}

#[tokio::test]
async fn what_is_shown_follows_from_the_events_whatever_happened_and_was_killed_in_between() {
    let (mut server, clock) = Clock::start();
    let account = server.account().await;
    let operator = account.operator();
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    operator
        .patch(&at, json!({"auto_close_after_minutes": 600}))
        .await
        .expect(200);
    let c = account.test();
    let mut play = Play::new(&c, 17).await;
    let (mut c, mut minutes) = (c, 0);
    let by_channel = Asked {
        interval: "day",
        group_by: Some("channel"),
        ..Asked::default()
    };
    for kill in 0..sized(KILLS, 2) {
        play.some(&c, 12, None).await;
        if kill == 10 {
            let user = play.users.pop().unwrap();
            c.delete(&format!("/v1/users/{user}")).await.expect(204);
        }
        minutes += 1 + u32::try_from(play.dice.below(MINUTES_MAX)).unwrap();
        clock.ahead(minutes);
        play.some(&c, 8, Some(&mut server)).await;
        server.restart();
        // It may be at another port.
        c = c.at(&server.address());
        agrees(&c, std::slice::from_ref(&by_channel)).await;
        play.some(&c, 12, None).await;
    }
    agrees(&c, &everything(&play.users)).await;
    server.term();
    server.assert_sound();
}

/// Every interval, group and filter, and filters together with groups.
fn everything(users: &[String]) -> Vec<Asked<'_>> {
    let mut all = Vec::new();
    for interval in ["hour", "day", "month"] {
        for group_by in [None, Some("channel"), Some("priority"), Some("assignee_id")] {
            let asked = Asked {
                interval,
                group_by,
                ..Asked::default()
            };
            all.push(asked.clone());
            all.push(Asked {
                channel: Some("email"),
                ..asked.clone()
            });
            all.push(Asked {
                priority: Some("high"),
                ..asked.clone()
            });
            let assignee = users.first().map(String::as_str);
            all.push(Asked {
                assignee,
                channel: Some("chat"),
                ..asked
            });
        }
    }
    all
}

/// Compares what is shown with what follows from the events; what timers do in between begins it
/// anew.
async fn agrees(c: &Client, all: &[Asked<'_>]) {
    for asked_for in all {
        loop {
            let before = log(c).await;
            let (from, to) = before.span(asked_for.interval);
            let shown = shown(c, asked_for, (from, to)).await;
            if log(c).await.len() != before.len() {
                continue;
            }
            let expected = before.figures(asked_for, (from, to));
            assert_eq!(shown.len(), expected.len(), "{:?}", asked_for.group_by);
            for (shown, expected) in shown.iter().zip(&expected) {
                assert_eq!(
                    shown, expected,
                    "by {} and {:?}",
                    asked_for.interval, asked_for.group_by
                );
            }
            break;
        }
    }
}

async fn shown(
    c: &Client,
    asked_for: &Asked<'_>,
    (from, to): (DateTime<Utc>, DateTime<Utc>),
) -> Vec<Value> {
    let [from, to] = [from, to].map(|at| at.format("%Y-%m-%dT%H:%M:%SZ").to_string());
    let mut query = vec![
        ("from", &*from),
        ("to", &*to),
        ("interval", asked_for.interval),
    ];
    for (name, value) in [
        ("group_by", asked_for.group_by),
        ("channel", asked_for.channel),
        ("priority", asked_for.priority),
        ("assignee_id", asked_for.assignee),
    ] {
        query.extend(value.map(|value| (name, value)));
    }
    let mut shown = asked(c, &query).await.data().clone();
    // Within an interval the order of the groups is not promised.
    shown.sort_by_key(|entry| {
        (
            entry["start"].to_string(),
            entry["group"].as_str().map(str::to_owned),
        )
    });
    shown
}
