//! Figures of the actors and the store in Prometheus' text format. Labels are kinds and reasons,
//! never identifiers.

use std::fmt::{Display, Write};

use crate::runtime::Overview;
use crate::threads::ThreadFigures;
use crate::webhook::DeliveryFigures;

/// All of it as text.
#[must_use]
pub fn text(
    overviews: &[Overview],
    store: &[(&'static str, f64)],
    deliveries: &DeliveryFigures,
    threads: &[ThreadFigures],
) -> String {
    let mut out = String::with_capacity(8192);
    gauges(&mut out, overviews);
    counters(&mut out, overviews);
    times(&mut out, overviews);
    for (name, value) in store {
        family(
            &mut out,
            name,
            if name.ends_with("_total") {
                "counter"
            } else {
                "gauge"
            },
        );
        line(&mut out, name, &[], value);
    }
    webhooks(&mut out, deliveries);
    watched(&mut out, threads);
    out
}

fn watched(out: &mut String, threads: &[ThreadFigures]) {
    type Read = fn(&ThreadFigures) -> u64;
    let all: [(&str, &str, Read); 3] = [
        ("threads", "gauge", |thread| {
            u64::try_from(thread.running).unwrap_or(u64::MAX)
        }),
        ("thread_panics_total", "counter", |thread| thread.panics),
        ("thread_restarts_total", "counter", |thread| thread.restarts),
    ];
    for (name, kind, read) in all {
        family(out, name, kind);
        for thread in threads {
            line(out, name, &[("thread", thread.name)], read(thread));
        }
    }
}

fn webhooks(out: &mut String, deliveries: &DeliveryFigures) {
    let DeliveryFigures {
        pending,
        in_flight,
        attempts,
        ..
    } = deliveries;
    family(out, "webhook_deliveries_pending", "gauge");
    line(out, "webhook_deliveries_pending", &[], pending);
    family(out, "webhook_attempts_in_flight", "gauge");
    line(out, "webhook_attempts_in_flight", &[], in_flight);
    family(out, "webhook_attempts_total", "counter");
    for (outcome, count) in attempts {
        line(
            out,
            "webhook_attempts_total",
            &[("outcome", outcome)],
            count,
        );
    }
}

fn gauges(out: &mut String, overviews: &[Overview]) {
    type Read = fn(&Overview) -> u64;
    let all: [(&str, Read); 5] = [
        ("actors_live", |o| u64::try_from(o.live).unwrap_or(u64::MAX)),
        ("actors_quarantined", |o| {
            u64::try_from(o.quarantined).unwrap_or(u64::MAX)
        }),
        ("actors_places", |o| o.places),
        ("actors_places_max", |o| u64::from(o.places_max)),
        ("actors_bytes", |o| {
            u64::try_from(o.bytes).unwrap_or(u64::MAX)
        }),
    ];
    for (name, read) in all {
        family(out, name, "gauge");
        for overview in overviews {
            line(out, name, &[("kind", overview.kind)], read(overview));
        }
    }
}

fn counters(out: &mut String, overviews: &[Overview]) {
    type Read = fn(&Overview) -> u64;
    let all: [(&str, Read); 6] = [
        ("actors_handled_total", |o| o.handled),
        ("actors_abandoned_total", |o| o.abandoned),
        ("actors_activations_total", |o| o.activations),
        ("actors_quarantines_total", |o| o.quarantines),
        ("actors_conflicts_total", |o| o.conflicts),
        ("actors_unknown_outcomes_total", |o| o.unknown),
    ];
    for (name, read) in all {
        family(out, name, "counter");
        for overview in overviews {
            line(out, name, &[("kind", overview.kind)], read(overview));
        }
    }
    family(out, "actors_passivations_total", "counter");
    for overview in overviews {
        for (reason, count) in &overview.passivations {
            let reason = format!("{reason:?}").to_lowercase();
            line(
                out,
                "actors_passivations_total",
                &[("kind", overview.kind), ("reason", &reason)],
                count,
            );
        }
    }
    family(out, "actors_restarts_total", "counter");
    for overview in overviews {
        for (cause, count) in &overview.restarts {
            let cause = format!("{cause:?}").to_lowercase();
            line(
                out,
                "actors_restarts_total",
                &[("kind", overview.kind), ("cause", &cause)],
                count,
            );
        }
    }
    family(out, "actors_refused_total", "counter");
    for overview in overviews {
        for (cause, count) in &overview.refused {
            let cause = cause.to_string().replace(' ', "_");
            line(
                out,
                "actors_refused_total",
                &[("kind", overview.kind), ("cause", &cause)],
                count,
            );
        }
    }
}

fn times(out: &mut String, overviews: &[Overview]) {
    for (name, read) in [
        (
            "actors_waiting_seconds",
            (|o| o.waiting) as fn(&Overview) -> crate::runtime::Percentiles,
        ),
        ("actors_handling_seconds", |o| o.handling),
        ("actors_committing_seconds", |o| o.committing),
    ] {
        family(out, name, "gauge");
        for overview in overviews {
            let percentiles = read(overview);
            line(
                out,
                name,
                &[("kind", overview.kind), ("quantile", "0.5")],
                percentiles.p50.as_secs_f64(),
            );
            line(
                out,
                name,
                &[("kind", overview.kind), ("quantile", "0.99")],
                percentiles.p99.as_secs_f64(),
            );
        }
    }
}

fn family(out: &mut String, name: &str, kind: &str) {
    // Writing to a String can't fail.
    let _ = writeln!(out, "# TYPE colloquy_{name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &[(&str, &str)], value: impl Display) {
    let labels: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}=\"{value}\""))
        .collect();
    let labels = if labels.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", labels.join(","))
    };
    // Writing to a String can't fail.
    let _ = writeln!(out, "colloquy_{name}{labels} {value}");
}
