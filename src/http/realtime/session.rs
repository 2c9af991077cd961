//! One WebSocket in frames: what comes is acted on in its order, sends apart, which run side by
//! side; what goes is made when there is room for it. Knows no bytes and no connection.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use colloquy_actors::conversation::messages::Request;
use colloquy_actors::feed::{EventReader, Falling, ReadEnd, Source};
use colloquy_actors::realtime::{Member, Presence};
use colloquy_model::event_filter::EventFilter;
use colloquy_model::id::{ConversationId, UserId};
use colloquy_model::key::Permission;
use colloquy_model::time::Timestamp;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use super::super::credential;
use super::super::edge::Edge;
use super::super::problem::{Kind, Problem};
use super::frames::{self, Frame, Frames, Unreadable};
use super::limits::HeldRoom;
use super::sends::{Line, Send, Sends};
use super::standing::{End, Holder, Shows, Standing};
use super::subscriptions::Subscriptions;

/// Why a session ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// Its reader can't keep up, or what it reads can't be read on: it may come again with where it
    /// stands.
    ComeAgain,
    /// The server is stopping.
    Leaving,
    /// It shows what its key may not see any more.
    Void,
    /// What comes next can't be read, however often it comes again.
    Unreadable,
}

/// What had to be found out before the next frame is read.
enum Step {
    Subscribed(Option<ConversationId>, u64, Box<EventReader>, Shows),
    /// The account's is unsubscribed; these are read on by themselves.
    Alone(Vec<(ConversationId, EventReader)>),
    /// The conversation is there.
    Found(ConversationId, Told),
    Refused(Problem),
}

/// What others are told.
#[derive(Debug, Clone, Copy)]
enum Told {
    Typing,
    Presence(UserId, Presence),
}

/// One WebSocket's session.
pub(crate) struct Session {
    line: Rc<Line>,
    standing: Standing,
    /// What the account's subscription shows.
    account_shows: Shows,
    member: Member,
    subscriptions: Subscriptions,
    sends: Sends,
    step: Option<LocalBoxFuture<'static, Step>>,
}

impl Session {
    pub(crate) fn new(edge: Arc<Edge>, holder: Holder) -> Self {
        let member = edge.system.lines.enter(holder.caller.scope);
        let standing = Standing::new(Arc::clone(&edge), holder.clone(), Shows::Nothing);
        let caller = holder.caller.clone();
        Session {
            line: Rc::new(Line {
                edge,
                holder,
                caller,
            }),
            standing,
            account_shows: Shows::Nothing,
            member,
            subscriptions: Subscriptions::default(),
            sends: Sends::default(),
            step: None,
        }
    }

    /// Waits until what it shows may be shown no more, or the server stops.
    pub(super) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Over> {
        self.standing.poll_end(context).map(|end| match end {
            End::Void => Over::Void,
            End::Leaving => Over::Leaving,
        })
    }

    /// What it shows has changed.
    fn shows(&mut self) {
        let rooms = self.subscriptions.count() > 0 || self.member.rooms() > 0;
        let shows = if rooms {
            Shows::Conversations
        } else {
            Shows::Nothing
        };
        self.standing.show(shows.max(self.account_shows));
    }

    /// Whether another frame may come.
    pub(super) fn listens(&self) -> bool {
        self.step.is_none() && self.sends.count() < self.line.edge.lines.sends_max
    }

    /// Whether a message is under way.
    pub(super) fn sends(&self) -> bool {
        self.sends.count() > 0
    }

    /// Takes in a frame.
    pub(super) fn receive(&mut self, text: &Bytes, held: Option<HeldRoom>, to: &mut impl Frames) {
        match frames::read(text) {
            Ok(frame) => {
                if let Err(problem) = self.act(frame, held, to) {
                    frames::error(to, None, &problem);
                }
            }
            Err(Unreadable { reference, problem }) => {
                frames::error(to, reference.as_deref(), &problem)
            }
        }
    }

    fn act(
        &mut self,
        frame: Frame,
        held: Option<HeldRoom>,
        to: &mut impl Frames,
    ) -> Result<(), Problem> {
        match frame {
            Frame::Subscribe(conversation, after) => self.subscribe(conversation, after),
            Frame::Unsubscribe(conversation) => self.unsubscribe(conversation, to),
            Frame::Send {
                reference,
                conversation,
                message,
            } => {
                self.sends.add(
                    &self.line,
                    Send {
                        reference,
                        conversation,
                        message,
                        held,
                    },
                );
                Ok(())
            }
            Frame::Typing(conversation) => self.tell(conversation, Told::Typing),
            Frame::Presence(conversation, named, presence) => {
                let wrong = |reason: &'static str| Problem::invalid("user_id", reason);
                let user = self
                    .line
                    .caller
                    .by
                    .user
                    .ok_or_else(|| wrong("the socket was opened for no user"))?;
                if named.is_some_and(|named| named != user) {
                    return Err(wrong("must be the user for whom the socket was opened"));
                }
                let full = self.member.rooms() > self.line.edge.lines.subscriptions_max;
                if full && !self.member.is_in(conversation) && presence != Presence::Offline {
                    return Err(Problem::new(
                        Kind::Conflict,
                        "the socket is present in too many conversations",
                    ));
                }
                self.tell(conversation, Told::Presence(user, presence))
            }
            Frame::Ping => {
                frames::pong(to);
                Ok(())
            }
            Frame::Pong => Ok(()),
        }
    }

    fn may_read(&self) -> Result<(), Problem> {
        let principal = self
            .line
            .holder
            .principal(&self.line.edge, Timestamp::now().0);
        if principal
            .is_some_and(|principal| credential::granted(&principal, Permission::ConversationsRead))
        {
            return Ok(());
        }
        Err(Problem::forbidden("the key is not allowed this scope"))
    }

    fn subscribe(
        &mut self,
        conversation: Option<ConversationId>,
        after: Option<u64>,
    ) -> Result<(), Problem> {
        self.may_read()?;
        if self.subscriptions.has(conversation) {
            return Err(Problem::new(
                Kind::Conflict,
                "the socket has this subscription already",
            ));
        }
        if self.subscriptions.count() >= self.line.edge.lines.subscriptions_max {
            return Err(Problem::new(
                Kind::Conflict,
                "the socket has too many subscriptions",
            ));
        }
        let line = Rc::clone(&self.line);
        let opened = async move {
            let after = match after {
                Some(after) => after,
                None => {
                    line.edge
                        .system
                        .events
                        .end(source(&line, conversation))
                        .await?
                }
            };
            let (reader, shows) = follow(&line, conversation, after).await?;
            Ok(Step::Subscribed(
                conversation,
                after,
                Box::new(reader),
                shows,
            ))
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
        conversation: Option<ConversationId>,
        to: &mut impl Frames,
    ) -> Result<(), Problem> {
        if !self.subscriptions.has(conversation) {
            return Err(Problem::new(
                Kind::NotFound,
                "the socket has no such subscription",
            ));
        }
        if let Some(id) = conversation {
            self.subscriptions.remove(id);
            self.member.unlisten(id);
            self.shows();
            frames::subscription(to, "unsubscribed", conversation, None);
            return Ok(());
        }
        self.member.unlisten_to_all();
        let owed = self.subscriptions.remove_account();
        self.account_shows = Shows::Nothing;
        self.shows();
        let line = Rc::clone(&self.line);
        let read_on = async move {
            let mut readers = Vec::with_capacity(owed.len());
            for (id, after) in owed {
                match follow(&line, Some(id), after).await {
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
    fn tell(&mut self, conversation: ConversationId, told: Told) -> Result<(), Problem> {
        self.may_read()?;
        if self.subscriptions.has(Some(conversation)) {
            return self.pass_on(conversation, told);
        }
        let line = Rc::clone(&self.line);
        let found = async move {
            let Line { edge, caller, .. } = &*line;
            let asked = edge
                .system
                .conversations
                .ask(conversation, caller.clone(), None, None, Request::Read)
                .await;
            asked.map_or_else(
                |error| Step::Refused(error.into()),
                |_| Step::Found(conversation, told),
            )
        };
        self.step = Some(found.boxed_local());
        Ok(())
    }

    fn pass_on(&mut self, conversation: ConversationId, told: Told) -> Result<(), Problem> {
        match told {
            Told::Typing => self.member.typing(conversation, self.line.caller.by.user),
            Told::Presence(user, presence) => {
                let said = self.member.say(conversation, user, presence);
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
    ) -> Poll<Result<(), Over>> {
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
        match self.member.poll_sign(context) {
            Poll::Ready(Some(_)) if !self.standing.holds() => return Poll::Ready(Err(Over::Void)),
            Poll::Ready(Some(sign)) => {
                frames::sign(to, sign);
                return Poll::Ready(Ok(()));
            }
            Poll::Ready(None) => return Poll::Ready(Err(Over::ComeAgain)),
            Poll::Pending => {}
        }
        self.subscriptions.poll(context).map(|read| match read {
            // What has come was committed before this look: nothing is shown that came after a
            // right was gone.
            Ok(_) if !self.standing.holds() => Err(Over::Void),
            Ok(delivery) => {
                frames::event(to, &delivery.event, delivery.cursor);
                Ok(())
            }
            Err(ReadEnd::Closed) => Err(Over::Leaving),
            Err(ReadEnd::TooSlow | ReadEnd::Expired | ReadEnd::Gone | ReadEnd::Away) => {
                Err(Over::ComeAgain)
            }
            Err(ReadEnd::Unreadable) => Err(Over::Unreadable),
        })
    }

    /// Goes on with messages that are under way.
    pub(super) fn poll_sends(
        &mut self,
        context: &mut Context<'_>,
        to: &mut impl Frames,
    ) -> Poll<()> {
        self.sends
            .poll(&self.line, context)
            .map(|sent| match sent.outcome {
                Ok(message) => frames::ack(to, &sent.reference, &message),
                Err(problem) => frames::error(to, Some(&sent.reference), &problem),
            })
    }

    fn done(&mut self, step: Step, to: &mut impl Frames) {
        match step {
            Step::Subscribed(Some(id), after, reader, _) => {
                self.subscriptions.add(id, after, *reader);
                self.member.listen(id);
                self.shows();
                frames::subscription(to, "subscribed", Some(id), Some(after));
            }
            Step::Subscribed(None, after, reader, shows) => {
                self.subscriptions.add_account(after, *reader);
                self.member.listen_to_all();
                self.account_shows = shows;
                self.shows();
                frames::subscription(to, "subscribed", None, Some(after));
            }
            Step::Alone(readers) => {
                for (id, reader) in readers {
                    self.subscriptions.read_again(id, reader);
                }
                frames::subscription(to, "unsubscribed", None, None);
            }
            Step::Found(conversation, told) => {
                if let Err(problem) = self.pass_on(conversation, told) {
                    frames::error(to, None, &problem);
                }
            }
            Step::Refused(problem) => frames::error(to, None, &problem),
        }
    }
}

fn source(line: &Line, conversation: Option<ConversationId>) -> Source {
    conversation.map_or(Source::Scope(line.caller.scope), |id| {
        Source::conversation(line.caller.scope, id)
    })
}

async fn follow(
    line: &Line,
    conversation: Option<ConversationId>,
    after: u64,
) -> Result<(EventReader, Shows), Problem> {
    let source = source(line, conversation);
    let events = &line.edge.system.events;
    let (mut filter, mut shows) = (EventFilter::default(), Shows::Conversations);
    if conversation.is_none() {
        let principal = line.holder.principal(&line.edge, Timestamp::now().0);
        let principal =
            principal.ok_or_else(|| Problem::forbidden("the key is not allowed this scope"))?;
        filter.kinds = credential::visible_kinds(&line.edge, &principal, &line.caller);
        if filter.kinds.is_empty() {
            shows = Shows::Documents;
        }
    }
    Ok((
        events.follow(source, filter, after, Falling::Out).await?,
        shows,
    ))
}
