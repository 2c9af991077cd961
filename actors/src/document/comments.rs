//! The comments of a document as its actor holds them: what they say and where their lines stand,
//! apart from each other, so that a new head that moves all of them rewrites no words. Where they
//! stand goes into one small row; a comment's own row says it too, as of when it was last written,
//! and counts where that row does not name the comment.

use std::sync::Arc;

use bytes::Bytes;
use colloquy_merge::diff::Change;
use serde::{Deserialize, Serialize};

use super::anchors::LineRange;
use super::views::CommentView;
use crate::store::StoredComment;
use colloquy_model::damage::Unreadable;
use colloquy_model::id::{CommentId, DocumentId, UserId, VersionId};
use colloquy_model::json::text;
use colloquy_model::leb128;
use colloquy_model::time::Timestamp;

/// A comment's own part, who wrote what and when; the lines that it stands on are its [`Anchor`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Comment {
    pub(super) id: CommentId,
    pub(super) body: String,
    pub(super) author: Option<UserId>,
    pub(super) resolved: bool,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

/// A comment as a list holds it: with its anchor, to be written out off the arbiter.
#[derive(Debug)]
pub struct ListedComment {
    pub(super) comment: Arc<Comment>,
    pub(super) anchor: Anchor,
    /// The version in which its lines stand.
    pub(super) version: VersionId,
}

/// In which version a comment's lines stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnchoredTo {
    /// The head, whichever that is.
    Head,
    /// The version of this number: it was not the head when the comment was made.
    Version(u64),
    /// The last head that had them, by number: the next one changed them.
    Outdated(u64),
}

/// The lines that a comment stands on, and in which version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Anchor {
    /// The comment's number in its document.
    pub(super) number: u64,
    pub(super) anchored_to: AnchoredTo,
    pub(super) lines: LineRange,
    /// Whether the comment's own row says something else.
    moved: bool,
}

/// Where all comments stand, in the order of their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Anchors {
    list: Vec<Anchor>,
    /// Whether the next head must write them in any case: rows of an earlier release don't say that
    /// they follow the head.
    due: bool,
}

/// All comments, oldest first. A handle: clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Comments {
    all: Arc<Vec<Arc<Comment>>>,
    anchors: Arc<Anchors>,
    /// Bytes of the bodies of all comments.
    bytes: usize,
}

/// Where comments stand that have followed a new head, and what is stored of it; none: nothing of
/// it has changed.
pub(super) type Moved = Option<(Arc<Anchors>, Bytes)>;

/// A comment's row: where it stood when it was written.
#[derive(Serialize, Deserialize)]
struct Row {
    #[serde(flatten)]
    view: CommentView,
    /// Whether it stands on the head, whichever that is; none: written by an earlier release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    follows: Option<bool>,
}

impl Comment {
    /// As the interface shows it, where its lines stand in that version.
    pub(super) fn view(&self, anchor: &Anchor, version: VersionId) -> CommentView {
        CommentView {
            comment_id: self.id,
            version,
            start_line: anchor.lines.start(),
            end_line: anchor.lines.end(),
            body: self.body.clone(),
            author: self.author,
            resolved: self.resolved,
            outdated: matches!(anchor.anchored_to, AnchoredTo::Outdated(_)),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}

impl ListedComment {
    /// The comment as the interface shows it.
    pub(super) fn view(&self) -> CommentView {
        self.comment.view(&self.anchor, self.version)
    }
}

impl Anchor {
    /// The anchor of a comment that is made now, whose row will say the same.
    pub(super) fn new(number: u64, anchored_to: AnchoredTo, lines: LineRange) -> Self {
        Anchor {
            number,
            anchored_to,
            lines,
            moved: false,
        }
    }

    /// What is written of a comment that stands here.
    pub(super) fn row(&self, view: CommentView) -> String {
        let follows = Some(self.anchored_to == AnchoredTo::Head);
        text(&Row { view, follows })
    }

    /// Where the same lines stand in a new head, or that it has changed them.
    fn following(self, head: u64, moves: &[Change]) -> Self {
        if self.anchored_to != AnchoredTo::Head {
            return self;
        }
        match self.lines.follow(moves) {
            Some(lines) if lines == self.lines => self,
            Some(lines) => Anchor {
                lines,
                moved: true,
                ..self
            },
            None => Anchor {
                anchored_to: AnchoredTo::Outdated(head),
                moved: true,
                ..self
            },
        }
    }
}

impl Anchors {
    /// Whether any of them follows a new head.
    pub(super) fn follow_the_head(&self) -> bool {
        self.list
            .iter()
            .any(|anchor| anchor.anchored_to == AnchoredTo::Head)
    }

    /// Where they stand once the head of this number has got a successor, which differs in these
    /// places.
    pub(super) fn followed(&self, head: u64, moves: &[Change]) -> Moved {
        let is_still = |anchor: &&Anchor| anchor.following(head, moves) == **anchor;
        if !self.due && self.list.iter().all(|anchor| is_still(&anchor)) {
            return None;
        }
        let list = self
            .list
            .iter()
            .map(|anchor| anchor.following(head, moves))
            .collect();
        let next = Anchors { list, due: false };
        let bytes = next.to_bytes();
        Some((Arc::new(next), bytes))
    }

    /// Those whose rows say something else: four numbers each, as LEB128. The first is how far the
    /// comment's number is from that of the one before.
    fn to_bytes(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(8 * self.list.len());
        let mut last = 0;
        for anchor in self.list.iter().filter(|anchor| anchor.moved) {
            let (kind, version) = match anchor.anchored_to {
                AnchoredTo::Head => (0, 0),
                AnchoredTo::Version(version) => (1, version),
                AnchoredTo::Outdated(version) => (2, version),
            };
            leb128::put(&mut bytes, anchor.number - last);
            leb128::put(&mut bytes, anchor.lines.start());
            leb128::put(&mut bytes, anchor.lines.end() - anchor.lines.start());
            leb128::put(&mut bytes, version * 3 + kind);
            last = anchor.number;
        }
        bytes.into()
    }

    /// Puts what [`Anchors::to_bytes`] gave over what the comments' rows say; none where it can't
    /// be read.
    fn overlay(&mut self, bytes: &[u8]) -> Option<()> {
        let mut rest = bytes;
        let mut number = 0_u64;
        while !rest.is_empty() {
            number = number.checked_add(leb128::take(&mut rest)?)?;
            let start = leb128::take(&mut rest)?;
            let lines = LineRange::of(start, start.checked_add(leb128::take(&mut rest)?)?);
            let anchored_to = leb128::take(&mut rest)?;
            let anchored_to = match anchored_to % 3 {
                0 => AnchoredTo::Head,
                1 => AnchoredTo::Version(anchored_to / 3),
                _ => AnchoredTo::Outdated(anchored_to / 3),
            };
            // A comment that was taken away may still be named.
            if let Ok(place) = self.place(number)
                && let Some(anchor) = self.list.get_mut(place)
            {
                *anchor = Anchor {
                    number,
                    anchored_to,
                    lines,
                    moved: true,
                };
            }
        }
        Some(())
    }

    fn place(&self, number: u64) -> Result<usize, usize> {
        self.list
            .binary_search_by_key(&number, |anchor| anchor.number)
    }
}

impl Comments {
    /// As they are stored: their rows in the order of their numbers, and where they stand.
    ///
    /// # Errors
    /// One of these can't be read, which is told.
    pub(super) fn restored(
        id: DocumentId,
        rows: &[StoredComment],
        anchors: Option<&[u8]>,
        head: VersionId,
    ) -> Result<Self, Unreadable> {
        let mut comments = Vec::with_capacity(rows.len());
        let mut stand = Anchors::default();
        for StoredComment { number, body } in rows {
            let row = serde_json::from_str(body);
            let Row { view, follows } = row.map_err(|error| {
                Unreadable::found(format_args!("{id}: comment {number}"), error)
            })?;
            let version = view.version.ordinal();
            let anchored_to = match follows {
                _ if view.outdated => AnchoredTo::Outdated(version),
                Some(true) => AnchoredTo::Head,
                None if view.version == head => AnchoredTo::Head,
                Some(false) | None => AnchoredTo::Version(version),
            };
            let moved = follows.is_none() && anchored_to == AnchoredTo::Head;
            let lines = LineRange::of(view.start_line, view.end_line);
            stand.due |= moved;
            stand.list.push(Anchor {
                number: *number,
                anchored_to,
                lines,
                moved,
            });
            comments.push(Arc::new(Comment {
                id: view.comment_id,
                body: view.body,
                author: view.author,
                resolved: view.resolved,
                created_at: view.created_at,
                updated_at: view.updated_at,
            }));
        }
        let overlaid = stand.overlay(anchors.unwrap_or_default());
        overlaid.ok_or_else(|| {
            Unreadable::found(format_args!("{id}: where comments stand"), "it is damaged")
        })?;
        let bytes = comments.iter().map(|comment| comment.body.len()).sum();
        Ok(Comments {
            all: Arc::new(comments),
            anchors: Arc::new(stand),
            bytes,
        })
    }

    /// How many comments there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Bytes of the bodies of all comments.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The anchors of all comments, shared.
    pub(super) fn anchors(&self) -> &Arc<Anchors> {
        &self.anchors
    }

    /// Takes over where all comments stand from now on.
    pub(super) fn stand(&mut self, anchors: Arc<Anchors>) {
        self.anchors = anchors;
    }

    /// All of them, oldest first, with where they stand.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Arc<Comment>, &Anchor)> {
        self.all.iter().zip(&self.anchors.list)
    }

    /// The comment with this identifier, and where it stands.
    pub(super) fn get(&self, id: CommentId) -> Option<(&Comment, &Anchor)> {
        let place = self.anchors.place(id.ordinal()).ok()?;
        let comment = self.all.get(place).filter(|comment| comment.id == id)?;
        Some((comment, self.anchors.list.get(place)?))
    }

    /// Adds a comment, or replaces the one of the same number.
    pub(super) fn put(&mut self, comment: Comment, anchor: Anchor) {
        self.bytes += comment.body.len();
        match self.anchors.place(anchor.number) {
            Ok(place) => {
                if let Some(held) = Arc::make_mut(&mut self.all).get_mut(place) {
                    self.bytes = self.bytes.saturating_sub(held.body.len());
                    *held = Arc::new(comment);
                }
            }
            Err(place) => {
                Arc::make_mut(&mut self.all).insert(place, Arc::new(comment));
                Arc::make_mut(&mut self.anchors).list.insert(place, anchor);
            }
        }
    }

    /// Removes a comment, if there is one with this identifier.
    pub(super) fn remove(&mut self, id: CommentId) {
        if let Ok(place) = self.anchors.place(id.ordinal()) {
            let gone = Arc::make_mut(&mut self.all).remove(place);
            self.bytes = self.bytes.saturating_sub(gone.body.len());
            Arc::make_mut(&mut self.anchors).list.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::sync::OnceLock;

    use proptest::prelude::*;

    use super::super::anchors::change;
    use super::*;

    /// The same one each time that it is asked for.
    fn version(number: u64) -> VersionId {
        static IDS: OnceLock<Vec<VersionId>> = OnceLock::new();
        let ids = IDS.get_or_init(|| {
            (0..64)
                .map(|number| VersionId::with_ordinal(Timestamp(1_000_000), number))
                .collect()
        });
        *ids.get(usize::try_from(number).unwrap()).unwrap()
    }

    fn comment(number: u64) -> Comment {
        Comment {
            id: CommentId::with_ordinal(Timestamp(1_000_000), number),
            body: format!("words of {number}"),
            author: None,
            resolved: false,
            created_at: Timestamp(1_000_000),
            updated_at: Timestamp(1_000_000),
        }
    }

    /// What a store would hold.
    #[derive(Default)]
    struct Stored {
        rows: Vec<StoredComment>,
        anchors: Option<Bytes>,
        written: usize,
    }

    impl Stored {
        fn put(&mut self, comments: &mut Comments, anchor: Anchor, head: u64) {
            let comment = comment(anchor.number);
            let number = match anchor.anchored_to {
                AnchoredTo::Head => head,
                AnchoredTo::Version(number) | AnchoredTo::Outdated(number) => number,
            };
            let row = anchor.row(comment.view(&anchor, version(number)));
            comments.put(comment, anchor);
            self.rows.retain(|row| row.number != anchor.number);
            self.rows.push(StoredComment {
                number: anchor.number,
                body: row,
            });
            self.rows.sort();
        }

        fn follow(&mut self, comments: &mut Comments, head: u64, moves: &[Change]) {
            if let Some((anchors, bytes)) = comments.anchors().followed(head, moves) {
                comments.stand(anchors);
                self.written += bytes.len();
                self.anchors = Some(bytes);
            }
        }

        fn restored(&self, head: u64) -> Comments {
            Comments::restored(
                DocumentId::new(Timestamp(1)),
                &self.rows,
                self.anchors.as_deref(),
                version(head),
            )
            .unwrap()
        }
    }

    fn shown(comments: &Comments) -> Vec<(u64, AnchoredTo, u64, u64, String)> {
        let one = |(comment, anchor): (&Arc<Comment>, &Anchor)| {
            (
                anchor.number,
                anchor.anchored_to,
                anchor.lines.start(),
                anchor.lines.end(),
                comment.body.clone(),
            )
        };
        comments.iter().map(one).collect()
    }

    #[test]
    fn a_head_that_moves_nothing_writes_nothing_and_one_that_moves_all_writes_no_words() {
        let (mut stored, mut comments) = (Stored::default(), Comments::default());
        for number in 1..=10_000 {
            let lines = LineRange::of(number, number);
            stored.put(
                &mut comments,
                Anchor::new(number, AnchoredTo::Head, lines),
                1,
            );
        }
        stored.follow(&mut comments, 1, &[change(20_000, 1, 20_000, 5)]);
        assert!(stored.anchors.is_none(), "an edit below all of them");
        assert_eq!(shown(&stored.restored(2)), shown(&comments));
        stored.follow(&mut comments, 2, &[change(0, 0, 0, 1)]);
        assert!(
            (10_000..80_000).contains(&stored.written),
            "{} bytes for 10,000 that moved",
            stored.written
        );
        assert_eq!(shown(&stored.restored(3)), shown(&comments));
    }

    #[test]
    fn rows_of_an_earlier_release_follow_the_head_as_they_did() {
        let anchors = [
            (1, AnchoredTo::Head),
            (2, AnchoredTo::Version(1)),
            (3, AnchoredTo::Outdated(2)),
        ];
        let (mut stored, mut comments) = (Stored::default(), Comments::default());
        for (number, anchored_to) in anchors {
            stored.put(
                &mut comments,
                Anchor::new(number, anchored_to, LineRange::of(1, 2)),
                3,
            );
        }
        for StoredComment { body: row, .. } in &mut stored.rows {
            *row = row
                .replace(",\"follows\":true", "")
                .replace(",\"follows\":false", "");
            assert!(!row.contains("follows"));
        }
        let mut old = stored.restored(3);
        assert_eq!(shown(&old), shown(&comments));
        stored.follow(&mut old, 3, &[change(9, 1, 9, 1)]);
        assert!(
            stored.anchors.is_some(),
            "requester follows is written down, though nobody moved"
        );
        assert_eq!(shown(&stored.restored(4)), shown(&comments));
    }

    proptest! {
        #[test]
        fn what_is_restored_is_what_was_held(
            steps in proptest::collection::vec((0..4_u8, any::<proptest::sample::Index>(), 0..30_usize, 0..4_usize), 0..40),
        ) {
            let (mut stored, mut comments, mut head, mut made) = (Stored::default(), Comments::default(), 1, 0);
            for (step, which, at, lines) in steps {
                let held = if comments.len() == 0 { None } else { comments.iter().nth(which.index(comments.len())) };
                match (step, held.map(|(comment, anchor)| (comment.id, *anchor))) {
                    (0, _) => {
                        made += 1;
                        let anchored_to = if lines == 0 && head > 1 { AnchoredTo::Version(head - 1) } else { AnchoredTo::Head };
                        let start = at as u64 + 1;
                        let anchor = Anchor::new(made, anchored_to, LineRange::of(start, start + lines as u64));
                        stored.put(&mut comments, anchor, head);
                    }
                    (1, Some((_, anchor))) => stored.put(&mut comments, anchor, head),
                    (2, Some((id, _))) => {
                        comments.remove(id);
                        stored.rows.retain(|row| row.number != id.ordinal());
                    }
                    _ => {
                        stored.follow(&mut comments, head, &[change(at, lines, at, 3 - lines.min(3))]);
                        head += 1;
                    }
                }
                let restored = stored.restored(head);
                prop_assert_eq!(shown(&restored), shown(&comments));
                prop_assert_eq!(restored.bytes(), comments.bytes());
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Comments::restored(DocumentId::new(Timestamp(1)), &[], Some(&bytes), version(1));
        }
    }
}
