//! TXT records, by DNS: what proves that a domain is an account's. Each look asks the nameservers anew,
//! so that what was published a moment ago is found, and is bounded in time, whatever they answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use colloquy_actors::accounts::{TxtAnswer, TxtRecords};
use colloquy_actors::store::Later;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::{Resolver, TokioResolver};
use tokio::sync::Semaphore;

use crate::config::Domains;

/// Looks that run at once, of all who ask.
const LOOKS_MAX: usize = 64;

/// Asks the nameservers of config.toml, or those of the operating system.
pub(crate) struct DnsTxtRecords {
    nameservers: Vec<SocketAddr>,
    timeout: Duration,
    permits: Arc<Semaphore>,
}

impl DnsTxtRecords {
    pub(crate) fn new(settings: &Domains) -> Arc<Self> {
        Arc::new(DnsTxtRecords {
            nameservers: settings.nameservers(),
            timeout: Duration::from_secs_f64(settings.timeout_seconds),
            permits: Arc::new(Semaphore::new(LOOKS_MAX)),
        })
    }

    fn resolver(&self) -> Result<TokioResolver, NetError> {
        let mut builder = match self.nameservers.as_slice() {
            [] => Resolver::builder_tokio()?,
            named => {
                let servers = named.iter().map(nameserver).collect();
                let config = ResolverConfig::from_name_servers(servers);
                Resolver::builder_with_config(config, TokioRuntimeProvider::default())
            }
        };
        let options = builder.options_mut();
        options.cache_size = 0;
        options.attempts = 1;
        options.timeout = self.timeout / 2;
        builder.build()
    }
}

fn nameserver(address: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    let at_port = connections.map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, at_port.into())
}

/// What a TXT record holds: its strings, one behind the other.
fn held(record: &RData) -> Option<String> {
    if let RData::TXT(txt) = record {
        return Some(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned());
    }
    None
}

impl TxtRecords for DnsTxtRecords {
    fn look_up(&self, name: String) -> Later<TxtAnswer> {
        let (resolver, timeout) = (self.resolver(), self.timeout);
        let permits = Arc::clone(&self.permits);
        Box::pin(async move {
            let Ok(_permit) = permits.acquire_owned().await else {
                return TxtAnswer::Silence;
            };
            let resolver = match resolver {
                Ok(resolver) => resolver,
                Err(error) => {
                    tracing::warn!(%error, "no nameserver can be asked for domains: see [domains] nameservers");
                    return TxtAnswer::Silence;
                }
            };
            // With the dot at its end it is looked up as it is.
            let look = resolver.txt_lookup(format!("{name}."));
            match tokio::time::timeout(timeout, look).await {
                Ok(Ok(found)) => {
                    let records = found
                        .answers()
                        .iter()
                        .filter_map(|record| held(&record.data));
                    TxtAnswer::Records(records.collect())
                }
                Ok(Err(error)) if error.is_no_records_found() || error.is_nx_domain() => {
                    TxtAnswer::Records(Vec::new())
                }
                Ok(Err(_)) | Err(_) => TxtAnswer::Silence,
            }
        })
    }
}
