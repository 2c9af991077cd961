//! The table of roles and actions, and that no change of permissions leaves a document without its
//! owner.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use proptest::prelude::*;

use super::DocumentRole::{Commenter, Editor, Owner, Viewer};
use super::*;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::ShareId;

const NOW: Timestamp = Timestamp(1_000);

/// The n-th user of these tests; the first eight are users of the account.
fn user(n: u64) -> UserId {
    UserId::from_parts(EntityNumber(1 << 40), n)
}

fn is_user(id: UserId) -> bool {
    id.tail() < 8
}

fn one(n: u64, role: DocumentRole) -> Collaborator {
    Collaborator {
        user_id: user(n),
        role,
        added_at: NOW,
    }
}

fn shared() -> Permissions {
    let mut set = Permissions::of_new(Some(user(0)));
    set.collaborators = vec![one(1, Viewer), one(2, Commenter), one(3, Editor)];
    set
}

#[test]
fn each_role_may_what_section_8_says_and_nothing_more() {
    use Action::*;
    let viewer = [
        Read,
        ListVersions,
        ReadVersion,
        Diff,
        ListCollaborators,
        ListComments,
        ListActivity,
    ];
    let commenter = [AddComment, ChangeComment, DeleteComment];
    let editor = [Update, AddVersion, RestoreVersion, Merge];
    let roles = [
        (user(9), None),
        (user(1), Some(Viewer)),
        (user(2), Some(Commenter)),
        (user(3), Some(Editor)),
    ];
    for (requester, role) in roles.into_iter().chain([(user(0), Some(Owner))]) {
        for action in Action::ALL {
            let least = match action {
                action if viewer.contains(action) => Viewer,
                action if commenter.contains(action) => Commenter,
                action if editor.contains(action) => Editor,
                _ => Owner,
            };
            let wanted = match role {
                None => Err(Denied::NotFound),
                Some(role) if role >= least => Ok(role),
                Some(role) => Err(Denied::Forbidden(role)),
            };
            assert_eq!(
                allow(*action, Requester::User(requester), &shared()),
                wanted,
                "{role:?} {action:?}"
            );
        }
    }
}

#[test]
fn the_account_is_owner_of_all_and_visibility_opens_to_the_account_only() {
    let mut set = shared();
    assert_eq!(role_of(Requester::Account(None), &set), Some(Owner));
    assert_eq!(
        role_of(Requester::Account(Some(user(1))), &set),
        Some(Owner)
    );
    assert_eq!(role_of(Requester::User(user(7)), &set), None);
    (set.visibility, set.default_role) = (Visibility::Account, Commenter);
    let roles = [0, 1, 2, 3, 7].map(|n| role_of(Requester::User(user(n)), &set).unwrap());
    assert_eq!(roles, [Owner, Commenter, Commenter, Editor, Commenter]);
    set.visibility = Visibility::Private;
    assert_eq!(role_of(Requester::User(user(7)), &set), None);
}

#[test]
fn a_link_gives_its_role_while_links_are_allowed_and_never_ownership() {
    let mut set = shared();
    let roles = [Viewer, Commenter, Editor, Owner]
        .map(|role| role_of(Requester::Link(role, ShareId::new(Timestamp(1))), &set).unwrap());
    assert_eq!(roles, [Viewer, Commenter, Editor, Editor]);
    set.link_sharing = false;
    assert_eq!(
        allow(
            Action::Read,
            Requester::Link(Editor, ShareId::new(Timestamp(1))),
            &set
        ),
        Err(Denied::NotFound)
    );
}

#[test]
fn a_comment_is_its_authors_own() {
    assert!(is_own_comment(Requester::User(user(1)), Some(user(1))));
    assert!(is_own_comment(
        Requester::Account(Some(user(1))),
        Some(user(1))
    ));
    assert!(!is_own_comment(Requester::User(user(1)), Some(user(2))));
    assert!(!is_own_comment(Requester::Account(None), None));
    assert!(!is_own_comment(
        Requester::Link(Editor, ShareId::new(Timestamp(1))),
        None
    ));
}

#[test]
fn a_collaborator_is_added_once_and_must_be_a_user() {
    let set = shared();
    let added = set.with(one(5, Editor), is_user).unwrap();
    assert_eq!(added.collaborators.last(), Some(&one(5, Editor)));
    assert_eq!(
        set.with(one(1, Editor), is_user),
        Err(PermissionError::AddedTwice)
    );
    assert_eq!(
        set.with(one(0, Editor), is_user),
        Err(PermissionError::AddedTwice)
    );
    assert_eq!(
        set.with(one(9, Editor), is_user),
        Err(invalid("user_id", NO_USER))
    );
    assert_eq!(
        set.with(one(5, Owner), is_user),
        Err(invalid("role", BY_TRANSFER))
    );
}

#[test]
fn the_owner_is_not_taken_away_nor_made_less() {
    let set = shared();
    assert_eq!(set.without(user(0)), Err(PermissionError::OwnerStays));
    assert_eq!(
        set.with_role(user(0), Editor),
        Err(PermissionError::OwnerStays)
    );
    assert_eq!(set.with_role(user(0), Owner), Ok(set.clone()));
    assert_eq!(set.without(user(6)), Err(PermissionError::NotACollaborator));
    assert_eq!(
        set.with_role(user(6), Editor),
        Err(PermissionError::NotACollaborator)
    );
    assert_eq!(
        set.with_role(user(1), Owner),
        Err(invalid("role", BY_TRANSFER))
    );
    assert_eq!(set.without(user(1)).unwrap().collaborators.len(), 2);
    assert_eq!(
        set.with_role(user(1), Editor).unwrap().collaborators[0].role,
        Editor
    );
}

#[test]
fn what_is_left_out_stays_and_what_is_given_replaces() {
    let set = shared();
    assert_eq!(
        set.changed(&PermissionChange::default(), Timestamp(9), is_user),
        Ok(set.clone())
    );
    let change = PermissionChange {
        collaborators: Some(vec![(user(3), Viewer), (user(4), Editor)]),
        visibility: Some(Visibility::Account),
        ..PermissionChange::default()
    };
    let next = set.changed(&change, Timestamp(9), is_user).unwrap();
    let listed: Vec<_> = next
        .collaborators
        .iter()
        .map(|one| (one.user_id, one.role, one.added_at.0))
        .collect();
    assert_eq!(listed, [(user(3), Viewer, NOW.0), (user(4), Editor, 9)]);
    assert_eq!(
        (next.default_role, next.link_sharing, next.owner),
        (Viewer, true, Some(user(0)))
    );
}

#[test]
fn ownership_moves_by_transfer_and_the_owner_before_stays_as_an_editor() {
    let change = |to| PermissionChange {
        transfer_owner_to: Some(to),
        ..PermissionChange::default()
    };
    let next = shared().changed(&change(user(3)), NOW, is_user).unwrap();
    assert_eq!(next.owner, Some(user(3)));
    assert_eq!(role_of(Requester::User(user(0)), &next), Some(Editor));
    assert_eq!(next.collaborator(user(3)), None);
    assert_eq!(
        shared().changed(&change(user(0)), NOW, is_user),
        Ok(shared())
    );
    assert_eq!(
        shared().changed(&change(user(8)), NOW, is_user),
        Err(invalid("transfer_owner_to", NO_USER))
    );
    let accounts = Permissions::of_new(None)
        .changed(&change(user(1)), NOW, is_user)
        .unwrap();
    assert_eq!(
        (accounts.owner, accounts.collaborators.len()),
        (Some(user(1)), 0)
    );
}

#[test]
fn a_list_that_can_not_be_taken_is_refused_whole() {
    let owner_twice = [(user(1), Viewer), (user(1), Editor)];
    let lists: [&[(UserId, DocumentRole)]; 4] = [
        &owner_twice,
        &[(user(8), Viewer)],
        &[(user(0), Editor)],
        &[(user(1), Owner)],
    ];
    for list in lists {
        let change = PermissionChange {
            collaborators: Some(list.to_vec()),
            ..PermissionChange::default()
        };
        let refused = shared().changed(&change, NOW, is_user);
        assert!(
            matches!(
                refused,
                Err(PermissionError::Invalid {
                    field: "collaborators",
                    ..
                })
            ),
            "{refused:?}"
        );
    }
}

#[derive(Debug, Clone)]
enum Ask {
    Add(u64, DocumentRole),
    Role(u64, DocumentRole),
    Remove(u64),
    Forget(u64),
    Change(PermissionChange),
}

fn asks() -> impl Strategy<Value = Ask> {
    let role = || prop::sample::select(vec![Viewer, Commenter, Editor, Owner]);
    let visibility = proptest::option::of(prop::sample::select(vec![
        Visibility::Private,
        Visibility::Account,
    ]));
    let list = proptest::collection::vec(
        (0..9_u64, role()).prop_map(|(n, role)| (user(n), role)),
        0..4,
    );
    let change = (
        visibility,
        proptest::option::of(role()),
        proptest::option::of(list),
        proptest::option::of(any::<bool>()),
        proptest::option::of((0..9_u64).prop_map(user)),
    );
    prop_oneof![
        (0..9_u64, role()).prop_map(|(n, role)| Ask::Add(n, role)),
        (0..9_u64, role()).prop_map(|(n, role)| Ask::Role(n, role)),
        (0..9_u64).prop_map(Ask::Remove),
        (0..9_u64).prop_map(Ask::Forget),
        change.prop_map(
            |(visibility, default_role, collaborators, link_sharing, transfer_owner_to)| {
                Ask::Change(PermissionChange {
                    visibility,
                    default_role,
                    collaborators,
                    link_sharing,
                    transfer_owner_to,
                })
            }
        ),
    ]
}

proptest! {
    #[test]
    fn whatever_is_asked_there_is_one_owner_and_nobody_is_there_twice(
        first in proptest::option::of(0..8_u64), asked in proptest::collection::vec(asks(), 0..20),
    ) {
        let mut set = Permissions::of_new(first.map(user));
        for ask in asked {
            let before = set.clone();
            let (next, transfer) = match &ask {
                Ask::Add(n, role) => (set.with(one(*n, *role), is_user), None),
                Ask::Role(n, role) => (set.with_role(user(*n), *role), None),
                Ask::Remove(n) => (set.without(user(*n)), None),
                Ask::Forget(n) => (Ok(set.forgetting(user(*n))), None),
                Ask::Change(change) => (set.changed(change, NOW, is_user), change.transfer_owner_to),
            };
            set = next.unwrap_or(set);
            if set != before {
                prop_assert_eq!(set.owner, transfer.or(before.owner));
            }
            if let Some(owner) = set.owner {
                prop_assert_eq!(role_of(Requester::User(owner), &set), Some(Owner));
                prop_assert!(is_user(owner) && set.collaborator(owner).is_none());
            }
            let mut named: Vec<UserId> = set.collaborators.iter().map(|one| one.user_id).collect();
            named.sort_unstable();
            named.dedup();
            prop_assert_eq!(named.len(), set.collaborators.len());
            prop_assert!(set.default_role < Owner && set.collaborators.iter().all(|one| one.role < Owner));
            if let Ask::Change(change) = &ask
                && set != before
            {
                prop_assert_eq!(set.visibility, change.visibility.unwrap_or(before.visibility));
                prop_assert_eq!(set.link_sharing, change.link_sharing.unwrap_or(before.link_sharing));
                prop_assert_eq!(set.default_role, change.default_role.unwrap_or(before.default_role));
            }
        }
    }

    #[test]
    fn a_higher_role_may_all_that_a_lower_one_may(action in prop::sample::select(Action::ALL.to_vec())) {
        let by_role = [1, 2, 3, 0].map(|n| allow(action, Requester::User(user(n)), &shared()).is_ok());
        prop_assert!(by_role.is_sorted());
    }
}
