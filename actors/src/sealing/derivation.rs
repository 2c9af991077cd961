//! What is derived from a key of 256 bits by HKDF-SHA256 (RFC 5869): keys for one purpose each, and
//! the key's name.

use ring::hkdf;

/// The bytes of a key, and of every key that is derived from it.
pub(super) const KEY_BYTES: usize = 32;

/// What a name is derived for. Master keys and store keys have it from the same purpose: the first
/// stores with sealed secrets had one key for both.
const NAMES: &str = "name of the master key";

/// The key that is derived for this purpose.
pub(super) fn derived(key: &[u8; KEY_BYTES], purpose: &'static str) -> [u8; KEY_BYTES] {
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, b"colloquy").extract(key);
    let mut derived = [0; KEY_BYTES];
    let info = [purpose.as_bytes()];
    // Fails for outputs of more than 255 hashes alone; one of zeros must not become a key.
    extracted
        .expand(&info, hkdf::HKDF_SHA256)
        .and_then(|expanded| expanded.fill(&mut derived))
        .unwrap_or_else(|_| unreachable!("32 bytes can be derived"));
    derived
}

/// 16 hex digits, from which nothing can be told of the key.
pub(super) fn name(key: &[u8; KEY_BYTES]) -> String {
    let name = derived(key, NAMES);
    name.iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
