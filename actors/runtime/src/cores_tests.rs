//! Tests of which cores a thread may use: other tests of this process may reserve cores meanwhile, so what
//! holds is looked at only while this one has reserved one, too.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// A thread that does this, and then lives as long as the result.
fn thread(first: fn()) -> (Pid, Sender<()>) {
    let (end, ended): (Sender<()>, Receiver<()>) = channel();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        first();
        tell.send(gettid()).unwrap();
        // An error is the end.
        let _ = ended.recv();
    });
    (told.recv().unwrap(), end)
}

fn cores_of(thread: Pid) -> Vec<usize> {
    let allowed = sched_getaffinity(Some(thread)).unwrap();
    let is_set = |core: &usize| allowed.is_set(*core);
    (0..CpuSet::MAX_CPU).filter(is_set).collect()
}

#[test]
fn a_reserved_core_is_left_to_the_background_and_to_who_computes() {
    let (answering, _answering) = thread(mark_latency_sensitive);
    let (background, _background) = thread(mark_background);
    let (other, _other) = thread(|| ());
    let reserved = reserve_core();
    let all = cores();
    assert_eq!(cores_of(other), all);
    let (front, back) = (cores_of(answering), cores_of(background));
    if all.len() < 2 {
        assert_eq!((front, back), (all.clone(), all));
        return;
    }
    assert_eq!([front.clone(), back.clone()].concat(), all);
    let later = [mark_latency_sensitive, mark_background].map(thread);
    assert_eq!(
        later.each_ref().map(|(thread, _)| cores_of(*thread)),
        [front, back.clone()]
    );
    // Of a background thread that computes something long, the end of that changes nothing.
    let (computed, _computed) = thread(|| {
        mark_background();
        drop(pin_to_batch_cores());
    });
    assert_eq!(cores_of(computed), back);
    drop(reserved);
}
