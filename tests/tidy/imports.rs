//! Who imports whom, as far as a reader of the sources can tell: paths that begin with `crate`,
//! `self`, `super` or the name of a crate under `actors/`, in code that is not a test. Knows Rust's
//! words and nothing of the house.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The place of a module in its crate, from the root.
pub(super) type Module = Vec<String>;

/// A piece of source text; comments are none.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    /// `::`
    Separator,
    Sign(char),
}

impl Token {
    fn word(&self) -> Option<&str> {
        match self {
            Token::Word(word) => Some(word),
            Token::Text(_) | Token::Separator | Token::Sign(_) => None,
        }
    }

    fn is(&self, sign: char) -> bool {
        *self == Token::Sign(sign)
    }
}

/// One crate's modules and what each of them names.
pub(super) struct Crate {
    files: BTreeMap<Module, Source>,
}

/// A module that is no test.
struct Source {
    path: PathBuf,
    named: Vec<Named>,
}

/// A path that a module names.
#[derive(Debug)]
struct Named {
    /// From its crate's root, or with the name of another crate in front.
    path: Vec<String>,
    /// Of another crate under `actors/`.
    foreign: bool,
    /// The name under which the module shows it to others.
    shown_as: Option<String>,
}

/// One module imports another one of the same crate.
pub(super) struct Import<'c> {
    pub(super) from: &'c Module,
    pub(super) to: &'c Module,
    pub(super) file: &'c Path,
}

impl Crate {
    /// Reads the crate whose root file lies in this folder.
    pub(super) fn read(folder: &Path) -> Self {
        let mut paths = BTreeMap::new();
        modules_below(folder, &[], &mut paths);
        let mut files = BTreeMap::new();
        let mut tests = BTreeSet::new();
        for (module, path) in &paths {
            let text = fs::read_to_string(path).unwrap();
            let (tokens, test_files) = without_tests(tokens(&text));
            let beside = path.parent().unwrap();
            let own = match path.file_stem().and_then(|stem| stem.to_str()) {
                Some("mod" | "lib") => beside.to_owned(),
                stem => beside.join(stem.unwrap()),
            };
            for test in test_files {
                // Named by `#[path]` it lies beside this file, otherwise below its module.
                tests.extend([beside.join(&test), own.join(&test)]);
            }
            let children = paths
                .keys()
                .filter(|child| child.len() == module.len() + 1 && child.starts_with(module))
                .map(|child| child[module.len()].clone())
                .collect();
            let named = Reader {
                tokens: &tokens,
                module,
                children: &children,
            }
            .named();
            let path = path.clone();
            files.insert(module.clone(), Source { path, named });
        }
        files.retain(|_, source| {
            let stem = source.path.with_extension("");
            !tests.iter().any(|test| {
                let test = test.with_extension("");
                stem == test || stem.starts_with(&test)
            })
        });
        Self { files }
    }

    /// Every import of a crate under `actors/`: the file, and the crate's name.
    pub(super) fn foreign(&self) -> impl Iterator<Item = (&Module, &Path, &str)> {
        self.files.iter().flat_map(|(module, source)| {
            let foreign = source.named.iter().filter(|named| named.foreign);
            foreign.map(move |named| (module, source.path.as_path(), named.path[0].as_str()))
        })
    }

    /// Every import of one module by another one. Where a module only shows what stands in another
    /// one, whoever uses that imports the other one, and the module that shows it imports nothing.
    pub(super) fn imports(&self) -> Vec<Import<'_>> {
        let mut imports = Vec::new();
        for (from, source) in &self.files {
            let own = source
                .named
                .iter()
                .filter(|named| !named.foreign && named.shown_as.is_none());
            for named in own {
                if let Some(to) = self.defines(&named.path, 0)
                    && to != from
                {
                    let file = source.path.as_path();
                    imports.push(Import { from, to, file });
                }
            }
        }
        imports
    }

    /// The module in which the thing at this path is defined.
    fn defines(&self, path: &[String], shown: usize) -> Option<&Module> {
        const SHOWN_MAX: usize = 8;
        let depth = (0..=path.len()).rev();
        let (module, source) = depth
            .filter_map(|depth| self.files.get_key_value(&path[..depth]))
            .next()?;
        let rest = &path[module.len()..];
        let target = rest.first().and_then(|name| {
            let shows = |named: &&Named| !named.foreign && named.shown_as.as_ref() == Some(name);
            source.named.iter().find(shows)
        });
        match target {
            Some(target) if shown < SHOWN_MAX => {
                let path: Vec<String> = target.path.iter().chain(&rest[1..]).cloned().collect();
                self.defines(&path, shown + 1)
            }
            _ => Some(module),
        }
    }
}

fn modules_below(folder: &Path, module: &[String], found: &mut BTreeMap<Module, PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let own: Module = module.iter().cloned().chain([stem.clone()]).collect();
        if path.is_dir() {
            modules_below(&path, &own, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_root = matches!(stem.as_str(), "mod" | "lib" | "main");
            found.insert(if is_root { module.to_vec() } else { own }, path);
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        rest = if rest.starts_with("//") {
            rest.find('\n').map_or("", |end| &rest[end..])
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or("", |end| &rest[end + 2..])
        } else if let Some(behind) = rest.strip_prefix("::") {
            tokens.push(Token::Separator);
            behind
        } else if let Some((literal, behind)) = literal(rest) {
            tokens.push(Token::Text(literal));
            behind
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
            tokens.push(Token::Word(word.to_owned()));
            behind
        } else {
            if !first.is_whitespace() {
                tokens.push(Token::Sign(first));
            }
            &rest[first.len_utf8()..]
        };
    }
    tokens
}

/// A string, byte string or character at the beginning, and what stands behind it.
fn literal(text: &str) -> Option<(String, &str)> {
    let body = text.strip_prefix('b').unwrap_or(text);
    if let Some(raw) = body.strip_prefix('r') {
        let marks = raw.len() - raw.trim_start_matches('#').len();
        if let Some(inside) = raw[marks..].strip_prefix('"') {
            let close = format!("\"{}", "#".repeat(marks));
            let end = inside.find(&close)?;
            return Some((inside[..end].to_owned(), &inside[end + close.len()..]));
        }
    }
    let quote = body
        .chars()
        .next()
        .filter(|first| matches!(first, '"' | '\''))?;
    let inside = &body[1..];
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        if c == quote && !escaped {
            return Some((inside[..at].to_owned(), &inside[at + 1..]));
        }
        // A lifetime has no second quote.
        if quote == '\'' && at > 0 && !inside.starts_with('\\') {
            return None;
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

/// What is compiled without tests, and the files of modules that are not.
fn without_tests(tokens: Vec<Token>) -> (Vec<Token>, Vec<String>) {
    let attribute = ["#", "[", "cfg", "(", "test", ")", "]"];
    let is_at = |at: usize| {
        attribute.iter().enumerate().all(|(ahead, wanted)| {
            tokens.get(at + ahead).is_some_and(|token| match token {
                Token::Word(word) => word == wanted,
                Token::Sign(sign) => wanted.starts_with(*sign),
                Token::Text(_) | Token::Separator => false,
            })
        })
    };
    let (mut kept, mut files, mut at) = (Vec::new(), Vec::new(), 0);
    while at < tokens.len() {
        if is_at(at) {
            let end = end_of_item(&tokens, at + attribute.len());
            files.extend(file_of(&tokens[at..end]));
            at = end;
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    (kept, files)
}

/// Where the item that begins here, behind its attributes perhaps, is over.
fn end_of_item(tokens: &[Token], begin: usize) -> usize {
    let mut depth = 0_usize;
    let mut in_attribute = false;
    for (at, token) in tokens.iter().enumerate().skip(begin) {
        match token {
            Token::Sign('#') if depth == 0 => in_attribute = true,
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(close @ (')' | ']' | '}')) => {
                depth = depth.saturating_sub(1);
                if depth == 0 && *close == ']' && in_attribute {
                    in_attribute = false;
                } else if depth == 0 && *close == '}' {
                    return at + 1;
                }
            }
            Token::Sign(';') if depth == 0 => return at + 1,
            Token::Word(_) | Token::Text(_) | Token::Separator | Token::Sign(_) => {}
        }
    }
    tokens.len()
}

/// The file of `mod name;`, with its `#[path = "…"]`.
fn file_of(item: &[Token]) -> Option<String> {
    let name = item.windows(3).find_map(|three| match three {
        [Token::Word(module), Token::Word(name), Token::Sign(';')] if module == "mod" => Some(name),
        _ => None,
    })?;
    let path = item.windows(3).find_map(|three| match three {
        [Token::Word(path), Token::Sign('='), Token::Text(file)] if path == "path" => Some(file),
        _ => None,
    });
    Some(path.map_or_else(|| format!("{name}.rs"), Clone::clone))
}

/// Reads the paths that a module names.
struct Reader<'t> {
    tokens: &'t [Token],
    module: &'t Module,
    /// Modules below it, which it may name without `self`.
    children: &'t BTreeSet<String>,
}

impl Reader<'_> {
    fn named(&self) -> Vec<Named> {
        let mut named = Vec::new();
        let (mut at, mut shows) = (0, false);
        while at < self.tokens.len() {
            let token = &self.tokens[at];
            if token.word() == Some("use") {
                shows = self.is_public(at);
            } else if token.is(';') {
                shows = false;
            }
            if self.begins_path(at) {
                let mut found = Vec::new();
                at = self.tree(at, Vec::new(), &mut found);
                named.extend(
                    found
                        .into_iter()
                        .filter_map(|(path, name)| self.absolute(path, shows.then_some(name))),
                );
            } else {
                at += 1;
            }
        }
        named
    }

    /// Whether the `use` here shows its names to other modules.
    fn is_public(&self, at: usize) -> bool {
        self.tokens[..at]
            .last()
            .is_some_and(|before| before.word() == Some("pub") || before.is(')'))
    }

    fn begins_path(&self, at: usize) -> bool {
        let Some(word) = self.tokens[at].word() else {
            return false;
        };
        let before = at.checked_sub(1).map(|before| &self.tokens[before]);
        let goes_on = self.tokens.get(at + 1) == Some(&Token::Separator);
        // `pub(in crate::store)` names whom it is shown to.
        let is_begin =
            before.is_none_or(|before| *before != Token::Separator && before.word() != Some("in"));
        let known = matches!(word, "crate" | "self" | "super")
            || word.starts_with("colloquy_")
            || self.children.contains(word);
        goes_on && is_begin && known
    }

    /// Reads one tree of a path from here on; gives where it ends.
    fn tree(
        &self,
        mut at: usize,
        mut path: Vec<String>,
        found: &mut Vec<(Vec<String>, String)>,
    ) -> usize {
        loop {
            match self.tokens.get(at) {
                Some(Token::Word(word)) => {
                    path.push(word.clone());
                    at += 1;
                }
                Some(Token::Sign('{')) => return self.group(at + 1, &path, found),
                Some(Token::Sign('*')) => {
                    path.push("*".to_owned());
                    at += 1;
                }
                _ => break,
            }
            if self.tokens.get(at) != Some(&Token::Separator) {
                break;
            }
            at += 1;
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if name == "self" {
            path.pop();
            name = path.last().cloned().unwrap_or_default();
        }
        if self.tokens.get(at).and_then(Token::word) == Some("as")
            && let Some(alias) = self.tokens.get(at + 1).and_then(Token::word)
        {
            name = alias.to_owned();
            at += 2;
        }
        found.push((path, name));
        at
    }

    /// Reads `a, b::c}`.
    fn group(
        &self,
        mut at: usize,
        path: &[String],
        found: &mut Vec<(Vec<String>, String)>,
    ) -> usize {
        while let Some(token) = self.tokens.get(at) {
            at = match token {
                Token::Sign('}') => return at + 1,
                Token::Sign(',') => at + 1,
                Token::Word(_) | Token::Text(_) | Token::Separator | Token::Sign(_) => {
                    self.tree(at, path.to_vec(), found).max(at + 1)
                }
            };
        }
        at
    }

    /// The path from its crate's root.
    fn absolute(&self, path: Vec<String>, shown_as: Option<String>) -> Option<Named> {
        let first = path.first()?.as_str();
        if let Some(name) = first.strip_prefix("colloquy_") {
            let path = [name.to_owned()]
                .into_iter()
                .chain(path[1..].iter().cloned());
            return Some(Named {
                path: path.collect(),
                foreign: true,
                shown_as,
            });
        }
        let mut base = match first {
            "crate" => Vec::new(),
            _ => self.module.clone(),
        };
        let mut rest = path.as_slice();
        if matches!(first, "crate" | "self") {
            rest = &rest[1..];
        }
        while rest.first().is_some_and(|word| word == "super") {
            base.pop();
            rest = &rest[1..];
        }
        base.extend(rest.iter().cloned());
        Some(Named {
            path: base,
            foreign: false,
            shown_as,
        })
    }
}
