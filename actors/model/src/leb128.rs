//! Whole numbers in as few bytes as they need: seven bits in each, the lowest first, and the eighth says
//! whether another byte follows (unsigned LEB128, DWARF 5, section 7.6).

/// Appends a number to the bytes.
pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap_or_default() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or_default());
}

/// Reads the number at the beginning of the bytes and leaves what is behind it. None where the bytes end
/// before the number does, or it has more than 64 bits.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(numbers: Vec<u64>, shift in 0_u32..64) {
            let mut bytes = Vec::new();
            for number in &numbers {
                put(&mut bytes, number >> shift);
            }
            let mut rest = bytes.as_slice();
            for number in &numbers {
                prop_assert_eq!(take(&mut rest), Some(number >> shift));
            }
            prop_assert!(rest.is_empty());
            prop_assert_eq!(take(&mut rest), None);
        }
    }
}
