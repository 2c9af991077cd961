//! One WebSocket in frames: what comes is acted on in its order, sends apart, which run side by
//! side; what goes is made when there is room for it. Knows no bytes and no connection.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use colloquy_actors::conversation::messages::CheckReadable;
use colloquy_actors::feed::{EventReader, Falling, Followed, ReadEnd};
use colloquy_actors::realtime::{Connection, Presence, Signal as SentSignal};
use colloquy_model::command::CommandMeta;
use colloquy_model::conversation_access::{ConversationAccess, Reach};
use colloquy_model::event_filter::EventFilter;
use colloquy_model::event_source::EventSource;
use colloquy_model::id::{ConversationId, UserId};
use colloquy_model::sequence::Sequence;
use colloquy_model::stream::FeedNumber;
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::super::app_state::AppState;
use super::super::authentication;
use super::super::problem::{Kind, Problem};
use super::access_watch::{AccessEnd, AccessWatch, ConnectionAuth, Visibility};
use super::inbound_messages::{InboundMessage, InboundMessages, SocketPeer};
use super::json_frames::{self, Frame, Frames, SubscriptionTarget, Unreadable};
use super::limits::FrameBytes;
use super::narrowing::{Narrowing, Verdict};
use super::subscriptions::{Delivery, Subscriptions};

/// Why a session ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// Its reader can't keep up, or what it reads can't be read on: it may come again with where it
    /// stands.
    Reconnect,
    /// The server is stopping.
    ServerStopping,
    /// It shows what its key may not see any more.
    AccessRevoked,
    /// What comes next can't be read, however often it comes again.
    Unreadable,
}

/// What a frame needed to find out; the next one is read only after it.
enum Step {
    Subscribed(Box<Opened>),
    /// The account's is unsubscribed; these are read on by themselves.
    Alone(Vec<(ConversationId, EventReader)>),
    /// The conversation is there.
    Found(ConversationId, Signal),
    Refused(Problem),
}

/// A subscription that is about to begin.
struct Opened {
    target: SubscriptionTarget,
    after: StreamOffset,
    reader: EventReader,
    shows: Visibility,
    narrowing: Narrowing,
}

/// What other participants are told without being stored.
#[derive(Debug, Clone, Copy)]
enum Signal {
    Typing,
    Presence(UserId, Presence),
}

/// One WebSocket's session: its subscriptions, what it sends, and what it is told.
pub(crate) struct Session {
    peer: Rc<SocketPeer>,
    access: AccessWatch,
    /// The conversations of which it has been shown anything, or may be.
    reads: Reach,
    /// What the account's subscription shows.
    account_shows: Visibility,
    connection: Connection,
    subscriptions: Subscriptions,
    sends: InboundMessages,
    step: Option<LocalBoxFuture<'static, Step>>,
    /// A signal, until it is known whether it may be heard.
    hearing: Option<LocalBoxFuture<'static, Option<SentSignal>>>,
}

impl Session {
    pub(crate) fn new(app: Arc<AppState>, auth: ConnectionAuth) -> Self {
        let connection = app.system.connections.enter(auth.caller.tenant);
        let access = AccessWatch::new(Arc::clone(&app), auth.clone(), Visibility::Nothing);
        let caller = auth.caller.clone();
        let reads = auth.reads;
        Session {
            peer: Rc::new(SocketPeer { app, auth, caller }),
            access,
            reads,
            account_shows: Visibility::Nothing,
            connection,
            subscriptions: Subscriptions::default(),
            sends: InboundMessages::default(),
            step: None,
            hearing: None,
        }
    }

    /// Waits until what it shows may be shown no more, or the server stops.
    pub(super) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<SessionEnd> {
        self.access.poll_end(context).map(|end| match end {
            AccessEnd::Revoked => SessionEnd::AccessRevoked,
            AccessEnd::ServerStopping => SessionEnd::ServerStopping,
        })
    }

    /// What it shows has changed.
    fn shows(&mut self) {
        let follows_conversations =
            self.subscriptions.count() > 0 || self.connection.conversations() > 0;
        let shows = if follows_conversations {
            Visibility::Conversations
        } else {
            Visibility::Nothing
        };
        self.access.show(shows.max(self.account_shows));
    }

    /// Whether another frame may come.
    pub(super) fn listens(&self) -> bool {
        self.step.is_none() && self.sends.count() < self.peer.app.realtime_limits.sends_max
    }

    /// Whether a message is under way.
    pub(super) fn sends(&self) -> bool {
        self.sends.count() > 0
    }

    /// Takes in a frame of the client; an answer may come at once or later.
    pub(super) fn receive(&mut self, text: &Bytes, held: Option<FrameBytes>, to: &mut impl Frames) {
        match json_frames::read(text) {
            Ok(frame) => {
                if let Err(problem) = self.act(frame, held, to) {
                    json_frames::error(to, None, &problem);
                }
            }
            Err(Unreadable { reference, problem }) => {
                json_frames::error(to, reference.as_deref(), &problem)
            }
        }
    }

    fn act(
        &mut self,
        frame: Frame,
        held: Option<FrameBytes>,
        to: &mut impl Frames,
    ) -> Result<(), Problem> {
        match frame {
            Frame::Subscribe(target, after) => self.subscribe(target, after),
            Frame::Unsubscribe(target) => self.unsubscribe(target, to),
            Frame::Send {
                reference,
                conversation,
                message,
            } => {
                self.sends.add(
                    &self.peer,
                    InboundMessage {
                        reference,
                        conversation,
                        message,
                        held,
                    },
                );
                Ok(())
            }
            Frame::Typing(conversation) => self.tell(conversation, Signal::Typing),
            Frame::Presence(conversation, named, presence) => {
                let wrong = |reason: &'static str| Problem::invalid("user_id", reason);
                let user = self
                    .peer
                    .caller
                    .actor
                    .user
                    .ok_or_else(|| wrong("the socket was opened for no user"))?;
                if named.is_some_and(|named| named != user) {
                    return Err(wrong("must be the user for whom the socket was opened"));
                }
                let full = self.connection.conversations()
                    > self.peer.app.realtime_limits.subscriptions_max;
                if full && !self.connection.is_in(conversation) && presence != Presence::Offline {
                    return Err(Problem::new(
                        Kind::Conflict,
                        "the socket is present in too many conversations",
                    ));
                }
                self.tell(conversation, Signal::Presence(user, presence))
            }
            Frame::Ping => {
                json_frames::pong(to);
                Ok(())
            }
            Frame::Pong => Ok(()),
        }
    }

    /// Which conversations it may read: never more than those that it began with, of which its
    /// subscriptions are.
    fn may_read(&mut self) -> Result<Reach, Problem> {
        let auth = &self.peer.auth;
        let principal = auth.principal(&self.peer.app, Timestamp::now());
        authentication::check_is_current(&self.peer.app)?;
        let now = principal.map_or(Reach::Nothing, |principal| auth.access(&principal).reads);
        if self.reads == Reach::Nothing {
            self.reads = now;
            self.access.read(now);
        }
        match now {
            Reach::Nothing => Err(Problem::forbidden("the key is not allowed this scope")),
            Reach::All | Reach::AssignedTo(_) if now.covers(self.reads) => Ok(self.reads),
            Reach::All | Reach::AssignedTo(_) => Ok(now),
        }
    }

    fn subscribe(
        &mut self,
        target: SubscriptionTarget,
        after: Option<StreamOffset>,
    ) -> Result<(), Problem> {
        let reads = self.may_read()?;
        if self.subscriptions.has(target) {
            return Err(Problem::new(
                Kind::Conflict,
                "the socket has this subscription already",
            ));
        }
        if self.subscriptions.count() >= self.peer.app.realtime_limits.subscriptions_max {
            return Err(Problem::new(
                Kind::Conflict,
                "the socket has too many subscriptions",
            ));
        }
        let peer = Rc::clone(&self.peer);
        let opened = async move {
            let narrowing = peer.narrowing(target, reads).await?;
            let after = match after {
                Some(after) => after,
                None => {
                    let events = &peer.app.system.events;
                    events.end(peer.caller.tenant, source(target)).await?
                }
            };
            let (reader, shows) = follow(&peer, target, after).await?;
            Ok(Step::Subscribed(Box::new(Opened {
                target,
                after,
                reader,
                shows,
                narrowing,
            })))
        };
        self.step = Some(
            opened
                .map(|step| step.unwrap_or_else(Step::Refused))
                .boxed_local(),
        );
        Ok(())
    }

    fn unsubscribe(
        &mut self,
        target: SubscriptionTarget,
        to: &mut impl Frames,
    ) -> Result<(), Problem> {
        if !self.subscriptions.has(target) {
            return Err(Problem::new(
                Kind::NotFound,
                "the socket has no such subscription",
            ));
        }
        if let SubscriptionTarget::Entity(id) = target {
            self.subscriptions.remove(id);
            self.connection.unlisten(id);
            self.shows();
            json_frames::subscription(to, "unsubscribed", target, None);
            return Ok(());
        }
        self.connection.unlisten_to_all();
        let pending = self.subscriptions.remove_account();
        self.account_shows = Visibility::Nothing;
        self.shows();
        let peer = Rc::clone(&self.peer);
        let read_on = async move {
            let mut readers = Vec::with_capacity(pending.len());
            for (id, after) in pending {
                match follow(&peer, SubscriptionTarget::Entity(id), after.into()).await {
                    Ok((reader, _)) => readers.push((id, reader)),
                    Err(problem) => return Step::Refused(problem),
                }
            }
            Step::Alone(readers)
        };
        self.step = Some(read_on.boxed_local());
        Ok(())
    }

    /// Tells others something of a conversation, once it is known to be there.
    fn tell(&mut self, conversation: ConversationId, signal: Signal) -> Result<(), Problem> {
        let reads = self.may_read()?;
        let target = SubscriptionTarget::Entity(conversation);
        if reads == Reach::All && self.subscriptions.has(target) {
            return self.pass_on(conversation, signal);
        }
        let peer = Rc::clone(&self.peer);
        let found = async move {
            let asked = peer.find(conversation, reads).await;
            asked.map_or_else(Step::Refused, |_| Step::Found(conversation, signal))
        };
        self.step = Some(found.boxed_local());
        Ok(())
    }

    fn pass_on(&mut self, conversation: ConversationId, signal: Signal) -> Result<(), Problem> {
        match signal {
            Signal::Typing => self
                .connection
                .typing(conversation, self.peer.caller.actor.user),
            Signal::Presence(user, presence) => {
                let said = self.connection.say(conversation, user, presence);
                said.map_err(|_| {
                    Problem::new(
                        Kind::Conflict,
                        "the account is present in too many conversations",
                    )
                })?;
                self.shows();
            }
        }
        Ok(())
    }

    /// Goes on with whatever can go on.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        to: &mut impl Frames,
    ) -> Poll<Result<(), SessionEnd>> {
        if let Some(step) = &mut self.step
            && let Poll::Ready(done) = step.poll_unpin(context)
        {
            self.step = None;
            self.done(done, to);
            return Poll::Ready(Ok(()));
        }
        if self.poll_sends(context, to).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if let Poll::Ready(heard) = self.poll_signals(context, to) {
            return Poll::Ready(heard);
        }
        self.subscriptions.poll(context).map(|read| match read {
            // What has come was committed before this look: nothing is shown that came after a
            // right was gone.
            Ok(_) if !self.access.holds() => Err(SessionEnd::AccessRevoked),
            Ok(delivery) => self.deliver(delivery, to),
            Err(ReadEnd::Closed) => Err(SessionEnd::ServerStopping),
            Err(
                ReadEnd::TooSlow
                | ReadEnd::Expired
                | ReadEnd::Gone
                | ReadEnd::Complete
                | ReadEnd::Away,
            ) => Err(SessionEnd::Reconnect),
            Err(ReadEnd::Unreadable) => Err(SessionEnd::Unreadable),
        })
    }

    /// Shows an event that may be shown; a subscription that ends with it holds nothing any more.
    fn deliver(&mut self, delivery: Delivery, to: &mut impl Frames) -> Result<(), SessionEnd> {
        if let Some(conversation) = delivery.ended {
            self.connection.unlisten(conversation);
            self.shows();
        }
        match delivery.verdict {
            Verdict::Shown => {
                json_frames::event(to, &delivery.event, delivery.cursor);
                Ok(())
            }
            Verdict::Hidden => Ok(()),
            Verdict::Taken => Err(SessionEnd::AccessRevoked),
        }
    }

    /// Goes on with what others tell. Who reads a user's conversations only hears of a conversation
    /// while it is that user's, which the conversation is asked.
    fn poll_signals(
        &mut self,
        context: &mut Context<'_>,
        to: &mut impl Frames,
    ) -> Poll<Result<(), SessionEnd>> {
        let heard = match &mut self.hearing {
            Some(hearing) => ready!(hearing.poll_unpin(context)),
            None => match ready!(self.connection.poll_signal(context)) {
                Some(sign) if self.reads != Reach::All => {
                    let (peer, reads) = (Rc::clone(&self.peer), self.reads);
                    let asked = async move {
                        let found = peer.find(sign.conversation(), reads).await;
                        found.is_ok().then_some(sign)
                    };
                    self.hearing = Some(asked.boxed_local());
                    return Poll::Ready(Ok(()));
                }
                Some(sign) => Some(sign),
                None => return Poll::Ready(Err(SessionEnd::Reconnect)),
            },
        };
        self.hearing = None;
        Poll::Ready(match heard {
            Some(_) if !self.access.holds() => Err(SessionEnd::AccessRevoked),
            Some(sign) => {
                json_frames::sign(to, sign);
                Ok(())
            }
            None => Ok(()),
        })
    }

    /// Goes on with messages that are under way.
    pub(super) fn poll_sends(
        &mut self,
        context: &mut Context<'_>,
        to: &mut impl Frames,
    ) -> Poll<()> {
        self.sends
            .poll(&self.peer, context)
            .map(|sent| match sent.outcome {
                Ok(message) => json_frames::ack(to, &sent.reference, &message),
                Err(problem) => json_frames::error(to, Some(&sent.reference), &problem),
            })
    }

    fn done(&mut self, step: Step, to: &mut impl Frames) {
        match step {
            Step::Subscribed(opened) => {
                let (target, after) = (opened.target, opened.after);
                self.begin(*opened);
                json_frames::subscription(to, "subscribed", target, Some(after));
            }
            Step::Alone(readers) => {
                for (id, reader) in readers {
                    self.subscriptions.read_again(id, reader);
                }
                json_frames::subscription(to, "unsubscribed", SubscriptionTarget::Account, None);
            }
            Step::Found(conversation, signal) => {
                if let Err(problem) = self.pass_on(conversation, signal) {
                    json_frames::error(to, None, &problem);
                }
            }
            Step::Refused(problem) => json_frames::error(to, None, &problem),
        }
    }
}

impl Session {
    fn begin(&mut self, opened: Opened) {
        let Opened {
            target,
            after,
            reader,
            shows,
            narrowing,
        } = opened;
        match target {
            SubscriptionTarget::Entity(id) => {
                let after = Sequence(after.0);
                self.subscriptions.add(id, after, reader, narrowing);
                self.connection.listen(id);
            }
            SubscriptionTarget::Account => {
                let after = FeedNumber(after.0);
                self.subscriptions.add_account(after, reader, narrowing);
                self.connection.listen_to_all();
                self.account_shows = shows;
            }
        }
        self.shows();
    }
}

impl SocketPeer {
    /// Where the log of a conversation stands, if it is among these.
    async fn find(&self, id: ConversationId, reads: Reach) -> Result<Sequence, Problem> {
        let writes = Reach::Nothing;
        let meta = CommandMeta {
            access: ConversationAccess { reads, writes },
            ..CommandMeta::new(self.caller.clone())
        };
        let conversations = &self.app.system.conversations;
        Ok(conversations.ask(id, meta, CheckReadable).await?)
    }

    /// What a subscription shows to somebody who may read these conversations.
    async fn narrowing(
        &self,
        target: SubscriptionTarget,
        reads: Reach,
    ) -> Result<Narrowing, Problem> {
        Ok(match (target, reads) {
            (SubscriptionTarget::Account, _) => Narrowing::of_account(reads),
            // What is not there is found out where it is read.
            (SubscriptionTarget::Entity(_), Reach::All) => Narrowing::Unnarrowed,
            (SubscriptionTarget::Entity(id), Reach::AssignedTo(_) | Reach::Nothing) => {
                let readable_to = self.find(id, reads).await?;
                Narrowing::of_conversation(reads, Some(readable_to))
            }
        })
    }
}

fn source(target: SubscriptionTarget) -> EventSource {
    match target {
        SubscriptionTarget::Account => EventSource::Account,
        SubscriptionTarget::Entity(id) => EventSource::conversation(id),
    }
}

async fn follow(
    peer: &SocketPeer,
    target: SubscriptionTarget,
    after: StreamOffset,
) -> Result<(EventReader, Visibility), Problem> {
    let events = &peer.app.system.events;
    let (mut filter, mut shows) = (EventFilter::default(), Visibility::Conversations);
    if target == SubscriptionTarget::Account {
        let principal = peer.auth.principal(&peer.app, Timestamp::now());
        let principal =
            principal.ok_or_else(|| Problem::forbidden("the key is not allowed this scope"))?;
        authentication::check_is_current(&peer.app)?;
        let visible = authentication::visible_events(&peer.app, &principal, &peer.caller);
        filter.kinds = visible.kinds();
        shows = Visibility::Account(visible);
    }
    let followed = Followed {
        tenant: peer.caller.tenant,
        source: source(target),
        filter,
        after,
        falling: Falling::Out,
    };
    Ok((events.follow(followed).await?, shows))
}
