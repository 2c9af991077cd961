//! Whether where attachments are kept has the bytes of those that the store knows, and no others.

use std::collections::HashMap;

use crate::accounts::{attachment, object_name};
use crate::store::{Finding, KnownAttachment, Store};
use colloquy_objects::{ObjectError, Objects};
use colloquy_runtime::LoadError;

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

/// What the bytes of an attachment are called where attachments are kept.
pub(crate) fn name_of(one: &KnownAttachment) -> String {
    object_name(one.tenant, one.id)
}

/// Whether an attachment is still to be had: its bytes must be there.
///
/// # Errors
/// The store is away, or what it has of the attachment can't be read.
pub(crate) async fn is_shown(store: &dyn Store, one: &KnownAttachment) -> Result<bool, LoadError> {
    let found = attachment(store, one.tenant, one.id).await?;
    Ok(found.is_some_and(|(record, _)| record.shown().is_some()))
}
