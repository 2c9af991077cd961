//! The bare server that the benchmark measures Colloquy against: the same JSON parsed and answered
//! by actix-web alone. It remembers nothing, knows nobody and limits nobody.
#![expect(
    clippy::print_stdout,
    reason = "the benchmark reads the port from stdout"
)]

use std::sync::LazyLock;

use actix_web::http::{KeepAlive, Method};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

const CUSTOMER: &str = "cus_019f00000000700080000000000000aa";
const TIME: &str = "2026-03-15T10:30:00.000Z";
/// A document's content: as long as those that the benchmark sends.
static CONTENT: LazyLock<String> = LazyLock::new(|| "lequi susulo ba mudi\n".repeat(48));
/// How many conversations or documents stand in a list.
const PAGE: usize = 20;
/// How long an idle connection is kept: Colloquy's default.
const KEEP_ALIVE_SECONDS: u64 = 75;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendMessage {
    content: String,
    sender_type: Option<String>,
    metadata: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateConversation {
    customer_id: String,
    initial_message: Option<String>,
    channel: Option<String>,
    priority: Option<String>,
    metadata: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeConversation {
    status: Option<String>,
    priority: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    status: Option<String>,
    customer_id: Option<String>,
    q: Option<String>,
}

#[derive(Serialize)]
struct Message<'a> {
    message_id: &'a str,
    conversation_id: &'a str,
    seq: u64,
    content: &'a str,
    r#type: &'a str,
    sender_type: &'a str,
    sender_id: &'a str,
    metadata: Option<&'a RawValue>,
    sent_at: &'a str,
    edited_at: Option<&'a str>,
    redacted: bool,
}

#[derive(Serialize)]
struct Customer<'a> {
    id: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
struct Metadata {
    order: &'static str,
    source: &'static str,
    language: &'static str,
    page: &'static str,
}

const METADATA: Metadata = Metadata {
    order: "2026-000123456",
    source: "web shop",
    language: "en",
    page: "https://shop.example/orders/2026-000123456",
};

#[derive(Serialize)]
struct Conversation<'a> {
    conversation_id: &'a str,
    customer_id: &'a str,
    customer: Customer<'a>,
    status: &'a str,
    channel: &'a str,
    priority: &'a str,
    assignee_id: Option<&'a str>,
    metadata: Metadata,
    message_count: u64,
    last_message_at: Option<&'a str>,
    snoozed_until: Option<&'a str>,
    created_at: &'a str,
    updated_at: &'a str,
    closed_at: Option<&'a str>,
}

impl<'a> Conversation<'a> {
    fn new(id: &'a str) -> Self {
        Conversation {
            conversation_id: id,
            customer_id: CUSTOMER,
            customer: Customer {
                id: CUSTOMER,
                name: "Customer 0000000 of the benchmark",
            },
            status: "active",
            channel: "chat",
            priority: "normal",
            assignee_id: None,
            metadata: METADATA,
            message_count: 12,
            last_message_at: Some(TIME),
            snoozed_until: None,
            created_at: TIME,
            updated_at: TIME,
            closed_at: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteDocument {
    title: Option<String>,
    content: Option<String>,
    content_type: Option<String>,
    metadata: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Document<'a> {
    id: &'a str,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    content_type: &'a str,
    metadata: Metadata,
    owner_id: Option<&'a str>,
    version: &'a str,
    version_number: u64,
    role: &'a str,
    created_at: &'a str,
    updated_at: &'a str,
    created_by: Option<&'a str>,
    updated_by: Option<&'a str>,
}

impl<'a> Document<'a> {
    fn new(id: &'a str, content: Option<&'a str>) -> Self {
        Document {
            id,
            title: "Report 1.0000123 of the benchmark",
            content,
            content_type: "text/markdown",
            metadata: METADATA,
            owner_id: None,
            version: "ver_019f00000000700080000000000000dd",
            version_number: 1,
            role: "owner",
            created_at: TIME,
            updated_at: TIME,
            created_by: None,
            updated_by: None,
        }
    }
}

#[derive(Serialize)]
struct Meta {
    total: u64,
    limit: usize,
    offset: u64,
}

#[derive(Serialize)]
struct List<T> {
    data: Vec<T>,
    meta: Meta,
}

/// By hand, as Colloquy routes: actix-web's own patterns cost several microseconds each.
async fn answer(request: HttpRequest, body: web::Bytes) -> Result<HttpResponse, serde_json::Error> {
    if let Some(rest) = request.path().strip_prefix("/api/v1/documents") {
        return answer_of_documents(&request, rest.strip_prefix('/'), &body);
    }
    if request.path() == "/v1/analytics/conversations" {
        return Ok(figures());
    }
    let rest = request
        .path()
        .strip_prefix("/v1/conversations")
        .unwrap_or_default();
    Ok(match (request.method(), rest.strip_prefix('/')) {
        (&Method::POST, None) => create(&serde_json::from_slice(&body)?),
        (_, None) => web::Query::from_query(request.query_string()).map_or_else(
            |_| HttpResponse::BadRequest().finish(),
            |filter: web::Query<Filter>| list(&filter),
        ),
        (&Method::POST, Some(id)) => send(
            id.trim_end_matches("/messages"),
            &serde_json::from_slice(&body)?,
        ),
        (&Method::PATCH, Some(id)) => change(id, &serde_json::from_slice(&body)?),
        (_, Some(id)) => HttpResponse::Ok().json(Conversation::new(id)),
    })
}

/// Days of a year, today with it.
const DAYS: usize = 366;

#[derive(Serialize)]
struct Figures {
    start: &'static str,
    group: Option<&'static str>,
    created: u64,
    closed: u64,
    reopened: u64,
    open_at_end: i64,
    messages: Messages,
    first_response_seconds: Times,
    resolution_seconds: Times,
}

#[derive(Serialize)]
struct Messages {
    customer: u64,
    agent: u64,
    system: u64,
}

#[derive(Serialize)]
struct Times {
    count: u64,
    mean: Option<f64>,
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
}

const NO_TIMES: Times = Times {
    count: 0,
    mean: None,
    p50: None,
    p90: None,
    p99: None,
};

fn figures() -> HttpResponse {
    let days = (0..DAYS).map(|_| Figures {
        start: TIME,
        group: None,
        created: 0,
        closed: 0,
        reopened: 0,
        open_at_end: 0,
        messages: Messages {
            customer: 0,
            agent: 0,
            system: 0,
        },
        first_response_seconds: NO_TIMES,
        resolution_seconds: NO_TIMES,
    });
    let data: Vec<Figures> = days.collect();
    HttpResponse::Ok().json(List {
        data,
        meta: Meta {
            total: 0,
            limit: DAYS,
            offset: 0,
        },
    })
}

fn send(id: &str, body: &SendMessage) -> HttpResponse {
    HttpResponse::Created().json(Message {
        message_id: "msg_019f00000000700080000000000000bb",
        conversation_id: id,
        seq: 13,
        content: &body.content,
        r#type: "text",
        sender_type: body.sender_type.as_deref().unwrap_or("customer"),
        sender_id: CUSTOMER,
        metadata: body.metadata.as_deref(),
        sent_at: TIME,
        edited_at: None,
        redacted: false,
    })
}

fn change(id: &str, body: &ChangeConversation) -> HttpResponse {
    let mut conversation = Conversation::new(id);
    conversation.status = body.status.as_deref().unwrap_or("active");
    conversation.priority = body.priority.as_deref().unwrap_or("normal");
    HttpResponse::Ok().json(conversation)
}

fn create(body: &CreateConversation) -> HttpResponse {
    let mut conversation = Conversation::new("conv_019f00000000700080000000000000cc");
    conversation.customer_id = &body.customer_id;
    conversation.channel = body.channel.as_deref().unwrap_or("chat");
    conversation.priority = body.priority.as_deref().unwrap_or("normal");
    conversation.message_count =
        u64::from(body.initial_message.is_some() && body.metadata.is_some());
    HttpResponse::Created().json(conversation)
}

fn list(filter: &Filter) -> HttpResponse {
    let ids: Vec<String> = (0..PAGE)
        .map(|place| format!("conv_019f000000007000800000000000{place:04x}"))
        .collect();
    let mut data: Vec<Conversation> = ids.iter().map(|id| Conversation::new(id)).collect();
    for conversation in &mut data {
        conversation.status = filter.status.as_deref().unwrap_or("active");
        conversation.customer_id = filter.customer_id.as_deref().unwrap_or(CUSTOMER);
    }
    HttpResponse::Ok().json(List {
        data,
        meta: Meta {
            total: 1_000_000,
            limit: PAGE,
            offset: 0,
        },
    })
}

fn answer_of_documents(
    request: &HttpRequest,
    id: Option<&str>,
    body: &[u8],
) -> Result<HttpResponse, serde_json::Error> {
    Ok(match (request.method(), id) {
        (&Method::POST, None) => HttpResponse::Created().json(
            serde_json::from_slice::<WriteDocument>(body)?
                .written("doc_019f00000000700080000000000000ee"),
        ),
        (&Method::PUT, Some(id)) => {
            HttpResponse::Ok().json(serde_json::from_slice::<WriteDocument>(body)?.written(id))
        }
        (_, Some(id)) => HttpResponse::Ok().json(Document::new(id, Some(&CONTENT))),
        (_, None) => web::Query::from_query(request.query_string()).map_or_else(
            |_| HttpResponse::BadRequest().finish(),
            |filter: web::Query<Filter>| documents(&filter),
        ),
    })
}

impl WriteDocument {
    fn written<'a>(&'a self, id: &'a str) -> Document<'a> {
        let mut document = Document::new(id, self.content.as_deref());
        document.title = self.title.as_deref().unwrap_or(document.title);
        document.content_type = self
            .content_type
            .as_deref()
            .unwrap_or(document.content_type);
        document.version_number += u64::from(self.metadata.is_none());
        document
    }
}

fn documents(filter: &Filter) -> HttpResponse {
    let ids: Vec<String> = (0..PAGE)
        .map(|place| format!("doc_019f000000007000800000000000{place:04x}"))
        .collect();
    let mut data: Vec<Document> = ids.iter().map(|id| Document::new(id, None)).collect();
    for document in &mut data {
        document.version_number += u64::from(filter.q.is_some());
    }
    HttpResponse::Ok().json(List {
        data,
        meta: Meta {
            total: 100_000,
            limit: PAGE,
            offset: 0,
        },
    })
}

fn main() -> std::io::Result<()> {
    actix_web::rt::System::new().block_on(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        println!("listening on http://{}", listener.local_addr()?);
        let app = || App::new().default_service(web::to(answer));
        let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let keep_alive = KeepAlive::Timeout(std::time::Duration::from_secs(KEEP_ALIVE_SECONDS));
        HttpServer::new(app)
            .workers(workers)
            .keep_alive(keep_alive)
            .tcp_nodelay(true)
            .listen(listener)?
            .run()
            .await
    })
}
