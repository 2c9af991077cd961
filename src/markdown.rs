//! Markdown as HTML for pages of ours. What others wrote becomes markup only as far as Markdown goes:
//! HTML in it is shown as text, nothing runs, and nothing is loaded from elsewhere.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::UrlRelative;
use pulldown_cmark::{Alignment, CowStr, Event, HeadingLevel, LinkType, Options, Parser};
use pulldown_cmark::{Tag, TagEnd, html};

/// Bytes of a text that is shown as a page at most. Of prose that long it takes a tenth of a second
/// and 20 MB, of the worst text that was found (paragraphs of one letter) half a second and 120 MB.
pub(crate) const BYTES_MAX: usize = 262_144;
/// Quotes and lists within each other at most: what is open is searched for each new element.
const DEPTH_MAX: usize = 32;
/// Bytes of a page for each of its text at most. Prose takes hardly two.
const GROWTH_MAX: usize = 12;
/// Before every identifier that a text makes, so that it is none of its page's own.
const ID_PREFIX: &str = "text-";
/// Stands where one block ends, until the whole is cleaned: no text can make this.
const CUT: &str = "<hr class=\"cut\">";

/// A paragraph, a list, a table or the like, with where it stands in the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Its first line in the text, from 1.
    pub(crate) first_line: u64,
    /// Its last line.
    pub(crate) last_line: u64,
    /// What a page shows of it, clean.
    pub(crate) html: String,
}

/// The text as HTML; none where it is too long or too deep to be shown as more than plain text.
pub(crate) fn to_html(text: &str) -> Option<String> {
    let blocks = blocks(text)?;
    Some(blocks.into_iter().map(|block| block.html).collect())
}

/// The same in blocks, in the order of their lines.
pub(crate) fn blocks(text: &str) -> Option<Vec<Block>> {
    if text.len() > BYTES_MAX {
        return None;
    }
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_GFM;
    let mut writer = Writer::new(text);
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        writer.take(event, range.start..range.end)?;
    }
    let mut markup = String::new();
    html::push_html(&mut markup, writer.events.into_iter());
    if markup.len() > text.len().saturating_mul(GROWTH_MAX).saturating_add(4_096) {
        return None;
    }
    let clean = without_quotes(&CLEANER.clean(&markup).to_string());
    let blocks = clean.split(CUT).zip(writer.lines);
    let block = |(html, (first_line, last_line)): (&str, (u64, u64))| Block {
        first_line,
        last_line,
        html: html.trim().to_owned(),
    };
    Some(blocks.map(block).collect())
}

/// Lets through what the writer makes, and nothing else: what it should have missed ends here.
static CLEANER: LazyLock<ammonia::Builder<'static>> = LazyLock::new(|| {
    let mut cleaner = ammonia::Builder::empty();
    let tags = [
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "div",
        "em",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "span",
        "strong",
        "sup",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ];
    let headings = ["h2", "h3", "h4", "h5", "h6"].map(|tag| (tag, HashSet::from(["id"])));
    let mut attributes = HashMap::from([
        ("a", HashSet::from(["href", "title"])),
        ("div", HashSet::from(["id"])),
        ("ol", HashSet::from(["start"])),
    ]);
    attributes.extend(headings);
    let alerts = [
        "markdown-alert-note",
        "markdown-alert-tip",
        "markdown-alert-important",
        "markdown-alert-warning",
        "markdown-alert-caution",
    ];
    let classes = HashMap::from([
        ("blockquote", HashSet::from(alerts)),
        ("div", HashSet::from(["wide", "footnote"])),
        ("hr", HashSet::from(["cut"])),
        ("p", HashSet::from(["markup"])),
        ("span", HashSet::from(["task"])),
        ("td", HashSet::from(["center", "right"])),
        ("th", HashSet::from(["center", "right"])),
    ]);
    let reached_by_keys = HashMap::from([("tabindex", HashSet::from(["0"]))]);
    cleaner
        .tags(HashSet::from(tags))
        .tag_attributes(attributes)
        .tag_attribute_values(HashMap::from([("div", reached_by_keys)]))
        .allowed_classes(classes)
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .url_relative(UrlRelative::Custom(Box::new(within_the_page)))
        .link_rel(Some("noopener noreferrer nofollow"))
        .id_prefix(Some(ID_PREFIX));
    cleaner
});

/// An address without a scheme, as far as it leads to another place of the same text.
fn within_the_page(address: &str) -> Option<Cow<'_, str>> {
    let own = address.strip_prefix('#')?.starts_with(ID_PREFIX);
    own.then_some(Cow::Borrowed(address))
}

/// Writes quotation marks between tags as entities: what looks like an attribute there is text to
/// every reader, also to one that takes no notice of tags.
fn without_quotes(markup: &str) -> String {
    let mut written = String::with_capacity(markup.len());
    let (mut in_tag, mut quoted) = (false, false);
    for character in markup.chars() {
        match character {
            '"' if !in_tag => {
                written.push_str("&quot;");
                continue;
            }
            '"' => quoted = !quoted,
            '<' if !quoted => in_tag = true,
            '>' if !quoted => in_tag = false,
            _ => {}
        }
        written.push(character);
    }
    written
}

/// An image that is being read.
struct Image<'t> {
    /// Its address, shown where nothing is said of it.
    address: CowStr<'t>,
    /// How much was written when it began.
    begins: usize,
}

/// A heading that is being read.
struct Heading {
    level: HeadingLevel,
    /// Where its start is written.
    place: usize,
    words: String,
}

/// Turns what the parser finds into what a page may show.
struct Writer<'t> {
    text: &'t str,
    /// How far the text's lines are counted, and how many there are before that place.
    counted: (usize, u64),
    depth: usize,
    /// Whether each link that is open is shown as one.
    links: Vec<bool>,
    images: Vec<Image<'t>>,
    heading: Option<Heading>,
    /// How often each heading's identifier was wanted.
    taken: HashMap<String, usize>,
    notes: HashMap<String, usize>,
    columns: Vec<Alignment>,
    column: usize,
    /// What a cell is here.
    cell_tag: &'static str,
    events: Vec<Event<'t>>,
    /// The first and the last line of each block that is written.
    lines: Vec<(u64, u64)>,
}

impl<'t> Writer<'t> {
    fn new(text: &'t str) -> Self {
        Writer {
            text,
            counted: (0, 1),
            depth: 0,
            links: Vec::new(),
            images: Vec::new(),
            heading: None,
            taken: HashMap::new(),
            notes: HashMap::new(),
            columns: Vec::new(),
            column: 0,
            cell_tag: "td",
            events: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Takes the next event and where it stands; none where the text goes too deep.
    fn take(&mut self, event: Event<'t>, range: std::ops::Range<usize>) -> Option<()> {
        match event {
            Event::Start(tag) => {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return None;
                }
                self.start(tag);
            }
            Event::End(tag) => {
                self.depth = self.depth.saturating_sub(1);
                self.end(tag);
            }
            Event::Html(html) => self.words(html),
            Event::InlineHtml(html) if is_line_break(&html) => self.events.push(Event::HardBreak),
            Event::InlineHtml(html) => self.words(html),
            Event::Text(words) => self.words(words),
            Event::Code(code) => {
                self.hear(&code);
                self.events.push(Event::Code(code));
            }
            Event::FootnoteReference(name) => {
                let number = self.note(&name);
                self.markup(format!(
                    "<sup><a href=\"#{ID_PREFIX}footnote_{number}\">{number}</a></sup>"
                ));
            }
            Event::TaskListMarker(done) => {
                let mark = if done { "\u{2611}" } else { "\u{2610}" };
                self.markup(format!("<span class=\"task\">{mark}</span> "));
            }
            Event::SoftBreak | Event::HardBreak => {
                self.hear(" ");
                self.events.push(event);
            }
            Event::Rule => self.events.push(event),
            Event::InlineMath(words) | Event::DisplayMath(words) => self.words(words),
        }
        if self.depth == 0 {
            let end = range.start
                + self
                    .text
                    .get(range.clone())
                    .unwrap_or_default()
                    .trim_end()
                    .len();
            let first = self.line(range.start);
            let last = self.line(end);
            self.lines.push((first, last));
            self.markup(CUT.to_owned());
        }
        Some(())
    }

    /// The line on which a place stands; places are asked for in their order.
    fn line(&mut self, place: usize) -> u64 {
        let (from, line) = self.counted;
        let between = self.text.as_bytes().get(from..place).unwrap_or_default();
        let more = memchr::memchr_iter(b'\n', between).count();
        let line = line.saturating_add(u64::try_from(more).unwrap_or(0));
        self.counted = (place.max(from), line);
        line
    }

    fn markup(&mut self, markup: String) {
        self.events.push(Event::Html(markup.into()));
    }

    fn words(&mut self, words: CowStr<'t>) {
        self.hear(&words);
        self.events.push(Event::Text(words));
    }

    fn hear(&mut self, words: &str) {
        if let Some(heading) = &mut self.heading {
            heading.words.push_str(words);
        }
    }

    /// The number of the footnote of this name, by which is met first.
    fn note(&mut self, name: &str) -> usize {
        let next = self.notes.len() + 1;
        *self.notes.entry(name.to_owned()).or_insert(next)
    }

    fn start(&mut self, tag: Tag<'t>) {
        match tag {
            Tag::Heading { level, .. } => {
                let place = self.events.len();
                let words = String::new();
                self.heading = Some(Heading {
                    level,
                    place,
                    words,
                });
                self.events.push(Event::Text("".into()));
            }
            Tag::HtmlBlock => self.markup("<p class=\"markup\">".to_owned()),
            Tag::FootnoteDefinition(name) => {
                let number = self.note(&name);
                self.markup(format!(
                    "<div class=\"footnote\" id=\"{ID_PREFIX}footnote_{number}\"><sup>{number}</sup>"
                ));
            }
            Tag::Table(columns) => {
                // What scrolls is reached by keys, too.
                self.markup("<div class=\"wide\" tabindex=\"0\">".to_owned());
                let plain = vec![Alignment::None; columns.len()];
                self.columns = columns;
                self.events.push(Event::Start(Tag::Table(plain)));
            }
            Tag::TableHead | Tag::TableRow => {
                self.cell_tag = if tag == Tag::TableHead { "th" } else { "td" };
                self.column = 0;
                self.events.push(Event::Start(tag));
            }
            Tag::TableCell => self.cell(),
            Tag::Link {
                link_type,
                dest_url,
                title,
                ..
            } => self.link(link_type, &dest_url, title),
            Tag::Image {
                dest_url, title, ..
            } => self.image(dest_url, title),
            Tag::Paragraph
            | Tag::BlockQuote(_)
            | Tag::CodeBlock(_)
            | Tag::List(_)
            | Tag::Item
            | Tag::Emphasis
            | Tag::Strong
            | Tag::Strikethrough
            | Tag::Superscript
            | Tag::Subscript
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::MetadataBlock(_) => self.events.push(Event::Start(tag)),
        }
    }

    fn cell(&mut self) {
        let side = match self.columns.get(self.column) {
            Some(Alignment::Center) => " class=\"center\"",
            Some(Alignment::Right) => " class=\"right\"",
            Some(Alignment::Left | Alignment::None) | None => "",
        };
        self.column += 1;
        self.markup(format!("<{}{side}>", self.cell_tag));
    }

    /// Begins a link, unless it leads nowhere that a page may lead to, or stands within another.
    fn link(&mut self, kind: LinkType, address: &str, title: CowStr<'t>) {
        let address = match (kind, address.strip_prefix('#')) {
            (LinkType::Email, _) => Some(format!("mailto:{address}")),
            (_, Some(place)) => Some(format!("#{ID_PREFIX}{place}")),
            (_, None) => leads_out(address).then(|| address.to_owned()),
        };
        let address = address.filter(|_| !self.links.contains(&true));
        self.links.push(address.is_some());
        if let Some(address) = address {
            self.events.push(Event::Start(Tag::Link {
                link_type: LinkType::Inline,
                dest_url: address.into(),
                title,
                id: "".into(),
            }));
        }
    }

    /// Begins a link to an image in its place: to show it would tell its server who reads.
    fn image(&mut self, address: CowStr<'t>, title: CowStr<'t>) {
        let shown = if leads_out(&address) {
            address.clone()
        } else {
            "".into()
        };
        self.link(LinkType::Inline, &shown, title);
        self.words("Image: ".into());
        let begins = self.events.len();
        self.images.push(Image { address, begins });
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => self.end_heading(),
            TagEnd::HtmlBlock => self.markup("</p>\n".to_owned()),
            TagEnd::FootnoteDefinition => self.markup("</div>\n".to_owned()),
            TagEnd::Table => {
                self.events.push(Event::End(tag));
                self.markup("</div>\n".to_owned());
            }
            TagEnd::Link => self.end_link(),
            TagEnd::Image => {
                if let Some(image) = self.images.pop()
                    && image.begins == self.events.len()
                {
                    self.words(image.address);
                }
                self.end_link();
            }
            TagEnd::Paragraph
            | TagEnd::BlockQuote(_)
            | TagEnd::CodeBlock
            | TagEnd::List(_)
            | TagEnd::Item
            | TagEnd::TableHead
            | TagEnd::TableRow
            | TagEnd::TableCell
            | TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::MetadataBlock(_) => self.events.push(Event::End(tag)),
        }
    }

    fn end_link(&mut self) {
        if self.links.pop() == Some(true) {
            self.events.push(Event::End(TagEnd::Link));
        }
    }

    /// Ends a heading one level below where it stands, for the page has its own, and gives it a name
    /// of its own.
    fn end_heading(&mut self) {
        let Some(Heading {
            level,
            place,
            words,
        }) = self.heading.take()
        else {
            return;
        };
        let level = match level {
            HeadingLevel::H1 => HeadingLevel::H2,
            HeadingLevel::H2 => HeadingLevel::H3,
            HeadingLevel::H3 => HeadingLevel::H4,
            HeadingLevel::H4 => HeadingLevel::H5,
            HeadingLevel::H5 | HeadingLevel::H6 => HeadingLevel::H6,
        };
        let name = slug(&words);
        let before = self.taken.entry(name.clone()).or_insert(0);
        let id = match *before {
            0 => format!("{ID_PREFIX}{name}"),
            n => format!("{ID_PREFIX}{name}-{n}"),
        };
        *before += 1;
        if let Some(start) = self.events.get_mut(place) {
            *start = Event::Start(Tag::Heading {
                level,
                id: Some(id.into()),
                classes: Vec::new(),
                attrs: Vec::new(),
            });
        }
        self.events.push(Event::End(TagEnd::Heading(level)));
    }
}

fn is_line_break(html: &str) -> bool {
    let inner = html
        .strip_prefix('<')
        .and_then(|html| html.strip_suffix('>'));
    inner.is_some_and(|inner| {
        inner
            .trim_end_matches('/')
            .trim()
            .eq_ignore_ascii_case("br")
    })
}

/// Whether an address is one that a page may lead to.
fn leads_out(address: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| {
        let start = address.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

/// A heading's words as they stand in an address: `Two words!` is `two-words`.
fn slug(words: &str) -> String {
    let kept = |c: char| match c {
        ' ' | '-' | '_' => Some('-'),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    };
    words
        .trim()
        .to_lowercase()
        .chars()
        .filter_map(kept)
        .collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use proptest::prelude::*;

    use super::*;

    /// All tags of a page, without what stands between them.
    fn tags(html: &str) -> Vec<String> {
        let (mut found, mut tag, mut quoted) = (Vec::new(), None::<String>, false);
        for character in html.chars() {
            match (&mut tag, character) {
                (None, '<') => tag = Some(String::new()),
                (None, _) => {}
                (Some(open), '>') if !quoted => {
                    found.push(std::mem::take(open).to_lowercase());
                    tag = None;
                }
                (Some(open), other) => {
                    quoted ^= other == '"';
                    open.push(other);
                }
            }
        }
        assert!(tag.is_none(), "a tag is left open: {html}");
        found
    }

    fn assert_harmless(html: &str) {
        assert!(!html.to_lowercase().contains("<script"), "{html}");
        for tag in tags(html) {
            let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap();
            for never in [
                "script", "style", "img", "iframe", "object", "form", "input", "svg", "base",
            ] {
                assert_ne!(name, never, "{html}");
            }
            let mut outside = String::new();
            for (place, part) in tag.split('"').enumerate() {
                if place % 2 == 0 {
                    outside.push_str(part);
                }
            }
            for attribute in outside.split_whitespace().skip(1) {
                let name = attribute.split('=').next().unwrap();
                assert!(
                    [
                        "href", "title", "rel", "id", "class", "start", "tabindex", "/"
                    ]
                    .contains(&name),
                    "{name} of <{tag}>"
                );
            }
            if let Some((_, address)) = tag.split_once("href=\"") {
                let safe = ["http://", "https://", "mailto:", "#text-"];
                assert!(
                    safe.iter().any(|start| address.starts_with(start)),
                    "<{tag}>"
                );
            }
            if let Some((_, id)) = tag.split_once(" id=\"") {
                assert!(id.starts_with(ID_PREFIX), "<{tag}>");
            }
        }
    }

    #[test]
    fn markdown_becomes_the_markup_that_it_means() {
        for (text, expected) in [
            ("# Two words!", "<h2 id=\"text-two-words\">Two words!</h2>"),
            (
                "# a\n# a",
                "<h2 id=\"text-a\">a</h2><h2 id=\"text-a-1\">a</h2>",
            ),
            ("a ~~b~~ **c**", "<p>a <del>b</del> <strong>c</strong></p>"),
            (
                "|a|b|\n|-|-:|\n|1|2|",
                "<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th>a</th><th class=\"right\">b</th></tr></thead>\
                 <tbody>\n<tr><td>1</td><td class=\"right\">2</td></tr>\n</tbody></table>\n</div>",
            ),
            (
                "- [x] a\n- [ ] b",
                "<ul>\n<li><span class=\"task\">\u{2611}</span> a</li>\n<li><span class=\"task\">\u{2610}</span> b</li>\n</ul>",
            ),
            (
                "a[^n]\n\n[^n]: b",
                "<p>a<sup><a href=\"#text-footnote_1\" rel=\"noopener noreferrer nofollow\">1</a></sup></p>\
                 <div class=\"footnote\" id=\"text-footnote_1\"><sup>1</sup>\n<p>b</p>\n</div>",
            ),
            (
                "[a](https://b.example/)",
                "<p><a href=\"https://b.example/\" rel=\"noopener noreferrer nofollow\">a</a></p>",
            ),
            (
                "![a cat](http://b.example/cat.png)",
                "<p><a href=\"http://b.example/cat.png\" rel=\"noopener noreferrer nofollow\">Image: a cat</a></p>",
            ),
            ("![](cat.png)", "<p>Image: cat.png</p>"),
            (
                "[a](b.md) [c](//d.example) [e](javascript:f)",
                "<p>a c e</p>",
            ),
            ("x<br>y", "<p>x<br>\ny</p>"),
            (
                "<b onclick=\"x\">y</b>",
                "<p>&lt;b onclick=&quot;x&quot;&gt;y&lt;/b&gt;</p>",
            ),
            ("<div>\nx", "<p class=\"markup\">&lt;div&gt;\nx</p>"),
        ] {
            assert_eq!(to_html(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn blocks_stand_at_their_lines() {
        let text = "# a\n\nb\nc\n\n\n- d\n- e\n\n---\n```\nf\n\n```\n";
        let lines = |block: Block| (block.first_line, block.last_line);
        let found: Vec<(u64, u64)> = blocks(text).unwrap().into_iter().map(lines).collect();
        assert_eq!(found, [(1, 1), (3, 4), (7, 8), (10, 10), (11, 14)]);
    }

    #[test]
    fn what_is_too_long_or_too_deep_stays_plain() {
        assert!(to_html(&"a".repeat(BYTES_MAX)).is_some());
        assert!(to_html(&"a".repeat(BYTES_MAX + 1)).is_none());
        assert!(to_html(&"> ".repeat(DEPTH_MAX - 1)).is_some());
        assert!(to_html(&format!("{}a", "> ".repeat(DEPTH_MAX + 1))).is_none());
        assert!(
            to_html(&"#\n".repeat(BYTES_MAX / 2)).is_none(),
            "it grows too much"
        );
    }

    proptest! {
        #[test]
        fn nothing_of_any_text_runs_or_loads(pieces in prop::collection::vec(piece(), 0..24)) {
            let text = pieces.concat();
            if let Some(html) = to_html(&text) {
                assert_harmless(&html);
            }
        }
    }

    /// Pieces of Markdown and HTML that together make trouble more often than letters would.
    fn piece() -> impl Strategy<Value = String> {
        let known = prop::sample::select(vec![
            "<script>",
            "</script>",
            "<img src=x onerror=\"y\">",
            "<svg onload='x'>",
            "<a href=\"javascript:x\">",
            "[a](javascript:x)",
            "![a](http://b/c \"t\")",
            "[a](http://b/\"onclick=x)",
            "<javascript:x>",
            "[a]: ",
            "<http://a.b/?\"'>",
            "(data:text/html,x)",
            "![[b](c)](d)",
            "[![x](http://y)](https://z)",
            "<style>",
            "<hr class=\"cut\">",
            "`",
            "```\n",
            "~~~x\" y\n",
            "|a|b|\n|-|:-:|\n|",
            "\n",
            "\n\n",
            "> ",
            "- ",
            "- [x] ",
            "1. ",
            "# ",
            "[^n]",
            "[^n]: ",
            "&lt;",
            "&#x6A;avascript:",
            "*",
            "**",
            "~~",
            "\\",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
            "\"",
            "'",
            "<",
            ">",
            "https://a.b",
            "[",
            "]",
            "(",
            ")",
            "!",
            "    ",
            "\t",
            "src=",
            " onload=",
            "</p>",
            "</textarea>",
            "<br>",
        ]);
        prop_oneof![4 => known.prop_map(str::to_owned), 1 => "\\PC{0,6}"]
    }
}
