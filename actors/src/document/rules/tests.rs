//! A document's rules, one by one: decided and computed as the actor does it, with the versions
//! kept in memory.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use colloquy_model::time::Timestamp;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::document::access::Requester;
use crate::document::actor::{ComputedCommand, DocumentCommand};
use crate::document::content_reader::unpack;
use crate::document::merge_job::ComputedMerge;
use crate::document::messages::{
    AddComment, AddShare, AddVersion, ApplyMerge, BinDocument, ChangeRole, CreateDocument,
    EraseDocument, EraseFromBin, GrantRole, MergeReply, OpenShare, OpenedShare, PrepareMerge,
    PurgeDocument, ReadDocument, RemoveShare, RestoreDocument, RestoreOlderVersion, SetPermissions,
    UpdateDocument, UseShare, WithoutContent,
};
use crate::document::views::MergeConflict;
use colloquy_model::answer::{Answer, Precondition};
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::commit::Header;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{DocumentId, ShareId, UserId};
use colloquy_model::user::KnownUser;
use colloquy_runtime::offload::ComputePermit;
use colloquy_runtime::{Command, Decision, Entity};

/// The account's own key.
const ACCOUNT: Requester = Requester::Account(None);

/// A document with what its commits wrote.
struct Desk {
    document: Document,
    users: Arc<Identity>,
    tenant: Tenant,
    now: Timestamp,
    /// By number: the version that the frame stands on, and the frame.
    frames: Vec<(Option<u64>, Bytes)>,
    events: Vec<EventKind>,
}

impl Desk {
    fn new(content: &str) -> Self {
        let id = DocumentId::new(Timestamp(1_000_000));
        let mut desk = Desk {
            document: Document { id, live: None },
            users: Arc::default(),
            tenant: Tenant::of(1, Mode::Live),
            now: id.created_at(),
            frames: Vec::new(),
            events: Vec::new(),
        };
        desk.done::<CreateDocument>(body(json!({"title": "Guide", "content": content})));
        desk
    }

    fn user(&self) -> UserId {
        let user = UserId::new(Timestamp(1));
        self.users
            .put_user(self.tenant, user, KnownUser::unreadable());
        user
    }

    fn live(&self) -> &Live {
        self.document.live.as_ref().unwrap()
    }

    fn frames_of(&self, number: u64) -> Vec<Bytes> {
        let (base, frame) = &self.frames[usize::try_from(number).unwrap() - 1];
        let mut frames = base.map_or_else(Vec::new, |base| self.frames_of(base));
        frames.push(frame.clone());
        frames
    }

    fn content(&self, number: u64) -> String {
        unpack(
            &self.frames_of(number),
            Document::subject(self.document.id),
            number,
        )
        .unwrap()
        .0
    }

    fn head(&self) -> String {
        self.content(self.live().facts.head)
    }

    fn ask_as<R: Posed>(
        &mut self,
        requester: Requester,
        if_match: Option<&str>,
        request: R,
    ) -> Result<R::Reply, DocumentError> {
        self.now.0 += 1;
        let caller = Caller {
            tenant: self.tenant,
            actor: Actor::server("a test"),
        };
        let meta = CommandMeta {
            if_match: if_match.map(|tag| Precondition::OneOf(vec![tag.to_owned()])),
            ..CommandMeta::new(caller, requester)
        };
        let command = DocumentCommand {
            meta,
            request,
            users: Arc::clone(&self.users),
        };
        let reply = match R::decided(self, command) {
            Decision::Answer(reply) | Decision::Keep { reply, .. } => reply,
            Decision::Refuse(refusal) => return Err(refusal),
            Decision::Change {
                change,
                commit,
                reply,
                ..
            } => {
                assert_eq!(commit.expected, self.document.revision(), "the fence");
                self.events.extend(commit.rows.iter().map(|row| row.kind));
                if let Header::Document(header) = commit.header {
                    self.frames
                        .extend(header.version.map(|version| (version.base, version.frame)));
                }
                self.document.apply(change);
                reply
            }
        };
        Ok(reply)
    }

    fn ask<R: Posed>(&mut self, request: R) -> Result<R::Reply, DocumentError> {
        self.ask_as(ACCOUNT, None, request)
    }

    /// The answer's body; null where there is none.
    fn done<R: Posed<Reply: Into<Answer>>>(&mut self, request: R) -> Value {
        let answer: Answer = self.ask(request).unwrap().into();
        serde_json::from_slice(&answer.body).unwrap_or_default()
    }

    fn version(&mut self, version: Value) -> Value {
        self.done::<AddVersion>(body(version))
    }

    /// What is computed for a merge as the document is now.
    fn computed(&mut self, merge: &Value) -> Result<Option<Box<ComputedMerge>>, DocumentError> {
        let merge = Arc::new(body(merge.clone()));
        let Some(job) = self.ask(PrepareMerge { merge })? else {
            return Ok(None);
        };
        let read = async |number: u64| {
            let (content, frame) = unpack(
                &self.frames_of(number),
                Document::subject(self.document.id),
                number,
            )
            .unwrap();
            Ok((Arc::from(content), frame))
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let computed = runtime.block_on(async {
            let plan = job.planned(self.tenant).await?;
            job.compute(&plan, &ComputePermit::IN_PLACE, read).await
        });
        Ok(Some(Box::new(computed.unwrap())))
    }

    fn apply(
        &mut self,
        merge: &Value,
        computed: Option<Box<ComputedMerge>>,
    ) -> Result<MergeReply, DocumentError> {
        let merge = Arc::new(body(merge.clone()));
        self.ask(ApplyMerge { merge, computed })
    }

    fn merge(&mut self, merge: Value) -> Result<Value, DocumentError> {
        let computed = self.computed(&merge)?;
        let answer = match computed {
            Some(computed) if merge["dry_run"] == true => computed.outcome.dry_run().unwrap(),
            computed => match self.apply(&merge, computed)? {
                MergeReply::Done(answer) => answer,
                MergeReply::Stale(_) => panic!("nothing happened meanwhile"),
            },
        };
        Ok(serde_json::from_slice(&answer.body).unwrap())
    }

    fn conflict(&mut self, merge: Value) -> MergeConflict {
        match self.merge(merge) {
            Err(DocumentError::Merge(conflict)) => *conflict,
            other => panic!("{other:?}"),
        }
    }

    fn open(&mut self, token: [u8; 32]) -> Result<OpenedShare, DocumentError> {
        self.ask(OpenShare { token })
    }

    fn comment(&mut self, comment: Value) -> Result<Answer, DocumentError> {
        self.ask::<AddComment>(body(comment))
    }

    fn share(&mut self, share: Value, token: [u8; 32]) -> Value {
        self.done(AddShare {
            share: body(share),
            token,
            password: None,
        })
    }
}

/// A request as the desk decides it, with what is computed for it.
trait Posed: Sized {
    type Reply;
    fn decided(desk: &Desk, command: DocumentCommand<Self>) -> Decision<Document, Self::Reply>;
}

impl<R: DocumentRequest> Posed for R {
    type Reply = R::Reply;

    fn decided(desk: &Desk, command: DocumentCommand<R>) -> Decision<Document, R::Reply> {
        command.decide(&desk.document, None, desk.now)
    }
}

macro_rules! computed {
    ($($request:ty),*) => {$(
        impl Posed for $request {
            type Reply = <$request as ComputedRequest>::Reply;

            fn decided(
                desk: &Desk,
                command: DocumentCommand<Self>,
            ) -> Decision<Document, Self::Reply> {
                let command = ComputedCommand(command);
                let computed = command.lookup(&desk.document).map(|job| {
                    let numbers = job.needs().into_iter();
                    let chains: Vec<_> = numbers
                        .map(|number| (number, desk.frames_of(number)))
                        .collect();
                    job.compute(&chains).unwrap()
                });
                command.decide(&desk.document, computed, desk.now)
            }
        }
    )*};
}

computed!(
    CreateDocument,
    UpdateDocument,
    AddVersion,
    RestoreOlderVersion,
    AddComment
);

impl From<WithoutContent> for Answer {
    fn from(answer: WithoutContent) -> Self {
        answer.0
    }
}

fn body<T: for<'de> Deserialize<'de>>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn update(value: Value) -> UpdateDocument {
    body(value)
}

#[test]
fn an_update_without_a_change_makes_neither_version_nor_event() {
    let mut desk = Desk::new("one\n");
    let same = json!({"title": "Guide", "content": "one\n", "content_type": "text/markdown", "metadata": {}});
    for nothing in [json!({}), same] {
        desk.done(update(nothing));
    }
    assert_eq!(desk.events, [EventKind::DocumentCreated]);
    desk.done(update(json!({"content": "two\n", "title": "New"})));
    assert_eq!(
        desk.events[1..],
        [
            EventKind::DocumentUpdated,
            EventKind::DocumentVersionCreated
        ]
    );
    assert_eq!((desk.head().as_str(), desk.live().facts.head), ("two\n", 2));
}

#[test]
fn a_change_of_another_state_is_refused() {
    let mut desk = Desk::new("one\n");
    let tag = desk.live().etag(DocumentRole::Owner);
    assert!(
        desk.ask_as(ACCOUNT, Some(&tag), update(json!({"title": "A"})))
            .is_ok()
    );
    let refused = desk.ask_as(ACCOUNT, Some(&tag), update(json!({"title": "B"})));
    assert_eq!(refused.unwrap_err(), DocumentError::Precondition);
    assert_eq!(desk.live().facts.title, "A");
}

#[test]
fn a_side_line_leaves_the_head_alone_and_names_are_taken_once() {
    let mut desk = Desk::new("one\n");
    let side = desk.version(json!({"content": "side\n", "branch": "draft", "label": "first"}));
    assert_eq!(
        (&side["branch"], &side["number"]),
        (&json!("draft"), &json!(2))
    );
    assert_eq!(desk.head(), "one\n");
    desk.done(update(json!({"content": "two\n"})));
    assert_eq!(
        desk.version(json!({"content": "side 2\n", "branch": "draft"}))["parents"],
        json!([side["id"]])
    );
    let old = desk.version(json!({"content": "x\n", "parent": "1"}));
    assert_eq!(old["branch"], "v5", "named after its first version");
    for taken in [
        json!({"content": "", "label": "draft"}),
        json!({"content": "", "branch": "first"}),
    ] {
        let refused = desk.ask::<AddVersion>(body(taken)).unwrap_err();
        assert!(
            matches!(refused, DocumentError::Conflict { .. }),
            "{refused:?}"
        );
    }
    assert_eq!(desk.head(), "two\n");
}

#[test]
fn a_merge_brings_in_what_both_changed_and_then_there_is_nothing_more() {
    let mut desk = Desk::new("a\nb\nc\nd\ne\n");
    desk.version(json!({"content": "A\nb\nc\nd\ne\n", "branch": "side"}));
    desk.done(update(json!({"content": "a\nb\nc\nd\nE\n"})));
    let dry = desk
        .merge(json!({"source": "side", "dry_run": true}))
        .unwrap();
    assert_eq!((desk.frames.len(), &dry["conflicts"]), (3, &json!([])));
    let merged = desk.merge(json!({"source": "side"})).unwrap();
    assert_eq!(merged["parents"].as_array().unwrap().len(), 2);
    assert_eq!(
        (desk.head(), &dry["merged"]),
        ("A\nb\nc\nd\nE\n".to_owned(), &json!(desk.head()))
    );
    for contained in ["side", "head", "1"] {
        assert_eq!(
            desk.merge(json!({"source": contained})).unwrap()["up_to_date"],
            true,
            "{contained}"
        );
    }
    assert_eq!(desk.events.last(), Some(&EventKind::DocumentMerged));
}

#[test]
fn a_conflict_is_told_and_its_resolution_goes_through_while_the_target_stays() {
    let mut desk = Desk::new("a\n");
    desk.version(json!({"content": "theirs\n", "branch": "side"}));
    desk.done(update(json!({"content": "ours\n"})));
    let conflict = desk.conflict(json!({"source": "side"}));
    assert_eq!(conflict.conflicts.len(), 1);
    assert!(
        conflict
            .merged
            .contains("<<<<<<< head\nours\n=======\ntheirs\n>>>>>>> side\n"),
        "{}",
        conflict.merged
    );
    let resolved = |content: &str| {
        let resolutions = json!([{"index": 0, "content": content}]);
        json!({"source": conflict.source, "target": conflict.target, "resolutions": resolutions})
    };
    let none = json!({"source": conflict.source, "target": conflict.target, "resolutions": []});
    assert!(
        matches!(desk.merge(none), Err(DocumentError::Invalid(_))),
        "one left out"
    );
    desk.merge(resolved("both\n")).unwrap();
    assert_eq!(desk.head(), "both\n");
    assert_eq!(
        desk.merge(resolved("late\n")).unwrap_err(),
        DocumentError::Precondition,
        "the target has moved on"
    );
}

#[test]
fn what_was_computed_for_other_sides_or_without_the_comments_is_not_taken() {
    let mut desk = Desk::new("a\nb\nc\n");
    desk.version(json!({"content": "a\nb\nC\n", "branch": "side"}));
    desk.done(update(json!({"content": "A\nb\nc\n"})));
    let merge = json!({"source": "side"});
    let before = desk.document.revision();
    let computed = desk.computed(&merge).unwrap();
    desk.comment(json!({"start_line": 1, "body": "Why?"}))
        .unwrap();
    let stale = desk.apply(&merge, computed).unwrap();
    assert!(
        matches!(stale, MergeReply::Stale(_)),
        "the comment would not follow: {stale:?}"
    );
    let computed = desk.computed(&merge).unwrap();
    desk.version(json!({"content": "a\nb\nD\n", "branch": "side"}));
    let stale = desk.apply(&merge, computed).unwrap();
    assert!(
        matches!(stale, MergeReply::Stale(_)),
        "the source has moved on: {stale:?}"
    );
    assert_eq!(desk.document.revision(), before.plus(2));
    desk.merge(merge).unwrap();
    assert_eq!(desk.head(), "A\nb\nD\n");
}

#[test]
fn each_strategy_decides_conflicts_its_own_way() {
    for (strategy, expected) in [
        ("ours", "ours\n"),
        ("theirs", "theirs\n"),
        ("union", "ours\ntheirs\n"),
    ] {
        let mut desk = Desk::new("a\n");
        desk.version(json!({"content": "theirs\n", "branch": "side"}));
        desk.done(update(json!({"content": "ours\n"})));
        desk.merge(json!({"source": "side", "strategy": strategy}))
            .unwrap();
        assert_eq!(desk.head(), expected, "{strategy}");
    }
}

#[test]
fn a_criss_cross_history_merges_from_all_of_the_nearest_ancestors() {
    let mut desk = Desk::new("a\nb\nc\nd\ne\nf\ng\n");
    desk.version(json!({"content": "a\nb\nc\nd\ne\nf\nG\n", "branch": "side"}));
    desk.done(update(json!({"content": "A\nb\nc\nd\ne\nf\ng\n"})));
    let (ours, theirs) = (desk.live().found(3).id, desk.live().found(2).id);
    desk.merge(json!({"source": theirs})).unwrap();
    // The side takes in what main was before that merge: both are now nearest ancestors of both.
    desk.merge(json!({"source": ours, "target": "side"}))
        .unwrap();
    desk.done(update(json!({"content": "A\nb\nc\nM\ne\nf\nG\n"})));
    assert_eq!(
        desk.merge(json!({"source": "side"})).unwrap()["parents"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(desk.head(), "A\nb\nc\nM\ne\nf\nG\n");
}

#[test]
fn what_is_in_the_bin_can_only_be_restored_erased_or_expire() {
    let mut desk = Desk::new("one\n");
    desk.done(BinDocument);
    let binned_at = desk.live().facts.deleted_at.unwrap();
    let refused = [
        desk.ask(ReadDocument::default()).map(drop),
        desk.ask(update(json!({}))).map(drop),
        desk.ask(BinDocument).map(drop),
        desk.ask(EraseDocument).map(drop),
    ];
    assert_eq!(refused, [const { Err(DocumentError::NotFound) }; 4]);
    assert_eq!(
        desk.ask(PurgeDocument {
            binned_before: binned_at
        })
        .unwrap_err(),
        DocumentError::NotFound,
        "not yet"
    );
    desk.done(RestoreDocument);
    assert_eq!(
        desk.ask(PurgeDocument {
            binned_before: Timestamp(i64::MAX)
        })
        .unwrap_err(),
        DocumentError::NotFound,
        "it was taken out"
    );
    assert_eq!(
        desk.ask(EraseFromBin).unwrap_err(),
        DocumentError::NotFound,
        "it is in no bin"
    );
    desk.done(BinDocument);
    desk.ask(PurgeDocument {
        binned_before: Timestamp(i64::MAX),
    })
    .unwrap();
    assert!(desk.document.is_vacant());
    assert_eq!(
        desk.ask(RestoreDocument).unwrap_err(),
        DocumentError::NotFound
    );
}

#[test]
fn an_owner_erases_what_is_in_the_bin_and_nobody_else_does() {
    let mut desk = Desk::new("one\n");
    let (viewer, stranger) = (desk.user(), desk.user());
    desk.done(GrantRole {
        user: viewer,
        role: DocumentRole::Viewer,
        email: None,
    });
    desk.done(BinDocument);
    for (user, refusal) in [
        (viewer, DocumentError::Forbidden),
        (stranger, DocumentError::NotFound),
    ] {
        let asked = desk.ask_as(Requester::User(user), None, EraseFromBin);
        assert_eq!(asked.unwrap_err(), refusal);
    }
    desk.ask(EraseFromBin).unwrap();
    assert!(desk.document.is_vacant());
}

#[test]
fn a_role_is_asked_before_anything_is_computed() {
    let mut desk = Desk::new("one\n");
    let (viewer, stranger) = (desk.user(), desk.user());
    desk.done(GrantRole {
        user: viewer,
        role: DocumentRole::Viewer,
        email: None,
    });
    let write = || update(json!({"content": "two\n"}));
    assert_eq!(
        desk.ask_as(Requester::User(viewer), None, write())
            .unwrap_err(),
        DocumentError::Forbidden
    );
    assert_eq!(
        desk.ask_as(Requester::User(stranger), None, write())
            .unwrap_err(),
        DocumentError::NotFound
    );
    desk.done(ChangeRole {
        user: viewer,
        role: DocumentRole::Editor,
    });
    desk.ask_as(Requester::User(viewer), None, write()).unwrap();
    assert_eq!(desk.live().facts.updated_by, Some(viewer));
    desk.tenant = Tenant::of(2, Mode::Live);
    assert_eq!(
        desk.ask(write()).unwrap_err(),
        DocumentError::NotFound,
        "another account's"
    );
}

#[test]
fn a_link_opens_until_it_is_used_up_switched_off_or_taken_back() {
    let mut desk = Desk::new("one\n");
    let made = desk.share(json!({"max_uses": 2}), [1; 32]);
    assert_eq!(made["url"], Value::Null, "what is kept shows no link");
    let share: ShareId = made["share_id"].as_str().unwrap().parse().unwrap();
    desk.open([1; 32]).unwrap();
    assert_eq!(desk.open([2; 32]).unwrap_err(), DocumentError::NotFound);
    desk.done::<SetPermissions>(body(json!({"link_sharing": false})));
    assert_eq!(desk.open([1; 32]).unwrap_err(), DocumentError::NotFound);
    assert_eq!(
        desk.ask(UseShare { share }).unwrap_err(),
        DocumentError::NotFound
    );
    desk.done::<SetPermissions>(body(json!({"link_sharing": true})));
    let (sequence, events) = (desk.live().sequence, desk.events.len());
    desk.done(UseShare { share });
    desk.done(UseShare { share });
    assert_eq!(
        (desk.live().sequence, desk.events.len()),
        (sequence, events),
        "a use is no event"
    );
    assert_eq!(
        desk.ask(UseShare { share }).unwrap_err(),
        DocumentError::NotFound
    );
    assert_eq!(desk.open([1; 32]).unwrap_err(), DocumentError::NotFound);
    let other = desk.share(json!({}), [3; 32]);
    desk.done(RemoveShare {
        share: other["share_id"].as_str().unwrap().parse().unwrap(),
    });
    assert_eq!(desk.open([3; 32]).unwrap_err(), DocumentError::NotFound);
}

#[test]
fn comments_follow_their_lines_or_are_outdated() {
    let mut desk = Desk::new("a\nb\nc\n");
    for line in [1, 3] {
        desk.comment(json!({"start_line": line, "body": "hm"}))
            .unwrap();
    }
    let beyond = desk.comment(json!({"start_line": 4, "body": "hm"}));
    assert!(matches!(beyond, Err(DocumentError::Invalid(_))));
    desk.done(update(json!({"content": "new\na\nb\nchanged\n"})));
    let head = desk.live().facts.head_id;
    let shown: Vec<_> = desk
        .live()
        .comments
        .iter()
        .map(|(comment, anchor)| desk.live().shown(comment, anchor))
        .collect();
    let [first, second] = &shown[..] else {
        panic!("two comments")
    };
    assert_eq!(
        (first.start_line, first.outdated, first.version),
        (2, false, head)
    );
    assert_eq!((second.start_line, second.outdated), (3, true));
}

#[test]
fn one_more_version_copies_none_of_those_before() {
    let mut desk = Desk::new("one\n");
    desk.version(json!({"content": "x\n"}));
    let held = Arc::as_ptr(&desk.live().versions);
    for n in 0..100 {
        desk.version(json!({"content": format!("{n}\n")}));
        assert_eq!(
            Arc::as_ptr(&desk.live().versions),
            held,
            "the list was copied"
        );
    }
    assert_eq!(
        (desk.live().versions.len(), desk.head().as_str()),
        (102, "99\n")
    );
}
