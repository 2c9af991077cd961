//! Which pages of other origins may call: off unless config.toml says otherwise.

use actix_web::HttpResponseBuilder;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderMap, HeaderValue, ORIGIN, VARY,
};

/// Which of a browser's requests across origins is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CorsRequest {
    /// OPTIONS, which asks what may be sent.
    Preflight,
    /// The request itself, which the browser makes after it was allowed to.
    Actual,
}

/// The settings, ready to be sent.
pub(crate) struct Cors {
    origins: Vec<HeaderValue>,
    all: bool,
    methods: HeaderValue,
    headers: HeaderValue,
    exposed: HeaderValue,
    max_age: HeaderValue,
}

impl Cors {
    pub(super) fn new(settings: &crate::config::Cors) -> Self {
        let joined = |list: &[String]| {
            HeaderValue::from_str(&list.join(", ")).unwrap_or(HeaderValue::from_static(""))
        };
        Cors {
            origins: settings
                .allowed_origins
                .iter()
                .filter_map(|origin| HeaderValue::from_str(origin).ok())
                .collect(),
            all: settings.allowed_origins.iter().any(|origin| origin == "*"),
            methods: joined(&settings.allowed_methods),
            headers: joined(&settings.allowed_headers),
            exposed: joined(&settings.exposed_headers),
            max_age: HeaderValue::from(settings.max_age_seconds),
        }
    }

    /// Adds what the caller's page must see.
    pub(super) fn add(
        &self,
        request: &HeaderMap,
        response: &mut HttpResponseBuilder,
        kind: CorsRequest,
    ) {
        if self.origins.is_empty() {
            return;
        }
        if !self.all {
            response.append_header((VARY, HeaderValue::from_static("Origin")));
        }
        let Some(origin) = request
            .get(ORIGIN)
            .filter(|origin| self.all || self.origins.contains(origin))
        else {
            return;
        };
        let shown = if self.all {
            HeaderValue::from_static("*")
        } else {
            origin.clone()
        };
        response.insert_header((ACCESS_CONTROL_ALLOW_ORIGIN, shown));
        match kind {
            CorsRequest::Preflight => {
                response.insert_header((ACCESS_CONTROL_ALLOW_METHODS, self.methods.clone()));
                response.insert_header((ACCESS_CONTROL_ALLOW_HEADERS, self.headers.clone()));
                response.insert_header((ACCESS_CONTROL_MAX_AGE, self.max_age.clone()));
            }
            CorsRequest::Actual => {
                response.insert_header((ACCESS_CONTROL_EXPOSE_HEADERS, self.exposed.clone()));
            }
        }
    }
}
