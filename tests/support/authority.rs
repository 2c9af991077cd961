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

/// Without openssl's own settings, which would make an authority of each certificate. What was revoked
/// stands in a database beside it; a list with a number is one of version 2.
const SETTINGS: &str = "[req]
distinguished_name = dn
[dn]
[ca]
default_ca = own
[own]
database = revoked.txt
crlnumber = number
default_md = sha256
[delta]
database = revoked.txt
crlnumber = number
default_md = sha256
crl_extensions = changes
[changes]
2.5.29.27 = critical,ASN1:INTEGER:1
";
/// A list ends so long after it was made.
const LIST_HOURS: [&str; 2] = ["-crlhours", "24"];

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
        for (file, text) in [
            ("openssl.cnf", SETTINGS),
            ("revoked.txt", ""),
            ("number", "01\n"),
        ] {
            fs::write(folder.path().join(file), text).unwrap();
        }
        let extensions = [
            "basicConstraints=critical,CA:TRUE",
            "keyUsage=critical,keyCertSign,cRLSign",
            "subjectKeyIdentifier=hash",
        ];
        let name = folder.path().file_name().unwrap().to_str().unwrap();
        let own = made(folder.path(), name, &extensions, None);
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
            "keyUsage=critical,digitalSignature",
            "extendedKeyUsage=serverAuth,clientAuth",
            "authorityKeyIdentifier=keyid",
        ];
        made(self.folder.path(), name, &extensions, Some(&self.own))
    }

    /// Revokes these beside those before; gives the list of all of them, which ends in a day.
    pub(crate) fn revoke(&self, pairs: &[&Pair]) -> Vec<u8> {
        for pair in pairs {
            let certificate = pair.certificate.display().to_string();
            self.ca(&["-revoke", &certificate]);
        }
        self.list(&LIST_HOURS)
    }

    /// The list of what it has revoked, with that end in openssl's words.
    pub(crate) fn list(&self, end: &[&str]) -> Vec<u8> {
        let file = self.folder.path().join("list.pem");
        let out = file.display().to_string();
        self.ca(&[&["-gencrl", "-out", &out], end].concat());
        fs::read(file).unwrap()
    }

    fn ca(&self, what: &[&str]) {
        let mut command = Command::new("openssl");
        command.args(["ca", "-config", "openssl.cnf"]).args(what);
        command.arg("-cert").arg(&self.own.certificate);
        command.arg("-keyfile").arg(&self.own.key);
        command.current_dir(self.folder.path());
        let done = tool::started("openssl", command.output());
        assert!(done.status.success(), "{done:?}");
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
