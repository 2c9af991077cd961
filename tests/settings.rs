//! Settings from a file, from the environment and from files that hold secrets; `colloquy config`
//! says whether they can be used, and where each comes from.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::support::server::{OPERATOR, Setup};
use crate::support::{Authority, process};

/// `colloquy config` in this folder, with these variables.
fn config(command: &str, folder: &Path, variables: &[(&str, &str)]) -> Output {
    let mut asked = process::colloquy();
    asked.args(["config", command]).current_dir(folder);
    asked.envs(variables.iter().copied()).output().unwrap()
}

/// What is printed by one that succeeds.
fn printed(output: &Output) -> String {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{text}{}", complaint(output));
    text
}

fn complaint(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn folder(settings: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.toml"), settings).unwrap();
    folder
}

/// The settings that a text has, by section and key, without what is said of them.
fn settings(text: &str) -> toml::Table {
    text.parse()
        .unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Settings with one mistake, and what must be told of it.
const MISTAKES: [(&str, &[&str]); 17] = [
    (
        "[[issuers]]\nissuer = \"https://issuer.example\"\nadience = \"colloquy\"\n",
        &["issuers[0].adience", "\"colloquy\"", "audience"],
    ),
    (
        "[server]\nbnd = \"127.0.0.1:0\"\n",
        &["bnd", "127.0.0.1:0", "bind"],
    ),
    (
        "[limits]\nmax_body_bytes = \"plenty\"\n",
        &["max_body_bytes", "plenty"],
    ),
    ("[limits]\nmax_body_bytes = -5\n", &["max_body_bytes", "-5"]),
    ("[sever]\nbind = \"127.0.0.1:0\"\n", &["sever", "server"]),
    (
        "[store]\nkind = \"postgres\"\n",
        &["kind", "postgres", "sqlite"],
    ),
    ("[server\n", &["config.toml"]),
    ("[admin]\ntoken = \"op_short\"\n", &["token", "20"]),
    (
        "[log]\nlevel = \"inf\"\n",
        &["log.level", "inf", "error, warn, info, debug, trace"],
    ),
    (
        "[log]\nlevel = \"info,colloquy=bogus\"\n",
        &["log.level", "bogus", "error, warn, info, debug, trace"],
    ),
    (
        "[cors]\nallowed_origins = [\"x\"]\n",
        &["cors.allowed_origins", "\"x\"", "https://app.example.com"],
    ),
    (
        "[cors]\nallowed_origins = [\"https://a.example/\"]\n",
        &["cors.allowed_origins", "https://a.example/"],
    ),
    (
        "[cors]\nallowed_origins = [\"https://a.example\", \"https://b.example:443\"]\n",
        &["cors.allowed_origins[1]", "https://b.example:443", "port"],
    ),
    (
        "[cors]\nallowed_origins = [\"https://a.example\", \"https://a.example\"]\n",
        &["cors.allowed_origins[1]", "twice"],
    ),
    (
        "[cors]\nallowed_origins = [\"*\", \"https://a.example\"]\n",
        &["cors.allowed_origins[1]", "alone"],
    ),
    (
        "[limits]\nmax_body_bytes = 99999999999999999999\n",
        &["max_body_bytes", "99999999999999999999", "64 bits"],
    ),
    (
        "[plans.pro]\nburst_per_minute = 5000000000\n",
        &["burst_per_minute", "4294967295"],
    ),
];

#[test]
fn a_typo_in_the_settings_stops_the_start_with_key_value_and_what_would_be_right() {
    for (config, named) in MISTAKES {
        let folder = tempfile::TempDir::new().unwrap();
        let setup = Setup::default()
            .unset("COLLOQUY__ADMIN__TOKEN")
            .config(config);
        let (status, output) = setup.refused_in(folder.path());
        assert!(!status.success(), "{config}");
        for name in named {
            assert!(
                output.contains(name),
                "{name:?} is not named for {config:?}:\n{output}"
            );
        }
        assert!(!output.contains("panicked"), "{output}");
        assert!(
            !folder.path().join("data").exists(),
            "it made data/ before it read the settings"
        );
    }
}

#[test]
fn a_typo_in_the_environment_stops_the_start_too() {
    for (name, value, named) in [
        ("COLLOQUY__SERVER__BND", "127.0.0.1:0", "BND"),
        ("COLLOQUY__LIMITS__MAX_BODY_BYTES", "plenty", "plenty"),
        ("COLLOQUY__SERVER__BIND", "nowhere", "nowhere"),
        ("COLLOQUY__SERVER__REGION", "eu central 1", "server.region"),
        ("COLLOQUY__SERVER__REGION", "eu_central_1", "server.region"),
        (
            "COLLOQUY__SERVER__REGION",
            "a-region-of-thirty-three-letters-",
            "server.region",
        ),
    ] {
        let folder = tempfile::TempDir::new().unwrap();
        let (status, output) = Setup::default().env(name, value).refused_in(folder.path());
        assert!(!status.success());
        assert!(
            output.to_uppercase().contains(&named.to_uppercase()),
            "{output}"
        );
    }
}

#[tokio::test]
async fn the_environment_wins_over_the_file_and_the_file_over_the_default() {
    let server = Setup::default()
        .config("[limits]\nmax_body_bytes = 2000\nauth_failures_per_minute = 1\n")
        .env("COLLOQUY__LIMITS__AUTH_FAILURES_PER_MINUTE", "1000")
        .start();
    let c = server.account().await.test();
    let post = |length: usize| {
        let body = format!("{}{}", r#"{"name":"x"}"#, " ".repeat(length - 12));
        c.call("POST", "/v1/customers")
            .bytes(body)
            .with("content-type", "application/json")
    };
    post(2000).await.expect(201);
    post(2001).await.error(413, "payload_too_large", "");
    for _ in 0..5 {
        server
            .anonymous()
            .get("/v1")
            .await
            .error(401, "unauthorized", "");
    }
}

#[test]
fn every_setting_is_shown_with_where_it_comes_from() {
    let folder = folder(
        "[server]\ndrain_seconds = 7.5\nbind = \"127.0.0.1:1\"\n[supervision.key]\nidle_seconds = 9\n\
         [[issuers]]\nissuer = \"https://issuer.example\"\naudience = \"colloquy\"\naccount_claim = \"account\"\nalgorithms = [\"RS256\"]\n\
         jwks_url = \"https://issuer.example/jwks\"\nscopes = [\"conversations:read\"]\n",
    );
    let variables = [("COLLOQUY__SERVER__BIND", "127.0.0.1:2")];
    let shown = printed(&config("show", folder.path(), &variables));
    for line in [
        "bind = \"127.0.0.1:2\" # COLLOQUY__SERVER__BIND",
        "drain_seconds = 7.5 # config.toml",
        "retention_days = 0 # default",
        "idle_seconds = 9 # config.toml",
    ] {
        assert!(shown.lines().any(|one| one == line), "no {line}: {shown}");
    }
    let defaults = settings(include_str!("../config.toml"));
    let all = settings(&shown);
    for (section, keys) in &defaults {
        for key in keys.as_table().into_iter().flat_map(toml::Table::keys) {
            assert!(all[section].get(key).is_some(), "{section}.{key}: {shown}");
        }
    }
    assert!(!folder.path().join("data").exists(), "it opened the store");
}

#[test]
fn what_is_shown_is_a_file_with_the_same_settings() {
    let first = folder("[limits]\nmax_body_bytes = 2000\n[log]\nlevel = \"info,colloquy=debug\"\n");
    let variables = [
        ("COLLOQUY__WEBHOOKS__RETRY_SCHEDULE_SECONDS", "[0.25, 3]"),
        ("COLLOQUY__CORS__ALLOWED_ORIGINS", "[\"https://a.example\"]"),
        ("COLLOQUY__SERVER__PUBLIC_URL", "https://support.example"),
    ];
    let shown = printed(&config("show", first.path(), &variables));
    let second = folder(&shown);
    let again = printed(&config("show", second.path(), &[]));
    assert_eq!(settings(&shown), settings(&again));
    assert!(!again.contains("# default"), "each is in the file: {again}");
    let good = printed(&config("check", second.path(), &[]));
    assert_eq!(good, "The settings can be used.\n");
}

#[test]
fn secrets_are_not_shown_and_a_connection_string_without_who_signs_in() {
    let folder = folder("[encryption]\nmaster_key_file = \"master\"\n");
    let key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    fs::write(folder.path().join("master"), key).unwrap();
    let variables = [
        ("COLLOQUY__ADMIN__TOKEN", OPERATOR),
        ("COLLOQUY__ENCRYPTION__PREVIOUS_MASTER_KEY", key),
        (
            "COLLOQUY__STORE__URI",
            "mongodb://grace:p4ssw0rd@db.example:27017/?tls=true",
        ),
    ];
    let shown = printed(&config("show", folder.path(), &variables));
    for line in [
        "token = \"(not shown)\" # COLLOQUY__ADMIN__TOKEN",
        "previous_master_key = \"(not shown)\" # COLLOQUY__ENCRYPTION__PREVIOUS_MASTER_KEY",
        "master_key = \"\" # default",
        "master_key_file = \"master\" # config.toml",
        "uri = \"mongodb://(not shown)@db.example:27017/?tls=true\" # COLLOQUY__STORE__URI",
    ] {
        assert!(shown.lines().any(|one| one == line), "no {line}: {shown}");
    }
    for secret in [OPERATOR, key, "p4ssw0rd", "grace"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn what_stops_the_start_is_told_by_both_commands_with_exit_code_2() {
    for (mistake, named) in MISTAKES {
        for command in ["check", "show"] {
            let folder = folder(mistake);
            let refused = config(command, folder.path(), &[]);
            assert_eq!(refused.status.code(), Some(2), "{mistake}");
            assert!(refused.stdout.is_empty(), "{mistake}");
            let complaint = complaint(&refused);
            let all = named.iter().all(|name| complaint.contains(name));
            assert!(all, "{mistake}: {complaint}");
        }
    }
    let folder = folder("");
    for (words, named) in [
        (vec!["config"], "check"),
        (vec!["config", "chekc"], "check"),
        (vec!["config", "show", "x"], "show"),
        (vec!["config", "show", "--json"], "--json"),
        (vec!["config", "check", "--file", "x"], "--file"),
    ] {
        let refused = process::colloquy()
            .args(&words)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        assert!(complaint(&refused).contains(named), "{words:?}");
    }
}

#[tokio::test]
async fn a_secret_is_read_from_the_file_that_is_named_in_its_place() {
    let secrets = tempfile::tempdir().unwrap();
    let file = secrets.path().join("token");
    for end in ["", "\n", "\r\n"] {
        fs::write(&file, format!("{OPERATOR}{end}")).unwrap();
        let server = Setup::default()
            .unset("COLLOQUY__ADMIN__TOKEN")
            .env("COLLOQUY__ADMIN__TOKEN_FILE", file.to_str().unwrap())
            .start();
        let accounts = server.operator().get("/admin/v1/accounts");
        accounts.await.expect(200);
        assert!(!server.printed().contains(OPERATOR), "it is given");
    }
    // In the file of settings the same.
    let settings = format!("[admin]\ntoken_file = {file:?}\n");
    let server = Setup::default()
        .unset("COLLOQUY__ADMIN__TOKEN")
        .config(&settings)
        .start();
    let accounts = server.operator().get("/admin/v1/accounts");
    accounts.await.expect(200);
}

#[test]
fn a_file_of_a_secret_that_can_not_be_used_is_named() {
    let folder = folder("[store]\nuri_file = \"uri.txt\"\n");
    let here = folder.path();
    let refused = |variables: &[(&str, &str)], words: &[&str]| {
        let refused = config("check", here, variables);
        assert_eq!(refused.status.code(), Some(2));
        let complaint = complaint(&refused);
        for word in words {
            assert!(complaint.contains(word), "no {word}: {complaint}");
        }
        assert!(!complaint.contains("op_short"), "{complaint}");
    };
    refused(
        &[],
        &["config.toml", "store.uri_file", "\"uri.txt\"", "read"],
    );
    fs::write(here.join("uri.txt"), "mongodb://db.example\n").unwrap();
    fs::write(here.join("token"), "op_short").unwrap();
    printed(&config("check", here, &[]));
    let named = ("COLLOQUY__ADMIN__TOKEN_FILE", "token");
    refused(&[named], &[named.0, "admin.token", "20 to 200"]);
    for nothing in ["", "\n", "\r\n"] {
        fs::write(here.join("nothing"), nothing).unwrap();
        let of_nothing = (named.0, "nothing");
        refused(&[of_nothing], &["admin.token_file", "\"nothing\"", "empty"]);
    }
    let given = ("COLLOQUY__ADMIN__TOKEN", OPERATOR);
    refused(&[named, given], &["admin.token", "twice", given.0]);
    // Only secrets are read from files.
    let other = ("COLLOQUY__SERVER__BIND_FILE", "token");
    refused(&[other], &["server.bind_file", "server.bind"]);
    refused(
        &[("COLLOQUY__ADMIN__TOKEN_FILE", "")],
        &["admin.token_file"],
    );
    // The environment goes over the file, whichever of the two is given there.
    let uri = ("COLLOQUY__STORE__URI", "mongodb://other.example");
    let shown = printed(&config("show", here, &[uri]));
    assert!(
        shown.contains("uri = \"mongodb://other.example\" # COLLOQUY__STORE__URI"),
        "{shown}"
    );
}

/// Settings with a secret where none is expected, and what must be told of the mistake.
const MISPLACED: [(&str, &str); 16] = [
    ("[admin]\ntokn = \"SECRET\"\n", "admin.token"),
    ("[admn]\ntoken = \"SECRET\"\n", "admin"),
    (
        "[admin]\noperator_password = \"SECRET\"\n",
        "admin.operator_password",
    ),
    (
        "[objects]\nsecret_access_key = \"SECRET\"\n",
        "objects.secret_access_key",
    ),
    ("[server]\ntoken = \"SECRET\"\n", "server.token"),
    ("[log]\ntoken = \"SECRET\"\n", "log.token"),
    ("[objects]\nsecret = \"SECRET\"\n", "objects.secret"),
    ("[webhooks]\nsecret = \"SECRET\"\n", "webhooks.secret"),
    ("[tls]\nkee = \"SECRET\"\n", "tls.key"),
    ("[tls]\nkey = \"SECRET\\nno key\"\n", "tls.key"),
    (
        "[store]\nurl = \"mongodb://grace:SECRET@db\"\n",
        "store.uri",
    ),
    ("[admin]\ntoken = [\"SECRET\"]\n", "admin.token"),
    ("admin = \"SECRET\"\n", "admin"),
    ("[admin]\ntoken = SECRET\n", "token"),
    ("[admin]\ntoken = \"SECRET\n", "token"),
    (
        "[traces]\nendpoint = \"https://grace:SECRET@otel\"\n",
        "traces.endpoint",
    ),
];

#[test]
fn no_mistake_tells_a_secret() {
    let secret = "op_x3cr3tOfTheOperators";
    for (mistake, named) in MISPLACED {
        let folder = folder(&mistake.replace("SECRET", secret));
        for command in ["check", "show"] {
            let refused = config(command, folder.path(), &[]);
            assert_eq!(refused.status.code(), Some(2), "{mistake}");
            let complaint = complaint(&refused);
            assert!(complaint.contains(named), "{mistake}: {complaint}");
            assert!(!complaint.contains(secret), "{mistake}: {complaint}");
        }
    }
    for name in [
        "ADMIN__TOKE",
        "ADMIN__TOKEN_FILE",
        "TOKEN",
        "ENCRYPTION__MASTERKEY",
        "SHARED_CACHES__PURGE_HEADR",
    ] {
        let name = format!("COLLOQUY__{name}");
        let refused = config("check", folder("").path(), &[(&name, secret)]);
        assert_eq!(refused.status.code(), Some(2), "{name}");
        let complaint = complaint(&refused);
        assert!(complaint.contains(&name), "{complaint}");
        assert!(!complaint.contains(secret), "{complaint}");
    }
}

#[test]
fn a_key_in_the_place_of_its_files_name_is_not_shown() {
    let folder = folder("");
    let key = "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JR0hBZ0VBTUJNR0J5cUdTTTQ5/+==";
    let authority = Authority::new();
    let certificate = authority.issue("ours").certificate;
    let certificate = ("COLLOQUY__TLS__CERTIFICATE", certificate.to_str().unwrap());
    let told = |of_key: &str| {
        let variables = [certificate, ("COLLOQUY__TLS__KEY", of_key)];
        let refused = config("check", folder.path(), &variables);
        assert_eq!(refused.status.code(), Some(2));
        complaint(&refused)
    };
    let complaint = told(key);
    assert!(complaint.contains("`tls.key` = (not shown)"), "{complaint}");
    // The name itself helps whoever has mistyped it.
    for name in ["tls.key", "/etc/nowhere/key"] {
        let complaint = told(name);
        assert!(
            complaint.contains(&format!("`tls.key` = \"{name}\"")),
            "{complaint}"
        );
    }
}

#[test]
fn urls_are_shown_without_what_lets_somebody_in() {
    let variables = [
        (
            "COLLOQUY__SHARED_CACHES__PURGE_URL",
            "https://cdn.example/purge?token=p4ssw0rd&p4ssw0rd",
        ),
        ("COLLOQUY__SHARED_CACHES__LINK_SECONDS", "10"),
        (
            "COLLOQUY__SHARED_CACHES__PURGE_HEADER",
            "Key: a://p4ssw0rd@x",
        ),
        (
            "COLLOQUY__STORE__URI",
            "mongodb://db.example/?tls=true&authMechanismProperties=AWS_SESSION_TOKEN:p4ssw0rd",
        ),
    ];
    let shown = printed(&config("show", folder("").path(), &variables));
    for line in [
        "purge_url = \"https://cdn.example/purge?token=(not shown)&(not shown)\" # COLLOQUY__SHARED_CACHES__PURGE_URL",
        "purge_header = \"(not shown)\" # COLLOQUY__SHARED_CACHES__PURGE_HEADER",
        "uri = \"mongodb://db.example/?tls=true&authMechanismProperties=(not shown)\" # COLLOQUY__STORE__URI",
    ] {
        assert!(shown.lines().any(|one| one == line), "no {line}: {shown}");
    }
    assert!(!shown.contains("p4ssw0rd"), "{shown}");
}

/// Values of the right type with which no server can work, each by its variable, and the setting that
/// is named.
const NOT_MEANT: [(&str, &str); 30] = [
    ("BACKUP__URL", "file:data/objects"),
    ("BACKUP__URL", "file:data/../data/objects/"),
    ("BACKUP__URL", "file:data"),
    ("BACKUP__URL", "file:."),
    ("BACKUP__URL", "file:/"),
    ("BACKUP__EVERY_HOURS", "1e-7"),
    ("BACKUP__ENDPOINT", "http://grace:hopper@s3.example"),
    ("BACKUP__ENDPOINT", "http://"),
    ("OBJECTS__ENDPOINT", "https://s3.example?x=y"),
    ("SERVER__PUBLIC_URL", "http://x?y"),
    ("SERVER__PUBLIC_URL", "http://grace:hopper@x"),
    ("SERVER__PUBLIC_URL", "http://x/path"),
    ("SERVER__PUBLIC_URL", "http://x/"),
    ("SERVER__PUBLIC_URL", "http://x#y"),
    ("SERVER__PUBLIC_URL", "https://"),
    ("SERVER__PUBLIC_URL", "https://x y"),
    ("SERVER__PUBLIC_URL", "ftp://x"),
    ("SERVER__PUBLIC_URL", "https://X.example"),
    ("SERVER__REGION", "-"),
    ("SERVER__REGION", "eu-"),
    ("LIMITS__MAX_ATTACHMENT_BYTES", "0"),
    ("LIMITS__MAX_ATTACHMENT_BYTES", "9000000000000000000"),
    ("SECURITY_HEADERS__STRICT_TRANSPORT_SECURITY", "bogus"),
    ("SECURITY_HEADERS__STRICT_TRANSPORT_SECURITY", "max-age=x"),
    (
        "SECURITY_HEADERS__STRICT_TRANSPORT_SECURITY",
        "max-age=1, preload",
    ),
    (
        "SHARED_CACHES__PURGE_URL",
        "https://grace:hopper@cdn.example",
    ),
    ("TRACES__ENDPOINT", "https://grace:hopper@otel.example"),
    ("TRACES__ENDPOINT", "https://otel.example?x=y"),
    (
        "TLS__ACME__DIRECTORY",
        "https://grace:hopper@acme.example/dir",
    ),
    ("TLS__ACME__DIRECTORY", "https:///dir?a b"),
];

#[test]
fn values_that_no_server_can_work_with_are_refused_by_name() {
    for (name, value) in NOT_MEANT {
        let variable = format!("COLLOQUY__{name}");
        let refused = config("check", folder("").path(), &[(&variable, value)]);
        let complaint = complaint(&refused);
        assert_eq!(refused.status.code(), Some(2), "{name} = {value}");
        let key = name.to_lowercase().replace("__", ".");
        assert!(complaint.contains(&format!("`{key}`")), "{complaint}");
    }
    for (name, value) in [
        ("BACKUP__URL", "file:data/backups"),
        ("BACKUP__URL", "s3://bucket/backups"),
        ("BACKUP__EVERY_HOURS", "0.5"),
        ("SERVER__PUBLIC_URL", "http://[::1]:8080"),
        ("SERVER__REGION", "eu-central-1"),
        (
            "SECURITY_HEADERS__STRICT_TRANSPORT_SECURITY",
            "max-age=31536000; includeSubDomains",
        ),
    ] {
        let variable = format!("COLLOQUY__{name}");
        printed(&config("check", folder("").path(), &[(&variable, value)]));
    }
    let buckets = |backups| {
        let objects = ("COLLOQUY__OBJECTS__URL", "s3://bucket/files");
        config(
            "check",
            folder("").path(),
            &[objects, ("COLLOQUY__BACKUP__URL", backups)],
        )
    };
    printed(&buckets("s3://bucket/file"));
    for holds in ["s3://bucket", "s3://bucket/files"] {
        assert!(
            complaint(&buckets(holds)).contains("`backup.url`"),
            "{holds}"
        );
    }
}
