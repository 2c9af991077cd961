//! The metrics of the actors, the store, deliveries and threads, written through
//! `prometheus-client` as OpenMetrics 1.0. Labels are kinds and reasons, never identifiers.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, MetricEncoder,
    NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::backup::Backups;
use crate::store::{StoreMetric, StoreValue};
use crate::webhook::DeliveryMetrics;
use colloquy_runtime::threads::ThreadMetrics;
use colloquy_runtime::{Overview, Percentiles};

/// What a counter's samples are called after their family's name.
const COUNTED: &str = "_total";

/// The units that metrics are told in: a name that ends in one is in that unit, and says so.
const UNITS: [(&str, Unit); 2] = [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)];

/// Writes metric families, each with its explanation, its type and its unit.
///
/// Names are the names of samples, as a query has them: a counter's ends in `_total`, which is no
/// part of its family's name (OpenMetrics 1.0, "Counter").
#[derive(Debug)]
pub struct MetricsWriter<'e>(DescriptorEncoder<'e>);

/// What a histogram has counted.
#[derive(Debug)]
pub struct HistogramCounts {
    /// All observed values together.
    pub sum: f64,
    /// For each bucket its upper bound and how many values lie in it and in no lower one.
    pub buckets: Vec<(f64, u64)>,
}

impl<'e> MetricsWriter<'e> {
    /// Writes into what a registry's collector is handed.
    #[must_use]
    pub fn new(encoder: DescriptorEncoder<'e>) -> Self {
        MetricsWriter(encoder)
    }

    /// Writes a counter without labels.
    ///
    /// # Errors
    /// What it writes to does not take it.
    pub fn counter(
        &mut self,
        name: &str,
        help: &str,
        value: impl EncodeCounterValue,
    ) -> fmt::Result {
        self.family(MetricType::Counter, name, help)?
            .encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    /// Writes a gauge without labels.
    ///
    /// # Errors
    /// What it writes to does not take it.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        self.family(MetricType::Gauge, name, help)?
            .encode_gauge(&value)
    }

    /// Writes a counter for each set of labels.
    ///
    /// # Errors
    /// What it writes to does not take it.
    pub fn counters<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.family(MetricType::Counter, name, help)?;
        for (labels, value) in series {
            family
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        Ok(())
    }

    /// Writes a gauge for each set of labels.
    ///
    /// # Errors
    /// What it writes to does not take it.
    pub fn gauges<L: EncodeLabelSet, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.family(MetricType::Gauge, name, help)?;
        for (labels, value) in series {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Writes a histogram for each set of labels.
    ///
    /// # Errors
    /// What it writes to does not take it.
    pub fn histograms<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, HistogramCounts)>,
    ) -> fmt::Result {
        let mut family = self.family(MetricType::Histogram, name, help)?;
        for (labels, HistogramCounts { sum, buckets }) in series {
            let count = buckets.iter().map(|(_, count)| count).sum();
            family
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }

    fn family<'s>(
        &'s mut self,
        kind: MetricType,
        name: &'s str,
        help: &str,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        let family = name.strip_suffix(COUNTED).unwrap_or(name);
        let in_unit = UNITS
            .iter()
            .find_map(|(suffix, unit)| Some((family.strip_suffix(suffix)?, Some(unit))));
        let (stem, unit) = in_unit.unwrap_or((family, None));
        self.0.encode_descriptor(stem, help, unit, kind)
    }
}

/// Writes what the store counts.
pub(crate) fn write_store(out: &mut MetricsWriter<'_>, metrics: &[StoreMetric]) -> fmt::Result {
    for StoreMetric { name, help, value } in metrics {
        match *value {
            StoreValue::Counter(count) => out.counter(name, help, count)?,
            StoreValue::Seconds(seconds) => out.counter(name, help, seconds)?,
            StoreValue::Gauge(amount) => out.gauge(name, help, amount)?,
        }
    }
    Ok(())
}

/// Writes what the threads of each name have come to.
pub(crate) fn write_threads(out: &mut MetricsWriter<'_>, threads: &[ThreadMetrics]) -> fmt::Result {
    let each = |read: fn(&ThreadMetrics) -> u64| {
        threads
            .iter()
            .map(move |thread| ([("thread", thread.name)], read(thread)))
    };
    out.gauges(
        "threads",
        "Threads that run, by name.",
        each(|thread| amount(thread.running)),
    )?;
    out.counters(
        "thread_panics_total",
        "Panics on threads of this name.",
        each(|thread| thread.panics),
    )?;
    out.counters(
        "thread_restarts_total",
        "Restarts of threads of this name after a panic.",
        each(|thread| thread.restarts),
    )
}

/// Writes how backups go.
pub(crate) fn write_backups(out: &mut MetricsWriter<'_>, backups: &Backups) -> fmt::Result {
    let status = backups.status();
    let finished_at = status.finished_at.map_or(0, |at| at.unix_seconds());
    let every = status.every.map_or(0, |every| every.as_secs().max(1));
    out.gauge(
        "backup_every_seconds",
        "How often a backup is made by itself; 0 where none is.",
        every,
    )?;
    out.gauge(
        "backup_last_finished_timestamp_seconds",
        "When the latest backup was finished, in Unix seconds; 0 where none was.",
        u64::try_from(finished_at).unwrap_or(0),
    )?;
    out.counter(
        "backup_failures_total",
        "Backups that failed since the start or that it has interrupted, and times that their place could not be used.",
        status.failures,
    )
}

/// Writes what webhook deliveries have come to.
pub(crate) fn write_deliveries(
    out: &mut MetricsWriter<'_>,
    deliveries: &DeliveryMetrics,
) -> fmt::Result {
    out.gauge(
        "webhook_deliveries_pending",
        "Webhook deliveries that wait for an attempt.",
        deliveries.pending,
    )?;
    out.gauge(
        "webhook_attempts_in_flight",
        "Webhook attempts that are under way.",
        amount(deliveries.in_flight),
    )?;
    out.counters(
        "webhook_attempts_total",
        "Webhook attempts, by outcome.",
        deliveries
            .attempts
            .map(|(outcome, count)| ([("outcome", outcome)], count)),
    )
}

/// Writes what the entities of each kind have come to.
pub(crate) fn write_actors(out: &mut MetricsWriter<'_>, overviews: &[Overview]) -> fmt::Result {
    write_actor_gauges(out, overviews)?;
    write_actor_counters(out, overviews)?;
    write_actor_reasons(out, overviews)?;
    write_actor_times(out, overviews)
}

fn write_actor_gauges(out: &mut MetricsWriter<'_>, overviews: &[Overview]) -> fmt::Result {
    type Read = fn(&Overview) -> u64;
    let all: [(&str, &str, Read); 5] = [
        (
            "actors_live",
            "Entities in memory, those in quarantine among them.",
            |o| amount(o.live),
        ),
        (
            "actors_quarantined",
            "Entities whose quarantine runs.",
            |o| amount(o.by_state.quarantined),
        ),
        ("actors_places", "Mailbox permits taken.", |o| {
            o.permits_taken
        }),
        (
            "actors_places_max",
            "The most mailbox permits that one entity has taken.",
            |o| u64::from(o.permits_taken_max),
        ),
        (
            "actors_bytes",
            "Bytes that the entities' states hold.",
            |o| amount(o.bytes),
        ),
    ];
    for (name, help, read) in all {
        out.gauges(name, help, by_kind(overviews, read))?;
    }
    Ok(())
}

fn write_actor_counters(out: &mut MetricsWriter<'_>, overviews: &[Overview]) -> fmt::Result {
    type Read = fn(&Overview) -> u64;
    let all: [(&str, &str, Read); 6] = [
        ("actors_handled_total", "Commands decided.", |o| o.handled),
        (
            "actors_abandoned_total",
            "Commands skipped because their caller had left.",
            |o| o.abandoned,
        ),
        (
            "actors_activations_total",
            "Actors that came into memory.",
            |o| o.activations,
        ),
        ("actors_quarantines_total", "Quarantines entered.", |o| {
            o.quarantines
        }),
        (
            "actors_conflicts_total",
            "Commands that another copy of the entity was ahead of.",
            |o| o.conflicts,
        ),
        (
            "actors_unknown_outcomes_total",
            "Commits whose outcome is not known.",
            |o| o.unknown,
        ),
    ];
    for (name, help, read) in all {
        out.counters(name, help, by_kind(overviews, read))?;
    }
    Ok(())
}

fn by_kind(
    overviews: &[Overview],
    read: fn(&Overview) -> u64,
) -> impl Iterator<Item = ([(&'static str, &'static str); 1], u64)> {
    overviews
        .iter()
        .map(move |overview| ([("kind", overview.kind)], read(overview)))
}

fn write_actor_reasons(out: &mut MetricsWriter<'_>, overviews: &[Overview]) -> fmt::Result {
    let kinds = || overviews.iter().map(|overview| (overview.kind, overview));
    let passivations = kinds().flat_map(|(kind, overview)| {
        let counts = overview.passivations.iter();
        counts.map(move |(reason, count)| ([("kind", kind), ("reason", reason.label())], *count))
    });
    out.counters(
        "actors_passivations_total",
        "Entities taken out of memory, by reason.",
        passivations,
    )?;
    let restarts = kinds().flat_map(|(kind, overview)| {
        let counts = overview.restarts.iter();
        counts.map(move |(cause, count)| ([("kind", kind), ("cause", cause.label())], *count))
    });
    out.counters(
        "actors_restarts_total",
        "Entities that began anew from the store, by cause.",
        restarts,
    )?;
    let refusals = kinds().flat_map(|(kind, overview)| {
        let counts = overview.refused.iter();
        counts.map(move |(cause, count)| ([("kind", kind), ("cause", cause.label())], *count))
    });
    out.counters(
        "actors_refused_total",
        "Commands refused with nothing done, by cause.",
        refusals,
    )
}

fn write_actor_times(out: &mut MetricsWriter<'_>, overviews: &[Overview]) -> fmt::Result {
    type Read = fn(&Overview) -> Percentiles;
    let all: [(&str, &str, Read); 3] = [
        (
            "actors_waiting_seconds",
            "Time that commands waited for their turn, sampled.",
            |o| o.waiting,
        ),
        (
            "actors_handling_seconds",
            "Time that commands took to be decided, sampled.",
            |o| o.handling,
        ),
        (
            "actors_committing_seconds",
            "Time from a decision to its durable commit, sampled.",
            |o| o.committing,
        ),
    ];
    for (name, help, read) in all {
        let series = overviews.iter().flat_map(|overview| {
            let Percentiles { p50, p99, .. } = read(overview);
            // Not `quantile`, which Prometheus reserves for summaries.
            [("50", p50), ("99", p99)].map(|(percentile, time)| {
                let labels = [("kind", overview.kind), ("percentile", percentile)];
                (labels, time.as_secs_f64())
            })
        });
        out.gauges(name, help, series)?;
    }
    Ok(())
}

fn amount(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
