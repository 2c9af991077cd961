//! Whether a folder of attachments has the bytes of those that the store knows, and no others.

use std::collections::HashMap;

use crate::accounts::object_name;
use crate::store::{Finding, KnownAttachment};
use colloquy_objects::{ObjectError, Objects};

/// What is wrong in a folder; in a bucket nothing is looked for.
///
/// # Errors
/// The folder can't be read.
pub async fn check(
    objects: &Objects,
    known: &[KnownAttachment],
) -> Result<Vec<Finding>, ObjectError> {
    if !objects.is_folder() {
        return Ok(Vec::new());
    }
    let mut left: HashMap<String, &KnownAttachment> = known
        .iter()
        .map(|one| (object_name(one.tenant, one.id), one))
        .collect();
    let mut findings = Vec::new();
    for object in objects.list("attachments").await? {
        if left.remove(&object.name).is_none() {
            findings.push(Finding {
                check: "bytes of attachments have a record",
                found: object.name,
            });
        }
    }
    let missing = left.into_iter().filter(|(_, one)| one.is_whole);
    findings.extend(missing.map(|(name, _)| Finding {
        check: "attachments have their bytes",
        found: name,
    }));
    Ok(findings)
}
