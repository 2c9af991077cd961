//! The overview: whether all is well, what happened in the last hour or day, and where to act.

use maud::{Markup, html};
use serde_json::Value;

use super::assets;
use super::attention::{self, Looked};
use super::figures::{live, rounded, sum, tile};
use super::history::{Chart, FAILED, MESSAGES, REFUSED, SLOWEST, Series, Span};
use super::layout::{self, Page};
use super::parts::{grouped, heading, number};
use super::reply::Reply;
use super::session::Session;
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::Problem;

const HERE: &str = "/console/overview";

/// The pages of the overview.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    session.check_operator()?;
    let app = &visit.app;
    let span = Span::named(&visit.query("span"));
    match (asked.path.get(1..).unwrap_or_default(), asked.form) {
        ([], None) if visit.is_fragment() => Ok(Reply::part(state(visit, session).await)),
        ([], None) => Ok(whole(visit, session, span).await),
        (["series"], None) => {
            let series = app.history.series(app, span);
            Ok(Reply::json(
                &serde_json::to_value(&series).unwrap_or_default(),
            ))
        }
        (["charts", id], None) => {
            let series = app.history.series(app, span);
            let chart = series.charts.iter().find(|chart| chart.id == *id);
            let chart = chart.ok_or_else(|| Problem::no_such("there is no such chart"))?;
            Ok(as_table(visit, session, &series, chart))
        }
        _ => Err(no_such_page()),
    }
}

async fn whole(visit: &Visit, session: &Session, span: Span) -> Reply {
    let app = &visit.app;
    let series = app.history.series(app, span);
    let content = html! {
        link rel="stylesheet" href=(assets::path("uPlot.min.css"));
        (heading("Overview", "How the server fares, and what needs you.", html! {}))
        (live(HERE, 5, state(visit, session).await))
        h2.apart { "Over time" }
        nav.tabs aria-label="How far back" {
            @for (this, name, words) in [(Span::Hour, "hour", "Last hour"), (Span::Day, "day", "Last day")] {
                a href={ (HERE) "?span=" (name) } aria-current=[(this == span).then_some("true")] { (words) }
            }
        }
        div.charts data-series={ (HERE) "/series?span=" (name(span)) } {
            @for chart in &series.charts { (figure(chart, span)) }
        }
        p.faint {
            "Requests are those of the interface, and all figures those of this process since its start: pages of "
            "the console are left out, and each node has figures of its own."
        }
    };
    let page = Page::new("Overview", content).with_scripts(&["uPlot.iife.min.js", "overview.js"]);
    layout::page(visit, Some(session), page)
}

fn name(span: Span) -> &'static str {
    match span {
        Span::Hour => "hour",
        Span::Day => "day",
    }
}

/// What needs attention, and the figures of now.
async fn state(visit: &Visit, session: &Session) -> Markup {
    let app = &visit.app;
    let hour = app.history.series(app, Span::Hour);
    let Looked {
        things,
        kinds,
        store,
    } = attention::look(app, session, &hour).await;
    let latest = |chart, line| hour.latest(chart, line);
    let requests: f64 = hour.charts.first().map_or(0.0, |chart| {
        let rates = chart.lines.iter().map(|line| latest("requests", line.name));
        rates.flatten().sum()
    });
    let refusals = hour.counted("requests", REFUSED, 6) + hour.counted("requests", FAILED, 6);
    let total = |name| kinds.iter().map(|kind| number(kind, name)).sum::<u64>();
    let restarts: u64 = kinds.iter().map(|kind| sum(kind, "restarts")).sum();
    html! {
        section aria-labelledby="attention" {
            h2 #attention { "Needs attention" }
            (attention::list(&things))
        }
        dl.tiles {
            (tile("Requests a second", rounded(requests)))
            (tile("Slowest 1 of 100", latest("latency", SLOWEST).map_or("—".to_owned(), |ms| format!("{} ms", rounded(ms)))))
            (tile("Messages a second", rounded(latest("messages", MESSAGES).unwrap_or_default())))
            (tile("Refused or failed, last minute", rounded(refusals)))
            (tile("Actors in memory", grouped(total("live"))))
            (tile("Restarts of actors", grouped(restarts)))
            (tile("Commits waiting", grouped(number(&store, "queue"))))
            (tile("Deliveries waiting", rounded(latest("waiting", "Deliveries").unwrap_or_default())))
        }
    }
}

/// The place for a chart, with the way to its table.
fn figure(chart: &Chart, span: Span) -> Markup {
    let table = format!("{HERE}/charts/{}?span={}", chart.id, name(span));
    html! {
        section.card.chart aria-labelledby={ "chart-" (chart.id) } {
            h3 id={ "chart-" (chart.id) } { (chart.title) " " span.faint { (chart.unit) } }
            div.plot data-chart=(chart.id) role="img" aria-label={ (chart.title) ", " (chart.unit) ": the table below says the same" } {}
            details hx-get=(table) hx-trigger="toggle" hx-target={ "#table-" (chart.id) } {
                summary { "As a table" span.hidden { ": " (chart.title) } }
                div id={ "table-" (chart.id) } { a href=(table) { "Show the table" } }
            }
        }
    }
}

fn as_table(visit: &Visit, session: &Session, series: &Series, chart: &Chart) -> Reply {
    let table = table(series, chart);
    if visit.is_fragment() {
        return Reply::part(table);
    }
    let about = "Newest first; each row stands for the time since the one below it.";
    let content = html! {
        (heading(chart.title, about, html! { a.button href=(HERE) { "Back to the overview" } }))
        (table)
    };
    layout::page(visit, Some(session), Page::new(chart.title, content))
}

fn table(series: &Series, chart: &Chart) -> Markup {
    let rows: Vec<usize> = (0..series.at.len()).rev().collect();
    html! {
        div.table.low tabindex="0" role="region" aria-label={ (chart.title) " as a table" } { table {
            caption.hidden { (chart.title) @if chart.is_count { ": how many in each interval" } @else { ", " (chart.unit) } }
            thead { tr {
                th { "Until" }
                @if chart.is_count { th.number { "Seconds" } }
                @for line in &chart.lines { th.number { (line.name) } }
            } }
            tbody {
                @for row in rows {
                    tr {
                        td { (at(series, row)) }
                        @if chart.is_count { td.number { (rounded(series.seconds.get(row).copied().unwrap_or_default())) } }
                        @for line in &chart.lines {
                            td.number { (line.values.get(row).copied().flatten().map_or("—".to_owned(), rounded)) }
                        }
                    }
                }
            }
        } }
    }
}

fn at(series: &Series, row: usize) -> Markup {
    let at = series.at.get(row).map(ToString::to_string);
    let value = Value::from(at.unwrap_or_default());
    html! { time datetime=(value.as_str().unwrap_or_default()) data-time="exact" { (value.as_str().and_then(|at| at.get(11..19)).unwrap_or_default()) " UTC" } }
}
