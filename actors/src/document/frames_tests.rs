//! What is packed comes back, and nothing else does; a history costs what git's packs cost, and is
//! read as fast.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const MAX: usize = 8 << 20;

/// A repeatable stream of numbers: the figures below are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % bound
    }

    fn word(&mut self) -> String {
        // A vocabulary of 4,000 words, the first of them the likeliest.
        let mut rank = self.below(4_000) * self.below(4_000) / 4_000 + 1;
        let mut word = String::new();
        while rank > 0 {
            word.push_str(["ka", "re", "to", "mi", "sun", "lo", "ve", "an"][rank % 8]);
            rank /= 8;
        }
        word
    }

    fn line(&mut self) -> String {
        let words: Vec<String> = (0..6 + self.below(10)).map(|_| self.word()).collect();
        match self.below(12) {
            0 => format!("## {}", words[..3].join(" ")),
            1 | 2 => format!(
                "- [{}](https://example.com/{}) {}",
                words[0],
                words[1],
                words[2..].join(" ")
            ),
            3 => String::new(),
            _ => words.join(" "),
        }
    }

    fn markdown(&mut self, bytes: usize) -> Vec<String> {
        let (mut lines, mut written) = (Vec::new(), 0);
        while written < bytes {
            lines.push(self.line());
            written += lines.last().unwrap().len() + 1;
        }
        lines
    }

    /// Changes a word or two, a line, or adds or takes one: what an editor does between two saves.
    fn edit(&mut self, lines: &mut Vec<String>) {
        for _ in 0..=self.below(3) {
            let at = self.below(lines.len());
            match self.below(6) {
                0 => lines.insert(at, self.line()),
                1 if lines.len() > 10 => drop(lines.remove(at)),
                2 => lines[at] = self.line(),
                _ => {
                    let word = self.word();
                    write!(lines[at], " {word}").unwrap();
                }
            }
        }
    }
}

fn text(lines: &[String]) -> String {
    lines.join("\n") + "\n"
}

/// Packs each text on the one before it.
fn history(texts: &[String]) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    for (number, content) in texts.iter().enumerate() {
        let base = number.checked_sub(1).map(|n| Base {
            content: &texts[n],
            place: frames[n].place(),
        });
        frames.push(encode(content, base).unwrap());
    }
    frames
}

/// The frames that a store would read for this one.
fn chain(frames: &[Frame], number: usize) -> &[Frame] {
    &frames[number - usize::from(frames[number].place().depth)..=number]
}

fn git(folder: &Path, arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.current_dir(folder)
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    git.stdout(Stdio::null()).stderr(Stdio::null());
    git
}

/// Bytes of the pack that `git gc` makes of this history.
fn packed_by_git(texts: &[String]) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    assert!(
        git(folder.path(), &["init", "--bare", "."])
            .status()
            .unwrap()
            .success()
    );
    let mut import = git(folder.path(), &["fast-import"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = import.stdin.take().unwrap();
    for (number, text) in texts.iter().enumerate() {
        let head = format!(
            "commit refs/heads/main\ncommitter A <a@a> {number} +0000\ndata 1\nx\nM 644 inline d.md"
        );
        write!(to, "{head}\ndata {}\n{text}\n", text.len()).unwrap();
    }
    drop(to);
    assert!(import.wait().unwrap().success());
    assert!(git(folder.path(), &["gc"]).status().unwrap().success());
    let packs = std::fs::read_dir(folder.path().join("objects/pack"))
        .unwrap()
        .map(|file| file.unwrap().path());
    packs
        .filter(|path| path.extension().is_some_and(|ext| ext == "pack"))
        .map(|p| p.metadata().unwrap().len())
        .sum()
}

fn best_of_three<T>(mut run: impl FnMut() -> T) -> (T, Duration) {
    let mut timed = || {
        let begun = Instant::now();
        (run(), begun.elapsed())
    };
    [timed(), timed(), timed()]
        .into_iter()
        .min_by_key(|(_, took)| *took)
        .unwrap()
}

#[test]
fn a_thousand_versions_take_less_than_git_and_each_is_read_in_5_ms() {
    let mut dice = Dice(42);
    let mut lines = dice.markdown(100_000);
    let mut texts = vec![text(&lines)];
    while texts.len() < 1_000 {
        dice.edit(&mut lines);
        texts.push(text(&lines));
    }
    let begun = Instant::now();
    let frames = history(&texts);
    let packing = begun.elapsed() / 1_000;
    let ours: usize = frames.iter().map(|frame| frame.bytes().len()).sum();
    let gits = packed_by_git(&texts);
    let mut worst = Duration::ZERO;
    for number in (0..1_000).step_by(83).chain([249, 250, 251, 999]) {
        let (content, took) = best_of_three(|| decode_chain(chain(&frames, number), MAX).unwrap());
        assert!(content == texts[number], "version {number}");
        worst = worst.max(took);
    }
    let keyframes = frames.iter().filter(|frame| frame.is_keyframe()).count();
    eprintln!(
        "ours {ours} B with {keyframes} keyframes, git gc {gits} B; worst read {worst:?}, packing {packing:?}"
    );
    assert!(u64::try_from(ours).unwrap() <= 2 * gits);
    // Without optimization the digest alone takes as long.
    assert!(
        worst <= Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 5 }),
        "{worst:?}"
    );
}

#[test]
fn eight_mebibytes_against_their_parent_cost_what_was_changed() {
    let mut dice = Dice(7);
    let mut lines = dice.markdown(MAX - 10_000);
    let before = text(&lines);
    for _ in 0..20 {
        dice.edit(&mut lines);
    }
    // A block that moves from one end to the other: only a window over both texts finds it.
    let block: Vec<String> = lines.drain(..2_000).collect();
    lines.extend(block);
    let after = text(&lines);
    let (first, alone) = best_of_three(|| encode(&before, None).unwrap());
    let base = Base {
        content: &before,
        place: first.place(),
    };
    let (second, patch) = best_of_three(|| encode(&after, Some(base)).unwrap());
    let (content, read) = best_of_three(|| decode(&second, Some(&before), MAX).unwrap());
    assert!(content == after);
    let (keyframe, size) = (first.bytes().len(), second.bytes().len());
    eprintln!(
        "8 MiB: keyframe {keyframe} B in {alone:?}; patch {size} B in {patch:?}, read in {read:?}"
    );
    assert!(!second.is_keyframe() && size < 20_000);
}

#[test]
fn a_chain_ends_by_its_length_and_by_its_bytes() {
    let place = |depth, chain_bytes| Place { depth, chain_bytes };
    assert!(!place(249, 1_000).keyframe_due(100_000));
    assert!(place(250, 1_000).keyframe_due(100_000));
    assert!(
        !place(15, 1_000).keyframe_due(1_000),
        "a short text's chain is shorter"
    );
    assert!(place(16, 1_000).keyframe_due(1_000));
    assert!(!place(6, 7 * (8 << 20)).keyframe_due(8 << 20));
    assert!(place(7, 8 * (8 << 20)).keyframe_due(8 << 20));
    let content = "a".repeat(1_000);
    let full = Base {
        content: &content,
        place: place(250, 1_000),
    };
    assert!(encode(&content, Some(full)).unwrap().is_keyframe());
}

#[test]
fn a_rewritten_text_is_a_keyframe() {
    let (mut one, mut two) = (Dice(1), Dice(2));
    let (before, after) = (text(&one.markdown(50_000)), text(&two.markdown(50_000)));
    let first = encode(&before, None).unwrap();
    let mut noise = String::new();
    for _ in 0..20_000 {
        noise.push(char::from(u8::try_from(33 + two.below(90)).unwrap()));
    }
    assert!(
        encode(
            &noise,
            Some(Base {
                content: &before,
                place: first.place()
            })
        )
        .unwrap()
        .is_keyframe()
    );
    let second = encode(
        &after,
        Some(Base {
            content: &before,
            place: first.place(),
        }),
    )
    .unwrap();
    let base = (!second.is_keyframe()).then_some(before.as_str());
    assert_eq!(decode(&second, base, MAX), Ok(after));
}

#[test]
fn a_bomb_is_refused_before_it_takes_memory() {
    let bomb = encode(&"0".repeat(MAX + 1), None).unwrap();
    assert!(bomb.bytes().len() < 2_000);
    assert_eq!(
        decode(&bomb, None, MAX),
        Err(FrameError::TooLarge { bytes_max: MAX })
    );
    assert_eq!(
        decode_chain(&[bomb], MAX),
        Err(FrameError::TooLarge { bytes_max: MAX })
    );
}

#[test]
fn a_chain_with_a_gap_or_without_its_keyframe_is_refused() {
    let texts = ["one\n", "one\ntwo\n", "one\ntwo\nthree\n"].map(|text| text.repeat(40));
    let frames = history(&texts);
    assert_eq!(decode_chain(&frames, MAX).as_ref(), Ok(&texts[2]));
    assert_eq!(decode_chain(&[], MAX), Err(FrameError::Base));
    assert_eq!(decode_chain(&frames[1..], MAX), Err(FrameError::Base));
    assert_eq!(
        decode_chain(&[frames[0].clone(), frames[2].clone()], MAX),
        Err(FrameError::Base)
    );
    assert_eq!(decode(&frames[1], None, MAX), Err(FrameError::Base));
    assert_eq!(decode(&frames[0], Some("x"), MAX), Err(FrameError::Base));
}

proptest! {
    #[test]
    fn what_is_packed_comes_back(texts in proptest::collection::vec("(\\PC{0,6}[\n\r]{0,2}){0,40}", 1..8)) {
        let frames = history(&texts);
        for (number, text) in texts.iter().enumerate() {
            let stored = Frame::from_bytes(frames[number].bytes().clone()).unwrap();
            prop_assert_eq!(&stored, &frames[number]);
            let base = number.checked_sub(1).filter(|_| !stored.is_keyframe()).map(|n| texts[n].as_str());
            prop_assert_eq!(decode(&stored, base, MAX), Ok(text.clone()));
            prop_assert_eq!(decode_chain(chain(&frames, number), MAX), Ok(text.clone()));
        }
    }

    #[test]
    fn a_damaged_frame_or_a_wrong_base_is_an_error_or_the_same_text(
        seed in 1..u64::MAX, at in any::<prop::sample::Index>(), bit in 0..8_u8, cut in any::<prop::sample::Index>(),
    ) {
        let mut dice = Dice(seed);
        let mut lines = dice.markdown(3_000);
        let before = text(&lines);
        dice.edit(&mut lines);
        let after = text(&lines);
        let frames = history(&[before.clone(), after.clone()]);
        for (frame, base, whole) in [(&frames[0], None, &before), (&frames[1], Some(before.as_str()), &after)] {
            let mut bytes = frame.bytes().to_vec();
            let place = at.index(bytes.len());
            bytes[place] ^= 1 << bit;
            let flipped = Frame::from_bytes(Bytes::from(bytes.clone())).and_then(|frame| decode(&frame, base, MAX));
            prop_assert!(flipped.as_ref().map_or(true, |text| text == whole));
            bytes[place] ^= 1 << bit;
            bytes.truncate(cut.index(bytes.len()));
            prop_assert!(Frame::from_bytes(Bytes::from(bytes)).and_then(|frame| decode(&frame, base, MAX)).is_err());
        }
        if !frames[1].is_keyframe() && before != after {
            let wrong = decode(&frames[1], Some(&after), MAX);
            prop_assert!(wrong.as_ref().map_or(true, |text| *text == after), "{:?}", wrong);
            prop_assert!(decode(&frames[1], Some(""), MAX).is_err());
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), headed in any::<bool>()) {
        let mut bytes = bytes;
        if headed {
            bytes.splice(0..0, encode("", None).unwrap().bytes()[..HEADER_BYTES + 4].iter().copied());
        }
        if let Ok(frame) = Frame::from_bytes(Bytes::from(bytes)) {
            let base = (!frame.is_keyframe()).then_some("base");
            prop_assert!(decode(&frame, base, 1 << 16).is_err() || headed);
        }
    }
}
