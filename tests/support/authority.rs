//! A certificate authority of a test's own, made with openssl: it vouches for servers on this machine
//! and for clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::client::no_tls;
use super::tool;

/// Without openssl's own settings, which would make an authority of each certificate.
const SETTINGS: &str = "[req]\ndistinguished_name = dn\n[dn]\n";

/// Files of a certificate and its private key.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Pair {
    /// The certificate as it is sent.
    pub(crate) fn shown(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.certificate).unwrap()
    }

    /// Writes this pair over the files of that one.
    pub(crate) fn replace(&self, other: &Pair) {
        fs::copy(&self.certificate, &other.certificate).unwrap();
        fs::copy(&self.key, &other.key).unwrap();
    }
}

/// An authority, and all that it vouches for.
pub(crate) struct Authority {
    folder: tempfile::TempDir,
    own: Pair,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder =
            tempfile::TempDir::with_prefix_in("authority-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::write(folder.path().join("openssl.cnf"), SETTINGS).unwrap();
        let extensions = ["basicConstraints=critical,CA:TRUE"];
        let own = made(folder.path(), "authority", &extensions, None);
        Self { folder, own }
    }

    /// The file of its certificate.
    pub(crate) fn certificate(&self) -> &Path {
        &self.own.certificate
    }

    /// Vouches for a server on this machine, or a client, for 90 days.
    pub(crate) fn issue(&self, name: &str) -> Pair {
        let extensions = [
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "basicConstraints=critical,CA:FALSE",
        ];
        made(self.folder.path(), name, &extensions, Some(&self.own))
    }

    /// A client that trusts it and nobody else.
    pub(crate) fn trusting(&self) -> ClientConfig {
        self.client().with_no_client_auth()
    }

    /// The same of a client that shows this certificate.
    pub(crate) fn trusting_as(&self, client: &Pair) -> ClientConfig {
        let key = PrivateKeyDer::from_pem_file(&client.key).unwrap();
        self.client()
            .with_client_auth_cert(vec![client.shown()], key)
            .unwrap()
    }

    fn client(&self) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.own.shown()).unwrap();
        let provider = Arc::clone(no_tls().crypto_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
    }
}

/// A key and its certificate, for which that pair vouches, or only itself.
fn made(folder: &Path, name: &str, extensions: &[&str], by: Option<&Pair>) -> Pair {
    let pair = Pair {
        certificate: folder.join(format!("{name}.pem")),
        key: folder.join(format!("{name}.key")),
    };
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-noenc", "-days", "90"]);
    command.args(["-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    command.args(["-subj", &format!("/CN={name}")]);
    command.arg("-config").arg(folder.join("openssl.cnf"));
    command.arg("-keyout").arg(&pair.key);
    command.arg("-out").arg(&pair.certificate);
    for extension in extensions {
        command.args(["-addext", extension]);
    }
    if let Some(by) = by {
        command.arg("-CA").arg(&by.certificate);
        command.arg("-CAkey").arg(&by.key);
    }
    let made = tool::started("openssl", command.output());
    assert!(made.status.success(), "{made:?}");
    pair
}
