//! Names of a query or a form: compared with a set of known ones, and few.

use super::Neighbour;
use crate::support::{Server, raw};

/// `aaa&aab&aac…`, so many bytes.
fn names(bytes: usize) -> String {
    let letters = || 'a'..='z';
    let mut text = String::with_capacity(bytes + 5);
    for (((a, b), c), d) in letters()
        .flat_map(|a| letters().map(move |b| (a, b)))
        .flat_map(|ab| letters().map(move |c| (ab, c)))
        .flat_map(|abc| letters().map(move |d| (abc, d)))
    {
        text.extend([a, b, c, d, '&']);
        if text.len() >= bytes {
            break;
        }
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_of_many_names_at_a_link_that_does_not_exist() {
    let server = Server::start();
    let neighbour = Neighbour::of(&server).await;
    let form = names(900_000);
    let request = format!(
        "POST /s/anything HTTP/1.1\r\nHost: test\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let attack = async {
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(raw::exchange(&server.address(), request.as_bytes()).await.status);
        }
        statuses
    };
    let beside = neighbour.beside("900 KB of names in a form", attack).await;
    assert!(beside.attack.iter().all(|status| (400..500).contains(status)), "{:?}", beside.attack);
    assert!(beside.peak_bytes < 200 << 20, "{} bytes", beside.peak_bytes);
}
