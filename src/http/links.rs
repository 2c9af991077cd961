//! `Link` headers (RFC 8288): the next and the previous page, in the style in which the list was
//! asked for.

use bytes::Bytes;
use colloquy_model::page::{PageData, Start};
use serde::Deserialize;

use super::output::{LinkStyle, Listing};

/// The header's value; none where there is only this page.
pub(super) fn link(path: &str, query: &str, listing: &Listing) -> Option<String> {
    let (next, previous) = match (listing.style, listing.paging.start) {
        (LinkStyle::Sequence, _) => by_sequence(listing),
        (LinkStyle::Cursor, _) => (listing.page.last.clone().map(|last| ("after", last)), None),
        (LinkStyle::Plain, Start::Offset(offset)) => by_offset(listing, offset),
        (LinkStyle::Plain, Start::After(_) | Start::Before(_)) => by_id(listing),
    };
    let mut value = String::new();
    for (step, relation) in [(next, "next"), (previous, "prev")] {
        let Some((name, at)) = step else { continue };
        if !value.is_empty() {
            value.push_str(", ");
        }
        value.push_str(&format!(
            "<{path}?{}{name}={at}>; rel=\"{relation}\"",
            others(query)
        ));
    }
    (!value.is_empty()).then_some(value)
}

type Step = Option<(&'static str, String)>;

fn by_offset(listing: &Listing, offset: u64) -> (Step, Step) {
    let end = offset.saturating_add(u64::from(listing.page.count));
    let next =
        (listing.page.count > 0 && end < listing.page.total).then(|| ("offset", end.to_string()));
    // From beyond the end it leads to the last page that has something.
    let before = offset
        .min(listing.page.total)
        .saturating_sub(u64::from(listing.paging.limit));
    (
        next,
        (offset > 0 && listing.page.total > 0).then(|| ("offset", before.to_string())),
    )
}

fn by_id(listing: &Listing) -> (Step, Step) {
    let page = &listing.page;
    let step =
        |more: bool, name, id: &Option<String>| id.clone().filter(|_| more).map(|id| (name, id));
    (
        step(page.after, "after", &page.last),
        step(page.before, "before", &page.first),
    )
}

fn by_sequence(listing: &Listing) -> (Step, Step) {
    #[derive(Deserialize)]
    struct Item {
        seq: u64,
    }
    let page = &listing.page;
    let items: Vec<Item> = match &page.data {
        PageData::Array(array) => serde_json::from_slice(array).unwrap_or_default(),
        PageData::Items(items) => {
            let ends = items.first().into_iter().chain(items.last());
            let seq = |item: &Bytes| serde_json::from_slice(item).ok();
            ends.map(seq).collect::<Option<_>>().unwrap_or_default()
        }
    };
    let step = |more: bool, name, item: Option<&Item>| {
        item.filter(|_| more)
            .map(|item| (name, item.seq.to_string()))
    };
    (
        step(page.after, "after_seq", items.last()),
        step(page.before, "before_seq", items.first()),
    )
}

/// The rest of the query: filters and `limit` go along.
fn others(query: &str) -> String {
    let place = ["offset", "after", "before", "after_seq", "before_seq"];
    let mut kept = String::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        if !place.contains(&name) {
            kept.push_str(pair);
            kept.push('&');
        }
    }
    // What would end the address early can't stand in it.
    kept.replace('>', "%3E").replace('<', "%3C")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use colloquy_model::page::{Cursor, Order, Page, Paging};

    use super::*;
    use colloquy_model::entity_number::EntityNumber;

    fn listing(start: Start, style: LinkStyle, count: u32, total: u64) -> Listing {
        let data = Bytes::from_static(br#"[{"seq":4,"x":1},{"seq":5}]"#);
        let (first, last) = (Some("msg_a".to_owned()), Some("msg_b".to_owned()));
        let page = Page {
            data: data.into(),
            count,
            total,
            first,
            last,
            before: true,
            after: true,
        };
        Listing {
            page,
            paging: Paging {
                limit: 2,
                start,
                order: Order::Desc,
            },
            style,
        }
    }

    #[test]
    fn links_go_on_in_the_same_style() {
        let links = |query, listing| link("/v1/x", query, &listing).unwrap_or_default();
        assert_eq!(
            links(
                "status=active&offset=3&limit=2",
                listing(Start::Offset(3), LinkStyle::Plain, 2, 9)
            ),
            "</v1/x?status=active&limit=2&offset=5>; rel=\"next\", </v1/x?status=active&limit=2&offset=1>; rel=\"prev\""
        );
        assert_eq!(
            links("", listing(Start::Offset(0), LinkStyle::Plain, 2, 2)),
            ""
        );
        assert_eq!(
            links("", listing(Start::Offset(1_000), LinkStyle::Plain, 0, 9)),
            "</v1/x?offset=7>; rel=\"prev\""
        );
        assert_eq!(
            links("", listing(Start::Offset(1_000), LinkStyle::Plain, 0, 0)),
            ""
        );
        assert_eq!(
            links(
                "after=msg_0",
                listing(
                    Start::After(Cursor {
                        number: EntityNumber(1),
                        tail: 1
                    }),
                    LinkStyle::Plain,
                    2,
                    9
                )
            ),
            "</v1/x?after=msg_b>; rel=\"next\", </v1/x?before=msg_a>; rel=\"prev\""
        );
        let by_sequence = listing(Start::Offset(0), LinkStyle::Sequence, 2, 9);
        let mut apart = by_sequence.clone();
        let items = [&br#"{"seq":4}"#[..], b"{}", br#"{"seq":5}"#];
        apart.page.data = PageData::Items(items.map(Bytes::from_static).to_vec());
        for listing in [by_sequence, apart] {
            assert_eq!(
                links("after_seq=3", listing),
                "</v1/x?after_seq=5>; rel=\"next\", </v1/x?before_seq=4>; rel=\"prev\""
            );
        }
    }
}
