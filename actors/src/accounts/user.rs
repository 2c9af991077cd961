//! A user: an agent or author of an account, in whose name keys may act; or an operator, who belongs
//! to no account. How they sign in to the console: `sign_in.rs`.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Identity;
use super::record::{
    CommandContext, DeleteRecord, Deletion, NewRecord, Outcome, RecordError, RecordRequest,
    RecordSpec, Secret, to_json,
};
use super::sign_in::{SignIn, token_holder};
use colloquy_model::answer::{Answer, Invalid};
use colloquy_model::commit::{Chore, Condition, Effect, NameField, RecordName};
use colloquy_model::entity::Kind;
use colloquy_model::id::UserKind;
use colloquy_model::present::present;
use colloquy_model::sequence::Sequence;
use colloquy_model::text::{Email, Name};
use colloquy_model::user::{KnownUser, OperatorView, Role, UserView};

/// Makes a user.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// A name for people to read; nothing depends on it.
    pub name: Name,
    /// Unique in the account.
    pub email: Email,
    /// What the user may do.
    pub role: Role,
}

/// Changes a user.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeUser {
    /// A name for people to read; nothing depends on it.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub name: Option<Name>,
    /// Unique in the account.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub email: Option<Email>,
    /// What the user may do.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub role: Option<Role>,
}

/// A user as its record is stored: with what the user signs in by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct User {
    #[serde(flatten)]
    pub(super) view: UserView,
    /// Belongs to no account, and has a name in the place of an e-mail address.
    #[serde(default)]
    is_operator: bool,
    #[serde(default)]
    pub(super) sign_in: SignIn,
    /// How often what is shown has changed: signing in changes no entity tag.
    #[serde(default)]
    changes: u64,
}

/// Makes an operator: a person who signs in to the operators' side of the console, once invited.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateOperator {
    /// By which the operator signs in; unique, whatever its case.
    pub name: Name,
}

impl User {
    fn new(view: UserView, is_operator: bool) -> Self {
        User {
            view,
            is_operator,
            sign_in: SignIn::default(),
            changes: 0,
        }
    }

    /// An operator of this name.
    pub(super) fn operator(name: String, context: &CommandContext<User>) -> Self {
        let made = context.id.created_at();
        let view = UserView {
            user_id: context.id,
            email: name.clone(),
            name,
            role: Role::Admin,
            created_at: made,
            updated_at: made,
        };
        User::new(view, true)
    }

    /// The user as the view of who may come in holds it.
    pub(super) fn known(&self) -> KnownUser {
        KnownUser {
            role: self.view.role,
            name: self.view.name.clone(),
            sign_in_name: self.view.email.to_lowercase(),
            password: self.sign_in.password(),
            invitation: self.sign_in.invitation(),
            bounds: self.sign_in.bounds.clone(),
            sessions: self.sign_in.sessions().to_vec(),
        }
    }
}

/// Whether a character is not seen, or changes how others are.
fn is_unseen(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

impl RecordRequest<User> for CreateUser {
    type Reply = Answer;

    fn decide(self, _: &User, _: &CommandContext<User>) -> Result<Outcome<User>, RecordError> {
        Err(RecordError::NotFound)
    }

    fn decide_vacant(self, context: &CommandContext<User>) -> Result<NewRecord<User>, RecordError> {
        let made = context.id.created_at();
        let view = UserView {
            user_id: context.id,
            name: self.name.into_string(),
            email: self.email.into_string(),
            role: self.role,
            created_at: made,
            updated_at: made,
        };
        Ok(NewRecord::new(User::new(view, false)))
    }
}

impl RecordRequest<User> for CreateOperator {
    type Reply = Answer;

    fn decide(self, _: &User, _: &CommandContext<User>) -> Result<Outcome<User>, RecordError> {
        Err(RecordError::NotFound)
    }

    fn decide_vacant(self, context: &CommandContext<User>) -> Result<NewRecord<User>, RecordError> {
        let name = self.name.into_string();
        // As the sign-in takes it; what nobody can see would pass for another name.
        if name.trim() != name || name.is_empty() || name.chars().any(is_unseen) {
            return Err(RecordError::Invalid(Invalid::new(
                "name",
                "must have no blanks around it and no control characters",
            )));
        }
        let operator = User::operator(name, context);
        Ok(NewRecord::new(operator))
    }
}

impl RecordRequest<User> for ChangeUser {
    type Reply = Answer;

    fn decide(
        self,
        held: &User,
        context: &CommandContext<User>,
    ) -> Result<Outcome<User>, RecordError> {
        let mut user = held.clone();
        let view = &mut user.view;
        if let Some(name) = self.name {
            view.name = name.into_string();
        }
        if let Some(email) = self.email {
            view.email = email.into_string();
        }
        view.role = self.role.unwrap_or(view.role);
        if user == *held {
            return Ok(Outcome::Show);
        }
        user.view.updated_at = context.now.max(held.view.updated_at);
        user.changes += 1;
        Ok(Outcome::Put(user, Vec::new()))
    }
}

/// A user is deleted who owns no document; assignments read as null from the answer on.
impl RecordRequest<User> for DeleteRecord {
    type Reply = Answer;

    fn decide(
        self,
        held: &User,
        context: &CommandContext<User>,
    ) -> Result<Outcome<User>, RecordError> {
        if context.id == token_holder() {
            return Err(RecordError::InUse {
                reason: "whoever has the operator token is an operator",
            });
        }
        let unassign = Chore::Unassign(context.tenant, context.id);
        Ok(Outcome::Delete(Deletion {
            conditions: vec![Condition::NoDocuments(context.id)],
            effects: vec![Effect::UserGone(context.tenant, context.id)],
            chore: (!held.is_operator).then_some(unassign),
        }))
    }
}

impl RecordSpec for User {
    const KIND: Kind = Kind::User;
    const NAME: &'static str = "user";
    type Named = UserKind;

    fn show(&self, _: &Identity, _: Secret<'_>) -> Bytes {
        if self.is_operator {
            return to_json(&OperatorView {
                operator_id: self.view.user_id,
                name: &self.view.name,
                created_at: self.view.created_at,
                updated_at: self.view.updated_at,
            });
        }
        to_json(&self.view)
    }

    fn tag(&self, _: Sequence) -> String {
        // From 1 on, as a record's sequences count.
        (self.changes + 1).to_string()
    }

    fn label(&self) -> &str {
        &self.view.name
    }

    fn names(&self) -> Vec<RecordName> {
        vec![RecordName {
            field: NameField::UserEmail,
            value: self.view.email.to_lowercase(),
        }]
    }

    fn effects(&self, _: Option<&Self>, context: &CommandContext<Self>) -> Vec<Effect> {
        let known = Box::new(self.known());
        vec![Effect::User(context.tenant, self.view.user_id, known)]
    }
}
