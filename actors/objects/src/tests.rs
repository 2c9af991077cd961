//! Files in a folder of this machine, and what settings may name.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use super::*;

fn open(folder: &FilePath) -> Objects {
    let url = format!("file:{}", folder.display());
    Location::parse(&url, "").unwrap().open().unwrap()
}

#[test]
fn a_location_is_a_folder_or_a_bucket() {
    for url in [
        "file:data/objects",
        "file:///var/lib/colloquy",
        "s3://bucket",
        "s3://bucket/a/b",
        "gs://bucket/a",
        "az://container",
    ] {
        assert!(Location::parse(url, "").is_ok(), "{url}");
    }
    for url in [
        "",
        "data",
        "file:",
        "s3:bucket",
        "s3://",
        "s3:///a",
        "ftp://a/b",
        "s3://a/b//c",
    ] {
        assert!(Location::parse(url, "").is_err(), "{url}");
    }
}

#[tokio::test]
async fn files_are_put_read_listed_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(&folder.path().join("made"));
    let large: Vec<u8> = (0..PART_BYTES * 2 + 17)
        .map(|at| (at % 251) as u8)
        .collect();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    std::fs::write(&from, &large).unwrap();
    objects
        .put("a/small", Bytes::from_static(b"x"))
        .await
        .unwrap();
    let bytes = objects.put_file("b/large", &from).await.unwrap();
    assert_eq!(bytes, large.len() as u64);
    assert_eq!(objects.get("a/small").await.unwrap(), "x");
    assert_eq!(
        objects.get_file("b/large", &to, Disk::Own).await.unwrap(),
        bytes
    );
    assert_eq!(std::fs::read(&to).unwrap(), large);
    let listed = objects.list("b").await.unwrap();
    assert_eq!((listed.len(), listed[0].name.as_str()), (1, "b/large"));
    assert_eq!(listed[0].bytes, bytes);
    assert_eq!(objects.list("").await.unwrap().len(), 2);
    for _ in 0..2 {
        objects.delete("b/large").await.unwrap();
    }
    assert!(objects.get("b/large").await.unwrap_err().is_missing());
}

#[tokio::test]
async fn a_file_is_created_once_and_its_version_changes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    let version = async || objects.list("a").await.unwrap()[0].version.clone().unwrap();
    assert!(objects.create("a/one", "1".into()).await.unwrap());
    assert!(!objects.create("a/one", "2".into()).await.unwrap());
    assert_eq!(objects.get("a/one").await.unwrap(), "1");
    let first = version().await;
    assert_eq!(version().await, first);
    objects.put_secret("a/one", "22".into()).await.unwrap();
    assert_ne!(version().await, first);
}

#[tokio::test]
async fn a_secret_is_its_owners_alone_and_what_a_dead_process_left_is_not_listed() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    for content in ["first", "second"] {
        objects
            .put_secret("keys/a.pem", content.into())
            .await
            .unwrap();
        assert_eq!(objects.get("keys/a.pem").await.unwrap(), content);
    }
    let mode = |name: &str| {
        let path = folder.path().join(name);
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("keys/a.pem"), mode("keys")), (0o600, 0o700));
    std::fs::write(folder.path().join("keys/a.pem#170"), "half").unwrap();
    assert_eq!(objects.list("keys").await.unwrap().len(), 1);
}

#[tokio::test]
async fn files_below_a_folder_have_the_rest_of_their_names_and_reading_makes_none() {
    let folder = tempfile::tempdir().unwrap();
    let (objects, missing) = (open(folder.path()), folder.path().join("missing"));
    let below = objects.below("a/b");
    below.put_secret("c", "1".into()).await.unwrap();
    assert_eq!(objects.get("a/b/c").await.unwrap(), "1");
    assert_eq!(below.get("c").await.unwrap(), "1");
    assert_eq!(below.list("").await.unwrap()[0].name, "c");
    assert_eq!(below.url("c"), objects.url("a/b/c"));
    let location = Location::parse(&format!("file:{}", missing.display()), "").unwrap();
    assert!(location.open_existing().is_err());
    assert!(!missing.exists());
}

#[test]
fn a_file_of_any_length_has_no_more_parts_than_it_may() {
    for length in [0, 1, FILE_BYTES_MAX, FILE_BYTES_MAX + 1, 1 << 40, 5 << 40] {
        let part = part_bytes(length) as u64;
        assert!(length.div_ceil(part) <= PARTS_MAX, "{length}");
        assert!(part >= PART_BYTES as u64, "{length}");
    }
}

#[tokio::test]
async fn bytes_that_come_one_by_one_are_kept_as_if_they_had_come_together() {
    let objects = Objects {
        storage: Arc::new(object_store::memory::InMemory::new()),
        prefix: Path::default(),
        url: "s3://bucket".to_owned(),
        folder: None,
        signer: None,
    };
    let mut upload = objects.begin("a").await.unwrap();
    for at in 0..100_000_u32 {
        let byte = [(at % 251) as u8];
        upload.write(Bytes::copy_from_slice(&byte)).await.unwrap();
    }
    let Sending::Whole(first) = upload.sending else {
        panic!("it is shorter than a part");
    };
    let pieces = first.freeze();
    let count = pieces.iter().count();
    assert!(count < 1_000, "{count} pieces of memory");
    let kept: Vec<u8> = pieces.iter().flatten().copied().collect();
    assert!(
        kept.iter()
            .enumerate()
            .all(|(at, byte)| usize::from(*byte) == at % 251)
    );
    assert_eq!(kept.len(), 100_000);
}

#[tokio::test]
async fn pieces_of_any_length_are_put_into_a_folder_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    let mut upload = objects.begin("a/long").await.unwrap();
    let lengths = [
        1,
        UNSYNCED_MAX + 1,
        3,
        UNSYNCED_MAX * 3,
        5_000,
        UNSYNCED_MAX - 1,
        7,
    ];
    let mut expected = Vec::new();
    for length in lengths {
        let piece: Vec<u8> = (0..length)
            .map(|at| ((expected.len() + at) % 251) as u8)
            .collect();
        expected.extend_from_slice(&piece);
        upload.write(piece.into()).await.unwrap();
    }
    upload.finish().await.unwrap();
    assert!(objects.get("a/long").await.unwrap() == expected);
}

#[tokio::test]
async fn large_files_that_nobody_reads_go_whole_or_not_whole() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    let large = vec![7; 5 << 20];
    objects.put("b/one", large.clone().into()).await.unwrap();
    objects.put("b/other", "stays".into()).await.unwrap();
    std::fs::write(folder.path().join("b/one#17"), &large).unwrap();
    for _ in 0..2 {
        objects.delete_unfinished("b/one").await.unwrap();
        let left = std::fs::read_dir(folder.path().join("b")).unwrap();
        let left: Vec<_> = left.map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, ["other"]);
    }
    let (path, copy) = (folder.path().join("alone"), folder.path().join("copy"));
    std::fs::write(&path, &large).unwrap();
    std::fs::hard_link(&path, &copy).unwrap();
    remove_large(&path, Disk::Own).unwrap();
    assert!(!path.exists());
    assert!(std::fs::read(&copy).unwrap() == large, "it is somebody's");
}

#[tokio::test]
async fn what_is_left_of_an_upload_goes_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    let mut upload = objects.begin("a/one").await.unwrap();
    upload.write(Bytes::from_static(b"begun")).await.unwrap();
    objects
        .put("a/two", Bytes::from_static(b"x"))
        .await
        .unwrap();
    // As a process leaves it that is killed.
    std::mem::forget(upload);
    // An empty folder goes, too.
    let names = || std::fs::read_dir(folder.path().join("a")).map_or(0, Iterator::count);
    assert_eq!(names(), 2);
    objects.delete_upload("a/one").await.unwrap();
    assert_eq!(names(), 1);
    objects.delete_upload("a/two").await.unwrap();
    assert_eq!(names(), 0);
}
