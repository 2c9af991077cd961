//! From a path and a method to a row of the table: a tree of path segments, walked once, without
//! copying.

use std::collections::HashMap;

use actix_web::http::Method;

use super::operation::{Operation, Success, Verb};
use super::query::hex;

/// How many identifiers a path can hold.
const SEGMENTS_MAX: usize = 4;

/// The identifiers in a request's path, as spans of its text.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathParameters {
    decoded: Option<Box<str>>,
    spans: [(usize, usize); SEGMENTS_MAX],
    count: usize,
}

impl PathParameters {
    /// The identifier at this index.
    pub(crate) fn segment<'a>(&'a self, path: &'a str, index: usize) -> Option<&'a str> {
        let path = self.decoded.as_deref().unwrap_or(path);
        let (start, end) = self.spans.get(..self.count)?.get(index)?;
        path.get(*start..*end)
    }

    fn push(&mut self, start: usize, end: usize) -> Option<()> {
        *self.spans.get_mut(self.count)? = (start, end);
        self.count += 1;
        Some(())
    }
}

/// What a path and a method lead to.
pub(crate) enum RouteMatch<'a> {
    /// An operation, by its number in the table.
    Operation(usize, &'a Operation, PathParameters),
    /// There is such a path, but not with this method.
    OtherMethods(&'static str),
    /// The methods were asked for.
    Options(&'static str),
    /// No operation has such a path.
    Nothing,
}

#[derive(Default)]
struct Node {
    literal: HashMap<&'static str, Node>,
    any: Option<Box<Node>>,
    operations: [Option<usize>; Verb::ALL.len()],
    /// Its GET opens an event stream or a WebSocket, which has no HEAD.
    line: bool,
    allow: &'static str,
}

/// All operations and the tree over their paths.
pub(crate) struct Router {
    operations: Vec<Operation>,
    root: Node,
}

impl Router {
    pub(crate) fn new(operations: Vec<Operation>) -> Self {
        let mut root = Node::default();
        for (number, operation) in operations.iter().enumerate() {
            root.insert(operation, number);
        }
        root.close();
        Router { operations, root }
    }

    /// The operations, in the order of the table of routes.
    pub(crate) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Finds what a request is for.
    pub(crate) fn find(&self, method: &Method, path: &str) -> RouteMatch<'_> {
        let mut parameters = PathParameters::default();
        let node = if path.contains('%') {
            let Some(decoded) = decoded(path) else {
                return RouteMatch::Nothing;
            };
            let node = self.root.walk(&decoded, &mut parameters);
            parameters.decoded = Some(decoded.into());
            node
        } else {
            self.root.walk(path, &mut parameters)
        };
        let Some(node) = node else {
            return RouteMatch::Nothing;
        };
        if *method == Method::OPTIONS {
            return RouteMatch::Options(node.allow);
        }
        let headless = node.line && *method == Method::HEAD;
        let verb = verb(method)
            .filter(|_| !headless)
            .and_then(|verb| *node.operations.get(verb as usize)?);
        match verb.and_then(|number| Some((number, self.operations.get(number)?))) {
            Some((number, operation)) => RouteMatch::Operation(number, operation, parameters),
            None => RouteMatch::OtherMethods(node.allow),
        }
    }
}

fn verb(method: &Method) -> Option<Verb> {
    match *method {
        Method::GET | Method::HEAD => Some(Verb::Get),
        Method::POST => Some(Verb::Post),
        Method::PUT => Some(Verb::Put),
        Method::PATCH => Some(Verb::Patch),
        Method::DELETE => Some(Verb::Delete),
        _ => None,
    }
}

/// Decodes the path; an encoded slash would be another path than it looks, so there is none.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let byte = if byte == b'%' {
            let value = hex(rest.next()?)? * 16 + hex(rest.next()?)?;
            if value == b'/' {
                return None;
            }
            value
        } else {
            byte
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

impl Node {
    fn insert(&mut self, operation: &Operation, number: usize) {
        let mut node = self;
        for segment in operation.path.split('/').skip(1) {
            node = if segment.starts_with('{') {
                node.any.get_or_insert_default()
            } else {
                node.literal.entry(segment).or_default()
            };
        }
        node.line |= matches!(operation.success, Success::Switched);
        if let Some(slot) = node.operations.get_mut(operation.verb as usize) {
            *slot = Some(number);
        }
    }

    /// Writes down each path's methods, once all are known.
    fn close(&mut self) {
        let mut allow = String::new();
        for (verb, number) in Verb::ALL.iter().zip(&self.operations) {
            if number.is_some() {
                allow.push_str(verb.word());
                allow.push_str(if *verb == Verb::Get && !self.line {
                    ", HEAD, "
                } else {
                    ", "
                });
            }
        }
        if !allow.is_empty() {
            allow.push_str("OPTIONS");
            // Lives as long as the process, like the table.
            self.allow = String::leak(allow);
        }
        for node in self.literal.values_mut().chain(self.any.as_deref_mut()) {
            node.close();
        }
    }

    fn walk(&self, path: &str, parameters: &mut PathParameters) -> Option<&Node> {
        let mut node = self;
        let mut start = 1;
        if !path.starts_with('/') {
            return None;
        }
        loop {
            let rest = path.get(start..)?;
            let end = rest.find('/').map_or(path.len(), |at| start + at);
            let segment = path.get(start..end)?;
            node = match node.literal.get(segment) {
                Some(literal) => literal,
                None => {
                    if segment.is_empty() {
                        return None;
                    }
                    parameters.push(start, end)?;
                    node.any.as_deref()?
                }
            };
            if end == path.len() {
                return Some(node).filter(|node| !node.allow.is_empty());
            }
            start = end + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::routes;
    use super::*;

    fn found(router: &Router, method: Method, path: &str) -> String {
        match router.find(&method, path) {
            RouteMatch::Operation(_, operation, parameters) => {
                let ids: Vec<&str> = (0..SEGMENTS_MAX)
                    .map_while(|index| parameters.segment(path, index))
                    .collect();
                format!("{} {}", operation.id, ids.join(" "))
                    .trim_end()
                    .to_owned()
            }
            RouteMatch::OtherMethods(allow) => format!("405 {allow}"),
            RouteMatch::Options(allow) => format!("204 {allow}"),
            RouteMatch::Nothing => "404".to_owned(),
        }
    }

    #[test]
    fn a_path_and_a_method_lead_to_one_operation() {
        let router = Router::new(routes::operations());
        assert_eq!(
            found(&router, Method::GET, "/v1/conversations"),
            "listConversations"
        );
        assert_eq!(
            found(
                &router,
                Method::HEAD,
                "/v1/conversations/conv_1/messages/msg_2"
            ),
            "getMessage conv_1 msg_2"
        );
        assert_eq!(
            found(&router, Method::GET, "/v1/conversations/conv%5F1"),
            "getConversation conv_1"
        );
        assert_eq!(
            found(&router, Method::PUT, "/v1/conversations"),
            "405 GET, HEAD, POST, OPTIONS"
        );
        assert_eq!(
            found(&router, Method::OPTIONS, "/v1/conversations/x/close"),
            "204 POST, OPTIONS"
        );
        for path in [
            "/",
            "/v1/conversations/",
            "/v1/nothing",
            "/V1/conversations",
            "/v1//conversations",
            "/v1/%zz",
        ] {
            assert_eq!(found(&router, Method::GET, path), "404", "{path}");
        }
        assert_eq!(found(&router, Method::GET, "/v1/conversations%2Fx"), "404");
    }
}
