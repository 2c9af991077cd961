//! The salted hashes of what commits say, which every store keeps beside it.

use sha2::{Digest, Sha256};

use colloquy_model::commit::Commit;

/// A salt and the salted hash of a row's payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct PayloadDigest {
    pub(super) salt: [u8; 16],
    pub(super) hash: [u8; 32],
}

/// Those of the rows of a commit, made before the writer is reached.
pub(super) type PayloadDigests = Vec<PayloadDigest>;

/// A salt and the salted hash of each payload: the audit chain goes over these, so that a text can
/// be erased without breaking it.
pub(super) fn payload_digests(commit: &Commit) -> PayloadDigests {
    let digest = |payload: &[u8]| {
        let mut salt = [0; 16];
        colloquy_model::random::fill(&mut salt);
        let hash = Sha256::new()
            .chain_update(salt)
            .chain_update(payload)
            .finalize();
        PayloadDigest {
            salt,
            hash: hash.into(),
        }
    };
    commit
        .stored_payloads()
        .map(|payload| digest(payload))
        .collect()
}
