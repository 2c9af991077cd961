//! What an attempt comes to: delivered, tried again at some time, or given up.

use std::time::Duration;

use super::attempt::{WebhookSettings, attempt_of};
use super::courier::{Lost, Reply};
use super::delivery_queue::Verdict;
use super::record::DisabledReason;
use colloquy_model::attempt::Attempt;
use colloquy_model::time::Timestamp;

/// What an attempt comes to, for its delivery and for its endpoint.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    /// What the delivery's log gets.
    pub(super) attempt: Attempt,
    /// Why the endpoint is to get nothing more, where that follows.
    pub(super) disable: Option<DisabledReason>,
}

/// An attempt that has been made.
#[derive(Debug)]
pub(super) struct Made {
    /// Which attempt it is: 1, 2, 3 …
    pub(super) attempt: u32,
    pub(super) began: Timestamp,
    pub(super) took: Duration,
    pub(super) reply: Result<Reply, Lost>,
}

/// Judges an attempt that ended at `now`; `chance` is 0 to 1.
pub(super) fn judge(
    settings: &WebhookSettings,
    made: Made,
    now: Timestamp,
    chance: f64,
) -> Outcome {
    let Made {
        attempt,
        began,
        took,
        reply,
    } = made;
    let status = reply.as_ref().ok().map(|reply| reply.status);
    let taken = status.is_some_and(|status| (200..300).contains(&status));
    let wait = settings.retry_schedule.get(
        usize::try_from(attempt)
            .unwrap_or(usize::MAX)
            .saturating_sub(1),
    );
    let asked = reply
        .as_ref()
        .ok()
        .filter(|reply| matches!(reply.status, 429 | 503));
    let asked = asked
        .and_then(|reply| reply.retry_after)
        .map(|wait| wait.min(settings.retry_after_max));
    let verdict = match wait {
        _ if taken => Verdict::Delivered,
        Some(_) if status == Some(410) => Verdict::Failed,
        None => Verdict::Failed,
        Some(wait) => {
            let spread = 1.0 + settings.jitter.clamp(0.0, 1.0) * (2.0 * chance - 1.0);
            let wait = wait.mul_f64(spread).max(asked.unwrap_or_default());
            Verdict::Later(now + wait)
        }
    };
    let attempt = attempt_of(began, took, reply);
    let disable = (status == Some(410)).then_some(DisabledReason::Gone);
    Outcome {
        verdict,
        attempt,
        disable,
    }
}

/// What the last delivery's log says of an endpoint that has only failed for so long that it is
/// disabled.
pub(super) fn epitaph(since: Timestamp, now: Timestamp) -> Attempt {
    let error = format!(
        "the endpoint has only failed since {}: it was disabled",
        since
    );
    Attempt {
        attempted_at: now,
        status: None,
        duration_ms: 0,
        answer: None,
        error: Some(error),
    }
}

/// What the log says of a delivery whose event is not stored any more.
pub(super) fn unread(now: Timestamp) -> Attempt {
    let error = "the event is not stored any more: retention has taken it".to_owned();
    Attempt {
        attempted_at: now,
        status: None,
        duration_ms: 0,
        answer: None,
        error: Some(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::target::PrivateTargets;

    fn settings() -> WebhookSettings {
        WebhookSettings {
            private_targets: PrivateTargets::Allowed,
            retry_schedule: [5, 30].map(Duration::from_secs).to_vec(),
            jitter: 0.1,
            timeout: Duration::from_secs(15),
            places: 32,
            account_places: 128,
            replays_max: 16,
            retry_after_max: Duration::from_secs(3600),
            disable_after: Duration::from_secs(432_000),
            keep_deliveries: Duration::from_secs(2_592_000),
        }
    }

    fn verdict(attempt: u32, status: u16, retry_after: Option<u64>, chance: f64) -> Verdict {
        let retry_after = retry_after.map(Duration::from_secs);
        let reply = Ok(Reply {
            status,
            retry_after,
            answer: String::new(),
        });
        judge(
            &settings(),
            Made {
                attempt,
                began: Timestamp(0),
                took: Duration::ZERO,
                reply,
            },
            Timestamp(1_000),
            chance,
        )
        .verdict
    }

    #[test]
    fn an_attempt_is_followed_by_the_next_of_the_schedule_until_there_is_none() {
        assert_eq!(verdict(1, 204, None, 0.5), Verdict::Delivered);
        assert_eq!(verdict(1, 500, None, 0.5), Verdict::Later(Timestamp(6_000)));
        assert_eq!(
            (verdict(1, 500, None, 0.0), verdict(1, 302, None, 1.0)),
            (
                Verdict::Later(Timestamp(5_500)),
                Verdict::Later(Timestamp(6_500))
            )
        );
        assert_eq!(
            verdict(2, 500, None, 0.5),
            Verdict::Later(Timestamp(31_000))
        );
        assert_eq!(verdict(3, 500, None, 0.5), Verdict::Failed);
        assert_eq!(verdict(1, 410, None, 0.5), Verdict::Failed);
    }

    #[test]
    fn a_receiver_that_asks_for_time_gets_up_to_an_hour() {
        assert_eq!(
            verdict(1, 429, Some(60), 0.5),
            Verdict::Later(Timestamp(61_000))
        );
        assert_eq!(
            verdict(1, 503, Some(1_000_000), 0.5),
            Verdict::Later(Timestamp(3_601_000))
        );
        assert_eq!(
            verdict(1, 503, Some(1), 0.5),
            Verdict::Later(Timestamp(6_000)),
            "the schedule's times are the earliest"
        );
        assert_eq!(
            verdict(1, 500, Some(60), 0.5),
            Verdict::Later(Timestamp(6_000))
        );
    }
}
