//! What is left out where the store is MongoDB is named, with its reason, and is there.

use std::process::Command;

/// A line of the list: what it names and why.
struct LeftOut<'l> {
    name: &'l str,
    reason: &'l str,
}

fn left_out(list: &str) -> impl Iterator<Item = LeftOut<'_>> {
    let lines = list.lines().filter(|line| !line.is_empty());
    let named = lines.filter(|line| !line.starts_with('#'));
    named.map(|line| {
        let (name, reason) = line.split_once("  ").unwrap_or((line, ""));
        LeftOut { name, reason }
    })
}

/// The names of all tests of this binary.
fn tests() -> Vec<String> {
    let listed = Command::new(std::env::current_exe().unwrap())
        .arg("--list")
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    names.map(str::to_owned).collect()
}

#[test]
fn what_is_left_out_on_mongodb_is_there_and_has_a_reason() {
    let tests = tests();
    let list = include_str!("../support/not_on_mongodb.txt");
    let mut lines = 0;
    for LeftOut { name, reason } in left_out(list) {
        lines += 1;
        assert!(reason.split(' ').count() > 4, "{name}: why not? {reason:?}");
        let is_named = |test: &&String| match name.strip_suffix("::") {
            Some(_) => test.starts_with(name),
            None => *test == name,
        };
        assert!(
            tests.iter().any(|test| is_named(&test)),
            "no test is {name}"
        );
    }
    assert!(lines > 0, "the list says nothing");
}
