//! Histories over three nodes on one database, which clients ask in turn.

use std::time::Duration;

use super::nodes::Nodes;
use super::{CALLERS, PATIENT, Run, SLACK, is_linearizable, what_is_planted_is_found};
use crate::support::{Dice, until};

/// Shorter than a node's lease: it serves on.
const WITHIN_THE_LEASE: Duration = Duration::from_millis(2500);
/// Longer than the others wait for a node: it wakes up when they have gone on without it.
const BEYOND_THE_LEASE: Duration = Duration::from_millis(9000);

/// How long clients wait before they ask another node.
const IMPATIENT: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_of_three_nodes_are_linearizable_across_kill_9() {
    let mut nodes = Nodes::three().await;
    nodes.allow_absence();
    let mut dice = Dice::new(11);
    let run = Run::begin(&nodes, PATIENT).await;
    for _ in 0..2 {
        run.goes_on(150).await;
        nodes.kill_and_restart_one(&mut dice);
    }
    run.goes_on(150).await;
    assert!(run.history.unknown() > 0, "nobody was left without answer");
    is_linearizable("three-kill-9", run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_of_three_nodes_are_linearizable_across_pauses() {
    let mut nodes = Nodes::three().await;
    nodes.allow_absence();
    let mut dice = Dice::new(12);
    let run = Run::begin(&nodes, IMPATIENT).await;
    for pause in [WITHIN_THE_LEASE, BEYOND_THE_LEASE] {
        run.goes_on(120).await;
        let unknown = run.history.unknown();
        let paused = nodes.pause_one(&mut dice);
        tokio::time::sleep(pause).await;
        until("clients have hung up", SLACK, async || {
            (run.history.unknown() >= unknown + CALLERS / 3).then_some(())
        })
        .await;
        drop(paused);
    }
    run.goes_on(150).await;
    is_linearizable("three-pauses", run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_of_three_nodes_are_linearizable_where_one_loses_the_database() {
    let mut nodes = Nodes::three().await;
    nodes.allow_absence();
    let mut dice = Dice::new(13);
    let run = Run::begin(&nodes, PATIENT).await;
    for absence in [WITHIN_THE_LEASE, BEYOND_THE_LEASE] {
        run.goes_on(120).await;
        let node = nodes.any(&mut dice);
        nodes.ways()[node].close();
        tokio::time::sleep(absence).await;
        let is_told = !nodes.is_ready(node);
        assert!(is_told || absence < BEYOND_THE_LEASE, "it has no lease");
        nodes.ways()[node].open();
    }
    run.goes_on(150).await;
    is_linearizable("three-absences", run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_of_three_nodes_are_linearizable_where_ways_to_the_database_are_cut() {
    let mut nodes = Nodes::three().await;
    nodes.allow_absence();
    let run = Run::begin(&nodes, PATIENT).await;
    for way in nodes.ways() {
        way.cut_after(100_000);
    }
    let cuts = || nodes.ways().iter().map(|way| way.cuts()).sum::<u64>();
    until("connections were cut", SLACK, async || {
        (cuts() > 8).then_some(())
    })
    .await;
    for way in nodes.ways() {
        way.cut_no_more();
    }
    run.goes_on(150).await;
    is_linearizable("three-cuts", run).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planted_stale_read_a_lost_write_and_a_doubled_message_of_three_nodes_are_found() {
    what_is_planted_is_found(&Nodes::three().await, "three").await;
}
