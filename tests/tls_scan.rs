//! What sslyze, a scanner from PyPI, finds in the TLS that the server speaks. Its rules are not ours: it
//! tries every version and suite that there ever was, the attacks that have names, and compares what it
//! finds with Mozilla's recommendations.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Authority, Pair, Server, Setup, tool};

/// What it has found.
struct Scan {
    found: Value,
    /// What it says of Mozilla's recommendation.
    verdict: String,
    is_compliant: bool,
}

impl Scan {
    /// Scans a server with that recommendation of Mozilla's in mind.
    fn of(server: &Server, authority: &Authority, recommendation: &str) -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("found.json");
        let port = server.address().rsplit_once(':').unwrap().1.to_owned();
        let mut command = Command::new(target.join("python/bin/python"));
        command.args([
            "-B",
            "-W",
            "ignore",
            "-m",
            "sslyze",
            "--resum",
            "--early_data",
        ]);
        command.args(["--mozilla_config", recommendation]);
        command
            .arg("--certinfo_ca_file")
            .arg(authority.certificate());
        command.arg("--json_out").arg(&file);
        command.arg(format!("localhost:{port}"));
        let output = tool::started("target/python/bin/python", command.output());
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        let found = fs::read_to_string(file).unwrap_or_else(|error| panic!("{error}: {said}"));
        let found: Value = serde_json::from_str(&found).unwrap();
        let found = found["server_scan_results"][0]["scan_result"].clone();
        let (_, verdict) = said.split_once("COMPLIANCE AGAINST").expect("a verdict");
        Self {
            found,
            verdict: verdict.to_owned(),
            is_compliant: output.status.success(),
        }
    }

    /// What one of its looks has found, which it must have taken to its end.
    fn result(&self, look: &str) -> &Value {
        let look_at = &self.found[look];
        assert_eq!(look_at["status"], "COMPLETED", "{look}: {look_at}");
        &look_at["result"]
    }

    /// The suites that are accepted in that version, by name.
    fn accepted(&self, version: &str) -> BTreeSet<&str> {
        let suites = &self.result(&format!("{version}_cipher_suites"))["accepted_cipher_suites"];
        let suites = suites.as_array().unwrap().iter();
        let named = suites.map(|suite| {
            // A key of its own for each connection: forward secrecy.
            assert!(suite["ephemeral_key"].is_object(), "{suite}");
            assert_eq!(suite["cipher_suite"]["is_anonymous"], false, "{suite}");
            suite["cipher_suite"]["name"].as_str().unwrap()
        });
        named.collect()
    }
}

fn start() -> (Server, Authority, Pair) {
    let authority = Authority::new();
    let pair = authority.issue("server");
    let server = Setup::default().encrypted(&authority, &pair).start();
    (server, authority, pair)
}

#[test]
fn only_versions_and_suites_are_accepted_that_mozilla_recommends() {
    let (server, authority, _) = start();
    let scan = Scan::of(&server, &authority, "intermediate");
    for version in ["ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1"] {
        let look = format!("{version}_cipher_suites");
        assert_eq!(scan.result(&look)["is_tls_version_supported"], false);
        assert!(scan.accepted(version).is_empty(), "{version}");
    }
    // Each authenticates what it encrypts (AEAD).
    let of_1_2 = [
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    ];
    assert_eq!(scan.accepted("tls_1_2"), BTreeSet::from(of_1_2));
    let of_1_3 = [
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
    ];
    assert_eq!(scan.accepted("tls_1_3"), BTreeSet::from(of_1_3));
    let curves = scan.result("elliptic_curves")["supported_curves"].as_array();
    let curves = curves.unwrap().iter().map(|curve| curve["name"].as_str());
    let curves: BTreeSet<&str> = curves.map(Option::unwrap).collect();
    assert_eq!(curves, BTreeSet::from(["X25519", "secp256r1", "secp384r1"]));
    assert!(scan.is_compliant, "{}", scan.verdict);
    assert!(scan.verdict.contains("OK - Compliant"), "{}", scan.verdict);
}

#[test]
fn no_attack_that_has_a_name_is_possible() {
    let (server, authority, _) = start();
    let scan = Scan::of(&server, &authority, "modern");
    for (look, what, right) in [
        ("tls_compression", "supports_compression", false),
        ("heartbleed", "is_vulnerable_to_heartbleed", false),
        (
            "openssl_ccs_injection",
            "is_vulnerable_to_ccs_injection",
            false,
        ),
        (
            "session_renegotiation",
            "is_vulnerable_to_client_renegotiation_dos",
            false,
        ),
        (
            "session_renegotiation",
            "supports_secure_renegotiation",
            true,
        ),
        ("tls_fallback_scsv", "supports_fallback_scsv", true),
        ("tls_extended_master_secret", "supports_ems_extension", true),
        // What comes early could be sent again by others.
        ("tls_1_3_early_data", "supports_early_data", false),
    ] {
        assert_eq!(scan.result(look)[what], right, "{look}");
    }
    assert_eq!(
        scan.result("robot")["robot_result"],
        "NOT_VULNERABLE_RSA_NOT_SUPPORTED"
    );
    // Sessions are taken up again by their number, which the server keeps; it gives no tickets in
    // TLS 1.2, whose key would open all that was ever said.
    let resumed = scan.result("session_resumption");
    assert_eq!(resumed["session_id_resumption_result"], "FULLY_SUPPORTED");
    assert_eq!(resumed["tls_ticket_resumption_result"], "NOT_SUPPORTED");
    // What "modern" wants beyond this is that nobody speaks TLS 1.2, which clients of ours do.
    assert!(!scan.is_compliant);
    let remarks = scan.verdict.lines().filter_map(|line| {
        let (what, _) = line.trim().strip_prefix("* ")?.split_once(": ")?;
        Some(what)
    });
    assert_eq!(
        remarks.collect::<Vec<_>>(),
        ["tls_versions", "ciphers"],
        "{}",
        scan.verdict
    );
}
