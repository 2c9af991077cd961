//! `colloquy restore`: a backup becomes a store wherever it lies, what is damaged is named, and what
//! a restore does not finish stays nowhere.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{
    SOON, backed_up, begun, copy, ended, folder_of, made, refused, restored, restored_soundly,
};
use crate::support::files::below;
use crate::support::server::Folder;
use crate::support::{process, tool, until_now};

#[tokio::test]
async fn what_can_not_be_restored_is_refused_by_name() {
    let mut server = backed_up().start();
    let made = made(&server.operator()).await;
    server.term();
    let url = made["url"].as_str().unwrap();
    let folder = Folder::new();
    refused(&restored(url, &server.work(), &[]), "is not empty");
    let absent = format!("{url}0");
    refused(
        &restored(&absent, &folder.work(), &[]),
        "there is no backup at",
    );
    refused(
        &restored("ftp://a/b", &folder.work(), &[]),
        "must be file:FOLDER",
    );
    let absent = "file:/nowhere/colloquy/bak_1";
    refused(
        &restored(absent, &folder.work(), &[]),
        "there is no backup at",
    );
    assert!(!Path::new("/nowhere").exists());
    let file = folder.work().join("file");
    fs::write(&file, "somebody's").unwrap();
    refused(&restored(url, &file, &[]), "is no folder");
    let within = folder_of(url).join("a/b");
    let inside = "lies in the backup itself";
    refused(&restored(url, &within, &[]), inside);
    refused(&restored(url, &folder_of(url), &[]), inside);
    assert!(!folder_of(url).join("a").exists());
    assert_eq!(below(&folder.work()), [file]);
}

#[test]
fn an_option_that_is_given_twice_is_refused_as_the_others_are() {
    let folder = Folder::new();
    let mut command = process::colloquy();
    command
        .args(["restore", "file:backups/bak_1", "--to", "a", "--to", "b"])
        .current_dir(folder.work());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.starts_with("colloquy: --to is given twice\n"),
        "{said}"
    );
    assert!(said.contains("Usage: colloquy"), "{said}");
    assert_eq!(fs::read_dir(folder.work()).unwrap().count(), 0);
}

/// A file of a backup, what is done to it, and what is said of that.
struct Damage {
    file: &'static str,
    /// What stands in it then; none: it is gone.
    content: fn(Vec<u8>) -> Option<Vec<u8>>,
    words: &'static str,
}

const DAMAGES: [Damage; 8] = [
    Damage {
        file: "manifest.json",
        content: |_| None,
        words: "there is no backup at file:",
    },
    Damage {
        file: "manifest.json",
        content: |bytes| Some(bytes[..bytes.len() / 2].to_vec()),
        words: "/manifest.json is damaged",
    },
    Damage {
        file: "manifest.json",
        content: |_| Some(b"{\n  \"backup_id\": 1\n}\n".to_vec()),
        words: "/manifest.json is damaged",
    },
    Damage {
        file: "colloquy.db.key",
        content: |_| None,
        words: "/colloquy.db.key is missing",
    },
    Damage {
        file: "colloquy.db.key",
        content: |bytes| Some(bytes[..10].to_vec()),
        words: "/colloquy.db.key is damaged",
    },
    // Another key, well-formed.
    Damage {
        file: "colloquy.db.key",
        content: |mut bytes| {
            bytes[0] = if bytes[0] == b'A' { b'B' } else { b'A' };
            Some(bytes)
        },
        words: "/colloquy.db.key is damaged",
    },
    Damage {
        file: "colloquy.db.zst",
        content: |_| None,
        words: "/colloquy.db.zst is missing",
    },
    Damage {
        file: "colloquy.db.zst",
        content: |mut bytes| {
            *bytes.last_mut().unwrap() ^= 1;
            Some(bytes)
        },
        words: "/colloquy.db.zst is damaged",
    },
];

#[tokio::test]
async fn a_restore_that_fails_says_what_is_damaged_and_leaves_the_folder_as_it_was() {
    let mut server = backed_up().start();
    let made = made(&server.operator()).await;
    server.term();
    let url = made["url"].as_str().unwrap();
    let folder = Folder::new();
    let (empty, absent) = (folder.work(), folder.work().join("not/there"));
    for damage in &DAMAGES {
        let file = folder_of(url).join(damage.file);
        let whole = fs::read(&file).unwrap();
        match (damage.content)(whole.clone()) {
            Some(content) => fs::write(&file, content).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        for to in [&absent, &empty] {
            refused(&restored(url, to, &[]), damage.words);
            let left: Vec<_> = fs::read_dir(folder.work()).unwrap().collect();
            assert!(left.is_empty(), "{}: {left:?}", damage.words);
        }
        fs::write(&file, whole).unwrap();
    }
    for to in [&empty, &absent] {
        let output = restored(url, to, &[]);
        assert!(output.status.success(), "{output:?}");
        fs::remove_dir_all(folder.work()).unwrap();
    }
}

/// A restore that waits for the rest of a backup's file, and is killed.
struct Interrupted {
    file: PathBuf,
    aside: PathBuf,
}

impl Interrupted {
    fn kill(url: &str, to: &Path) -> Self {
        let file = folder_of(url).join("colloquy.db.zst");
        let aside = file.with_extension("aside");
        fs::rename(&file, &aside).unwrap();
        let made = Command::new("mkfifo").arg(&file).status();
        assert!(tool::started("mkfifo", made).success());
        let mut command = process::colloquy();
        command.args(["restore", url, "--to"]).arg(to);
        let mut restoring = process::spawn(command);
        until_now("it has begun to fetch", SOON, || {
            below(to)
                .iter()
                .any(|path| path.ends_with("colloquy-restore.packed"))
                .then_some(())
        });
        refused(&restored(url, to, &[]), "is in use");
        restoring.kill().unwrap();
        restoring.wait().unwrap();
        assert!(!below(to).is_empty());
        Interrupted { file, aside }
    }
}

impl Drop for Interrupted {
    fn drop(&mut self) {
        fs::rename(&self.aside, &self.file).unwrap();
    }
}

#[tokio::test]
async fn what_a_killed_restore_has_left_goes_with_the_next_and_nothing_that_is_somebodys() {
    let mut server = backed_up().start();
    let (account, operator) = (server.account().await, server.operator());
    let c = account.test();
    let conversation = c.conversation().await;
    let made = made(&operator).await;
    server.term();
    let url = made["url"].as_str().unwrap();
    let folder = Folder::new();
    let to = folder.work().join("data");
    drop(Interrupted::kill(url, &to));
    let left = below(&to);
    for somebodys in [
        "notes",
        "packed",
        "colloquy-restore.txt",
        "colloquy.db",
        "colloquy.db.key",
        "objects",
    ] {
        let path = to.join(somebodys);
        fs::write(&path, "somebody's").unwrap();
        refused(&restored(url, &to, &[]), "is not empty");
        assert_eq!(fs::read(&path).unwrap(), b"somebody's", "{somebodys}");
        fs::remove_file(&path).unwrap();
        assert_eq!(below(&to), left, "{somebodys}");
    }
    let output = restored(url, &to, &[]);
    assert!(output.status.success(), "{output:?}");
    let mut names: Vec<_> = below(&to)
        .into_iter()
        .filter_map(|path| path.file_name().map(OsString::from))
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["colloquy.db", "colloquy.db.key", "colloquy.db.lock"]
    );
    let again = backed_up().known().start_in(folder);
    let c = again.with_key(account.test_key());
    c.get(&format!("/v1/conversations/{conversation}"))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_copy_of_a_backup_is_restored_wherever_it_lies_and_from_nothing_else() {
    let mut server = backed_up().start();
    let (account, operator) = (server.account().await, server.operator());
    let c = account.test();
    let conversation = c.conversation().await;
    let made = made(&operator).await;
    let original = folder_of(made["url"].as_str().unwrap());
    // Beside it, and elsewhere.
    let (beside, elsewhere) = (original.with_file_name("before the update"), Folder::new());
    copy(&original, &beside);
    // A list has the backup once, and another one is made all the same.
    assert_eq!(
        operator.get("/admin/v1/backups").await.expect(200).total(),
        1
    );
    let later = begun(&operator).await;
    ended(&operator, &later["backup_id"]).await;
    server.term();
    fs::rename(&original, elsewhere.work().join("renamed")).unwrap();
    let copies = [beside, elsewhere.work().join("renamed")];
    for copy in &copies {
        // What lies where it was made is another one's.
        fs::create_dir_all(&original).unwrap();
        for file in below(copy) {
            fs::write(original.join(file.file_name().unwrap()), "another's").unwrap();
        }
        let folder = restored_soundly(&format!("file:{}", copy.display()), &[]);
        let mut again = backed_up().known().start_in(folder);
        let c = again.with_key(account.test_key());
        c.get(&format!("/v1/conversations/{conversation}"))
            .await
            .expect(200);
        again.term();
    }
}
