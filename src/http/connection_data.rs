//! What is known of the connection by which a request came, whatever the version of HTTP.

use std::net::SocketAddr;
use std::rc::Rc;

use actix_web::{HttpMessage, HttpRequest};
use rustls::pki_types::CertificateDer;

use super::budget::BudgetOwner;
use super::connections::Admitted;
use super::idle::InUse;
use super::pipelining::Turns;
use super::slices::Requests;
use super::stream::Stream;

/// One connection, for as long as it or one of its requests is there.
#[derive(Debug)]
pub(super) struct ConnectionData {
    admitted: Admitted,
    /// In which order the requests of HTTP/1.1 are answered.
    pub(super) turns: Rc<Turns>,
    requests: Rc<Requests>,
    client_certificates: Vec<CertificateDer<'static>>,
}

impl ConnectionData {
    /// That of a connection which has been let in, and whose bytes these are.
    pub(super) fn new(admitted: Admitted, stream: &Stream) -> Rc<Self> {
        Rc::new(ConnectionData {
            admitted,
            turns: Rc::default(),
            requests: stream.requests(),
            client_certificates: stream.client_certificates(),
        })
    }

    /// That of this request's connection; none for one that came over none.
    pub(super) fn of(request: &HttpRequest) -> Option<Rc<Self>> {
        let shared: Option<&Rc<Self>> = request.conn_data();
        // HTTP/2 has no other place for it.
        shared
            .cloned()
            .or_else(|| request.extensions().get::<Rc<Self>>().cloned())
    }

    /// The connection, in use for as long as this lives.
    pub(super) fn in_use(&self) -> InUse {
        self.admitted.idle.in_use()
    }

    /// A request that has come begins, at its turn; `client` says whose it is where many clients' come over the
    /// same connection. The connection is in use for as long as the result lives.
    pub(super) async fn begin(&self, client: impl FnOnce() -> BudgetOwner) -> InUse {
        let in_use = self.in_use();
        self.requests.begin(client).await;
        self.turns.begin();
        in_use
    }

    /// A request that came over it was this owner's.
    pub(super) fn is_of(&self, owner: BudgetOwner) {
        self.admitted.owner.set(owner);
    }

    /// Who is at its other end.
    pub(super) fn peer(&self) -> SocketAddr {
        self.admitted.peer
    }

    /// What the client has shown of itself, its own certificate first.
    pub(super) fn client_certificates(&self) -> &[CertificateDer<'static>] {
        &self.client_certificates
    }
}
