//! What conversations have come to, and how operators have that made anew.

use std::convert::Infallible;

use actix_web::web;
use colloquy_actors::analytics::{AnalyticsQuery, Entry, GroupBy, RebuildError, RebuildProgress};
use colloquy_actors::audit::AuditedAct;
use colloquy_model::answer::Answer;
use colloquy_model::conversation::{Channel, Priority};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::UserId;
use colloquy_model::interval::Interval;
use colloquy_model::json;
use colloquy_model::time::{RoundedUp, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use utoipa::{IntoParams, ToSchema};

use super::super::api_call::ApiCall;
use super::super::body::{Empty, OptionalJson};
use super::super::csv::{self, Line};
use super::super::output::{CachePolicy, Output, Text};
use super::super::problem::{Kind, Outcome, Problem};
use super::super::query::NoQuery;

/// What figures of conversations may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct FiguresQuery {
    /// Where the first interval begins. Default: 30 days before the day of `to`, or of now.
    #[param(inline, value_type = Option<Timestamp>)]
    from: Option<RoundedUp>,
    /// Where the interval behind the last one begins. Default: behind the interval of now.
    #[param(inline, value_type = Option<Timestamp>)]
    to: Option<RoundedUp>,
    /// How long an interval is, in UTC. Default: `day`.
    #[param(inline)]
    interval: Option<Interval>,
    /// By what figures are told apart, as it was at the end of each event.
    #[param(inline)]
    group_by: Option<GroupBy>,
    /// Only conversations from this channel.
    #[param(inline)]
    channel: Option<Channel>,
    /// Only conversations of this priority.
    #[param(inline)]
    priority: Option<Priority>,
    /// Only conversations of this user.
    #[param(inline)]
    assignee_id: Option<UserId>,
}

pub(super) async fn conversations(call: ApiCall, query: FiguresQuery) -> Result<Output, Problem> {
    let (app, tenant) = (&call.app, call.caller.tenant);
    if let Some(user) = query.assignee_id
        && app.system.identity.user(tenant, user).is_none()
    {
        return Err(Problem::invalid("assignee_id", "must be a valid user ID"));
    }
    let figures = app.system.analytics.conversations(AnalyticsQuery {
        tenant,
        // What lies behind the beginning of an interval by less than a millisecond is not one.
        from: query.from.map(|RoundedUp(from)| from),
        to: query.to.map(|RoundedUp(to)| to),
        interval: query.interval.unwrap_or(Interval::Day),
        group_by: query.group_by,
        channel: query.channel,
        priority: query.priority,
        assignee: query.assignee_id,
    });
    let figures = figures.await?;
    let as_csv = csv::is_preferred(&call);
    let write = move || match as_csv {
        true => csv::list(&figures.list().data),
        false => Ok(Text {
            body: json::bytes(&figures.list()),
            media_type: "application/json",
            cache: CachePolicy::PrivateList,
            room: None,
        }),
    };
    let written = web::block(write).await.map_err(|_| Problem::crashed())?;
    Ok(Output::Text(written?))
}

impl Line for Entry {
    const COLUMNS: &'static [&'static str] = &[
        "start",
        "group",
        "created",
        "closed",
        "reopened",
        "open_at_end",
        "messages.customer",
        "messages.agent",
        "messages.system",
        "first_response_seconds.count",
        "first_response_seconds.mean",
        "first_response_seconds.p50",
        "first_response_seconds.p90",
        "first_response_seconds.p99",
        "resolution_seconds.count",
        "resolution_seconds.mean",
        "resolution_seconds.p50",
        "resolution_seconds.p90",
        "resolution_seconds.p99",
    ];

    fn fields(&self) -> Vec<String> {
        let messages = self.messages;
        let counts = [self.created, self.closed, self.reopened];
        let sent = [messages.customer, messages.agent, messages.system];
        let mut fields = vec![
            self.start.to_string(),
            self.group.clone().unwrap_or_default(),
        ];
        fields.extend(counts.map(|count| count.to_string()));
        fields.push(self.open_at_end.to_string());
        fields.extend(sent.map(|count| count.to_string()));
        for times in [self.first_response_seconds, self.resolution_seconds] {
            fields.push(times.count.to_string());
            let shown = [times.mean, times.p50, times.p90, times.p99];
            fields.extend(shown.map(|time| time.map(|time| time.to_string()).unwrap_or_default()));
        }
        fields
    }
}

/// Whether figures are being made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RebuildState {
    /// They are shown as they were kept up.
    Kept,
    /// They are being made anew from the log; meanwhile the earlier ones are kept up and shown.
    Running,
}

/// How far figures have come.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(super) struct AnalyticsState {
    state: RebuildState,
    /// The position in the log up to which they are made anew; null where they are not.
    #[schema(value_type = Option<u64>)]
    counted: Option<i64>,
    /// The last position in the log; null where they are not made anew.
    #[schema(value_type = Option<u64>)]
    last: Option<i64>,
}

impl From<Option<RebuildProgress>> for AnalyticsState {
    fn from(progress: Option<RebuildProgress>) -> Self {
        AnalyticsState {
            state: match progress {
                None => RebuildState::Kept,
                Some(_) => RebuildState::Running,
            },
            counted: progress.map(|progress| progress.counted.0),
            last: progress.map(|progress| progress.last.0),
        }
    }
}

pub(super) async fn rebuild(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    let begun = call.app.system.analytics.rebuild().await;
    let progress = begun.map_err(|error| match error {
        RebuildError::Trimmed => Problem::new(
            Kind::Conflict,
            "retention has taken events from the log: figures can't be made from what is left",
        ),
        // Once more does no harm.
        RebuildError::Away => {
            Problem::unavailable("the store does not answer", Outcome::Unknown, 1)
        }
    })?;
    tracing::info!(
        request_id = &*call.caller.actor.request_id,
        "an operator has figures made anew from the log"
    );
    let act = AuditedAct {
        event: EventKind::AnalyticsRebuilt,
        target: None,
        details: Map::new(),
    };
    let ApiCall {
        app,
        caller,
        reservation,
        ..
    } = call;
    let body = json::bytes(&AnalyticsState::from(Some(progress)));
    let kept = (reservation, Answer::accepted(body));
    let recorded = app.system.audit.done::<Infallible>(caller, act, kept);
    Ok(recorded.await?.into())
}

pub(super) async fn state(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let progress = call.app.system.analytics.rebuilding().await?;
    Ok(shown(AnalyticsState::from(progress)))
}

fn shown(state: AnalyticsState) -> Output {
    Output::Text(Text {
        body: json::bytes(&state),
        media_type: "application/json",
        cache: CachePolicy::NoStore,
        room: None,
    })
}
