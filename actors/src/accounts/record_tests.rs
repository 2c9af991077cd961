//! Tests of the rules of accounts, keys, users and customers, without a store.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use colloquy_model::time::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::accounts::restore::{restore_account, restore_key};
use crate::accounts::{
    Account, AlterAccount, ChangeCustomer, CreateCustomer, CreateUser, Customer, IssueKey, Key,
    KnownKey, OpenAccount, PlanRates, Plans, RevokeKey, RotateKey, User, set_plans,
};
use colloquy_model::account::AccountNumber;
use colloquy_model::caller::{Actor, Mode};
use colloquy_model::commit::{NameField, RecordName};
use colloquy_model::id::AccountId;
use colloquy_model::key::secret_hash;

/// A record that takes what it decides, and the view that sees the effects.
struct Play<R: RecordSpec> {
    record: Record<R>,
    caller: Caller,
    identity: Arc<Identity>,
    now: Timestamp,
}

/// What a command came to: the answer, and what was committed.
type Turned = Result<(Value, Option<Commit>), RecordError>;

impl<R: RecordSpec> Play<R> {
    fn new(tenant: Tenant) -> Self {
        let caller = Caller {
            tenant,
            actor: Actor::server("a test"),
        };
        Play {
            record: Record::vacant(Id::new(Timestamp(1))),
            caller,
            identity: Arc::default(),
            now: Timestamp(1_000_000),
        }
    }

    fn ask<Q: RecordRequest<R, Reply = Answer>>(&mut self, request: Q) -> Turned {
        let command = RecordCommand {
            meta: CommandMeta::new(self.caller.clone()),
            request,
            identity: Arc::clone(&self.identity),
        };
        let (before, etag) = (self.record.sequence, self.record.sequence.to_string());
        let json = |body: &Bytes| serde_json::from_slice(body).unwrap_or(Value::Null);
        match command.decide(&self.record, None, self.now) {
            Decision::Refuse(refusal) => Err(refusal),
            Decision::Answer(reply) => {
                assert!(reply.etag.is_none_or(|shown| shown == etag));
                Ok((json(&reply.body), None))
            }
            Decision::Keep { .. } => panic!("nothing is kept without a key"),
            Decision::Change {
                change,
                mut commit,
                reply,
                ..
            } => {
                assert_eq!((commit.expected, commit.rows.len()), (before, 1));
                self.record.apply(change);
                assert_eq!(self.record.sequence, before.next());
                for effect in std::mem::take(&mut commit.effects) {
                    if let Effect::Key(view, account, secrets, signing) = effect {
                        let known = KnownKey {
                            view: *view,
                            account,
                            signing,
                            last_used_ms: Arc::default(),
                        };
                        self.identity.put_key(known, secrets);
                    }
                }
                Ok((json(&reply.body), Some(commit)))
            }
        }
    }
}

fn from<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

/// A key of an account that the view knows, and its secret.
fn key() -> (Play<Key>, String) {
    let mut play = Play::<Key>::new(Tenant::account(7));
    let mut account = Play::<Account>::new(Tenant::OPERATORS);
    let id: AccountId = account.record.id;
    account
        .ask(OpenAccount {
            new: from(json!({"name": "An account"})),
            number: AccountNumber(7),
        })
        .unwrap();
    let stored = serde_json::to_string(&account.record.held.unwrap().state).unwrap();
    play.identity
        .put_account(restore_account(&stored).unwrap().0);
    let (shown, commit) = play
        .ask(IssueKey {
            new: from(json!({"type": "prod"})),
            account: id,
        })
        .unwrap();
    let secret = shown.get("key").unwrap().as_str().unwrap().to_owned();
    assert!(
        secret.starts_with("sk_prod_")
            && secret.ends_with(shown.get("last4").unwrap().as_str().unwrap())
    );
    hides(&commit.unwrap(), &secret);
    (play, secret)
}

/// Neither row nor header nor kept answer has the secret.
fn hides(commit: &Commit, secret: &str) {
    let written = format!("{commit:?}");
    assert!(!written.contains(secret));
    let payload = &commit.rows.first().unwrap().payload;
    assert!(!String::from_utf8_lossy(payload).contains(secret));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// A secret holds until it is rotated out: the last one for its overlap, every earlier one not
    /// at all.
    #[test]
    fn rotation_ends_every_earlier_overlap(turns in proptest::collection::vec((0..100_u32, 0..200_000_i64), 1..8)) {
        let (mut play, first) = key();
        let mut secrets = vec![(first, None)];
        for (overlap, passes) in turns {
            play.now.0 += passes;
            let rotate: RotateKey = from(json!({"overlap_seconds": overlap}));
            let (shown, commit) = play.ask(rotate).unwrap();
            let secret = shown.get("key").unwrap().as_str().unwrap().to_owned();
            hides(&commit.unwrap(), &secret);
            for (_, until) in &mut secrets {
                *until = match until {
                    None => Some(play.now + Duration::from_secs(overlap.into())),
                    Some(_) => Some(Timestamp(0)),
                };
            }
            secrets.push((secret, None));
            for at in [0, 50, 100].map(|seconds| play.now + Duration::from_secs(seconds)) {
                for (secret, until) in &secrets {
                    let holds = play.identity.authenticate(secret, at).is_some();
                    prop_assert_eq!(holds, until.is_none_or(|until| at < until));
                }
            }
        }
        play.ask(RevokeKey).unwrap();
        prop_assert!(secrets.iter().all(|(secret, _)| play.identity.authenticate(secret, play.now).is_none()));
        let held = play.record.held.as_ref().unwrap();
        let stored = serde_json::to_string(&held.state).unwrap();
        let (_, left) = restore_key(&stored).unwrap();
        prop_assert!(left.is_empty(), "a revoked key gives a start no secret");
        prop_assert!(play.ask(RevokeKey).unwrap().1.is_none(), "revoked twice changes nothing");
        let refused = play.ask(RotateKey::default()).unwrap_err();
        let in_use = matches!(refused, RecordError::InUse { .. });
        prop_assert!(in_use);
    }

    /// An enterprise account has the rates that it was given, any other those of its plan.
    #[test]
    fn rates_follow_the_plan(
        changes in proptest::collection::vec(
            (prop::sample::select(vec!["basic", "pro", "enterprise"]), prop::option::of(1..2000_u32), prop::option::of(1..3000_u32)),
            1..10,
        )
    ) {
        set_plans(Plans { basic: PlanRates { rate_per_minute: 100, burst_per_minute: 150, monthly_quota: 0 }, pro: PlanRates { rate_per_minute: 500, burst_per_minute: 750, monthly_quota: 0 } });
        // The first call counts; no other test of this crate sets other plans.
        let plan_rates = |plan: &str| match plan {
            "basic" => Some((100, 150)),
            "pro" => Some((500, 750)),
            _ => None,
        };
        let mut play = Play::<Account>::new(Tenant::OPERATORS);
        play.ask(OpenAccount { new: from(json!({"name": "A"})), number: AccountNumber(1) }).unwrap();
        for (plan, rate, burst) in changes {
            let mut change = json!({"plan": plan});
            let fields = change.as_object_mut().unwrap();
            fields.extend(rate.map(|rate| ("rate_per_minute".to_owned(), json!(rate))));
            fields.extend(burst.map(|burst| ("burst_per_minute".to_owned(), json!(burst))));
            let (before, _) = play.ask(ReadRecord).unwrap();
            let change = AlterAccount { change: from(change), taken: None };
            match play.ask(change) {
                Ok((shown, _)) => {
                    let number = |field: &str| u32::try_from(shown[field].as_u64().unwrap()).unwrap();
                    let (shown_rate, shown_burst) = (number("rate_per_minute"), number("burst_per_minute"));
                    if let Some(rates) = plan_rates(plan) {
                        prop_assert_eq!((shown_rate, shown_burst), rates);
                        prop_assert!(rate.is_none() && burst.is_none());
                    } else {
                        prop_assert!(rate.is_none_or(|rate| rate == shown_rate));
                        prop_assert!(burst.is_none_or(|burst| burst == shown_burst));
                        prop_assert!(shown_burst >= shown_rate);
                    }
                }
                Err(RecordError::Invalid(_)) => {
                    let given = rate.is_some() || burst.is_some();
                    prop_assert!(given || (plan == "enterprise" && before["plan"] != "enterprise"));
                    prop_assert_eq!(play.ask(ReadRecord).unwrap().0, before);
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }

    /// A customer is found under the names that it has now, and `{}` changes nothing.
    #[test]
    fn names_are_those_of_now(
        changes in proptest::collection::vec((prop::option::of("[a-c]{1,2}"), prop::option::of(prop::option::of("[A-C]{1,2}"))), 1..10)
    ) {
        let mut play = Play::<Customer>::new(Tenant::of(1, Mode::Live));
        let (mut shown, _) = play.ask(from::<CreateCustomer>(json!({"name": "a", "metadata": {"k": 1}}))).unwrap();
        for (name, external) in changes {
            let mut change = json!({});
            let fields = change.as_object_mut().unwrap();
            fields.extend(name.map(|name| ("name".to_owned(), json!(name))));
            fields.extend(external.map(|id| ("external_id".to_owned(), json!(id))));
            let mut wanted = shown.clone();
            wanted.as_object_mut().unwrap().extend(fields.clone());
            play.now.0 += 1;
            let (after, commit) = play.ask(from::<ChangeCustomer>(change)).unwrap();
            prop_assert_eq!(commit.is_none(), wanted == shown, "a change and an event, or neither");
            wanted["updated_at"] = after["updated_at"].clone();
            prop_assert_eq!(&after, &wanted);
            if let Some(Header::Record { names, .. }) = commit.map(|commit| commit.header) {
                let external: Vec<_> = after["external_id"].as_str().into_iter().collect();
                prop_assert_eq!(names.iter().map(|name| &*name.value).collect::<Vec<_>>(), external);
            }
            shown = after;
        }
        let (_, commit) = play.ask(DeleteRecord).unwrap();
        prop_assert!(matches!(commit.unwrap().conditions.first(), Some(Condition::NoConversations(_))));
        prop_assert_eq!(play.ask(ReadRecord).unwrap_err(), RecordError::NotFound);
    }
}

#[test]
fn a_deleted_user_leaves_a_chore_and_no_name() {
    let mut play = Play::<User>::new(Tenant::account(1));
    let new: CreateUser = from(json!({"name": "Ada", "email": "Ada@Example.org", "role": "admin"}));
    let (_, commit) = play.ask(new).unwrap();
    let Header::Record { names, .. } = commit.unwrap().header else {
        panic!("no record")
    };
    assert_eq!(
        names,
        [RecordName {
            field: NameField::UserEmail,
            value: "ada@example.org".to_owned()
        }]
    );
    let (_, commit) = play.ask(DeleteRecord).unwrap();
    let commit = commit.unwrap();
    assert!(matches!(commit.header, Header::RecordGone));
    assert_eq!(
        commit.chore,
        Some(Chore::Unassign(Tenant::account(1), play.record.id))
    );
}

#[test]
fn a_secret_is_known_by_its_hash_alone() {
    let (play, secret) = key();
    let stored = serde_json::to_string(&play.record.held.unwrap().state).unwrap();
    assert!(!stored.contains(&secret));
    let (_, secrets) = restore_key(&stored).unwrap();
    assert_eq!(secrets, [(secret_hash(&secret), None)]);
}
