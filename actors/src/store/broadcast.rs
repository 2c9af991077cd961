//! Small messages from each node of a store to all the others, about what they share and what is
//! committed nowhere. Of each node they are heard in the order in which it said them, each once;
//! what can't be delivered for a few seconds is lost, and who listens is told so.

use colloquy_model::id::NodeId;

/// What nodes tell one another about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// What was spent of limits.
    Limits,
    /// Who types, and who is there.
    Signals,
    /// What operators ask of actors.
    Actors,
    /// Wrong passwords for share links.
    LinkTries,
    /// Wrong passwords for names at sign-in.
    SignInTries,
    /// Requests of this month that count for accounts' quotas.
    Usage,
    /// What keys asked in the last second, for operators.
    KeyRates,
}

impl Topic {
    /// Its name in the store.
    pub(super) fn word(self) -> &'static str {
        match self {
            Topic::Limits => "limits",
            Topic::Signals => "signals",
            Topic::Actors => "actors",
            Topic::LinkTries => "password_tries",
            Topic::SignInTries => "sign_in_tries",
            Topic::Usage => "usage",
            Topic::KeyRates => "key_rates",
        }
    }
}

/// What a node hears of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard<'h> {
    /// It has said this.
    Said(&'h str),
    /// It is heard from now on; what it said before, or some of it, was not.
    Lost,
    /// It is gone, and what it said of itself holds no longer.
    Gone,
}

/// Takes what is heard of another node. It is called on the store's thread and must not wait.
pub type Listener = Box<dyn Fn(NodeId, Heard<'_>) + Send + Sync>;

/// The way from this node to all others of its store.
pub trait Broadcast: Send + Sync + 'static {
    /// The identifier of this node.
    fn node(&self) -> NodeId;

    /// Whether another node may be there that hears what is said.
    fn is_heard(&self) -> bool;

    /// The other nodes that were there when this one last looked.
    fn others(&self) -> Vec<NodeId>;

    /// Tells all others something, soon and without waiting. Where there are none it is dropped.
    fn say(&self, topic: Topic, text: String);

    /// Hands what other nodes say about this to the listener, from now on.
    fn listen(&self, topic: Topic, listener: Listener);
}
