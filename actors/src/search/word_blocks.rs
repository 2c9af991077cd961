//! Words in their order, each with the places where it stands, in blocks of about a page: what is kept of a
//! part of a long text. Knows no SQL.
//!
//! A block holds words one behind the other: how many bytes it has, the word, how many bytes its places
//! have, and the places, the first as it is and each further one as its distance from the one before.
//! Numbers are LEB128.

use std::collections::BTreeMap;

use colloquy_model::leb128;

/// Bytes from which a block takes no further word. With what SQLite adds, one fills a page.
const BLOCK_BYTES: usize = 4_000;

/// The words of a part, while it is made.
#[derive(Debug, Default)]
pub(super) struct WordPlaces(BTreeMap<Box<str>, Places>);

#[derive(Debug, Default)]
struct Places {
    last: u64,
    bytes: Vec<u8>,
}

/// What a part is kept as.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WordBlocks {
    /// The first word of each block, each behind its length.
    pub(super) firsts: Vec<u8>,
    /// In the order of their words.
    pub(super) blocks: Vec<Vec<u8>>,
}

/// What is looked for: a word, or all words that begin with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'w> {
    pub(super) word: &'w str,
    pub(super) goes_on: bool,
}

/// The bytes are no block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoBlock;

impl WordPlaces {
    /// Adds a word at a place; places are added in their order.
    pub(super) fn add(&mut self, word: &str, place: u64) {
        let places = match self.0.get_mut(word) {
            Some(places) => places,
            None => self.0.entry(word.into()).or_default(),
        };
        leb128::put(&mut places.bytes, place - places.last);
        places.last = place;
    }

    pub(super) fn into_blocks(self) -> WordBlocks {
        let mut made = WordBlocks::default();
        for (word, Places { bytes: places, .. }) in self.0 {
            let bytes = word.len() + places.len();
            let fits = |block: &Vec<u8>| block.len() + bytes <= BLOCK_BYTES;
            if !made.blocks.last().is_some_and(fits) {
                made.blocks.push(Vec::with_capacity(BLOCK_BYTES));
                put(&mut made.firsts, word.as_bytes());
            }
            if let Some(block) = made.blocks.last_mut() {
                put(block, word.as_bytes());
                put(block, &places);
            }
        }
        made
    }
}

/// The place of the first block that may have something of what is wanted, and how many blocks there are.
pub(super) fn first_block(
    mut firsts: &[u8],
    wanted: Wanted<'_>,
) -> Result<(usize, usize), NoBlock> {
    let (mut first, mut blocks) = (0, 0_usize);
    while !firsts.is_empty() {
        if take(&mut firsts)? <= wanted.word.as_bytes() {
            first = blocks;
        }
        blocks += 1;
    }
    Ok((first, blocks))
}

/// Adds the places of what is wanted, of each word in their order; whether the next block may have more.
pub(super) fn add_places(
    mut block: &[u8],
    wanted: Wanted<'_>,
    to: &mut Vec<u64>,
) -> Result<bool, NoBlock> {
    let wanted_word = wanted.word.as_bytes();
    while !block.is_empty() {
        let (word, mut places) = (take(&mut block)?, take(&mut block)?);
        if word < wanted_word {
            continue;
        }
        if word != wanted_word && !(wanted.goes_on && word.starts_with(wanted_word)) {
            return Ok(false);
        }
        let mut place = 0_u64;
        while !places.is_empty() {
            let distance = leb128::take(&mut places).ok_or(NoBlock)?;
            place = distance.checked_add(place).ok_or(NoBlock)?;
            to.push(place);
        }
    }
    Ok(true)
}

/// Bytes behind how many they are.
fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    leb128::put(to, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    to.extend_from_slice(bytes);
}

fn take<'b>(from: &mut &'b [u8]) -> Result<&'b [u8], NoBlock> {
    let bytes = leb128::take(from).ok_or(NoBlock)?;
    let bytes = usize::try_from(bytes).map_err(|_| NoBlock)?;
    let (taken, rest) = from.split_at_checked(bytes).ok_or(NoBlock)?;
    *from = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use proptest::prelude::*;

    use super::*;

    fn places(made: &WordBlocks, wanted: Wanted<'_>) -> Vec<u64> {
        let (first, count) = first_block(&made.firsts, wanted).unwrap();
        assert_eq!(count, made.blocks.len());
        let mut places = Vec::new();
        for block in made.blocks.iter().skip(first) {
            if !add_places(block, wanted, &mut places).unwrap() {
                break;
            }
        }
        places.sort_unstable();
        places
    }

    proptest! {
        #[test]
        fn each_word_is_found_where_it_stands(
            words in proptest::collection::vec("[ab]{1,9}|[a-c]{40,64}|é", 0..3_000),
            begin in 0_u64..1 << 40,
            asked in "[a-c]{1,4}",
        ) {
            let mut made = WordPlaces::default();
            for (word, place) in words.iter().zip(begin..) {
                made.add(word, place);
            }
            let made = made.into_blocks();
            for word in words.iter().take(50).chain([&asked]) {
                for goes_on in [false, true] {
                    let is_it = |other: &str| other == word || (goes_on && other.starts_with(word.as_str()));
                    let stands = words.iter().zip(begin..).filter(|(other, _)| is_it(other));
                    let stands: Vec<u64> = stands.map(|(_, place)| place).collect();
                    prop_assert_eq!(places(&made, Wanted { word, goes_on }), stands, "{} {}", word, goes_on);
                }
            }
            // A block is left smaller only where the next word has no room in it.
            for two in made.blocks.windows(2) {
                let bytes: usize = two.iter().map(Vec::len).sum();
                prop_assert!(bytes > BLOCK_BYTES);
            }
        }

        #[test]
        fn no_bytes_do_harm(bytes: Vec<u8>) {
            let wanted = Wanted { word: "a", goes_on: true };
            let _ = first_block(&bytes, wanted);
            let _ = add_places(&bytes, wanted, &mut Vec::new());
        }
    }
}
