//! Whether where attachments are kept has the bytes of those that the store knows, and no others.

use std::collections::HashMap;

use crate::accounts::object_name;
use crate::store::{Finding, KnownAttachment};
use colloquy_objects::{ObjectError, Objects};

/// What is wrong there. Of uploads that were never finished nothing is seen.
///
/// # Errors
/// The folder can't be read, or the object storage does not answer or refuses.
pub async fn check(
    objects: &Objects,
    known: &[KnownAttachment],
) -> Result<Vec<Finding>, ObjectError> {
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
