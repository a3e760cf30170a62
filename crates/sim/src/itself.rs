//! Is an object what its own record says? Asked of each copy by itself: what all members have alike, and wrong, no comparison finds.
//!
//! Digests that are recorded are those of the bytes; keys lie only where the flag for omap is; what a clone is said to share with the next newer one is the
//! same in both. Written down apart from the cores, of stock's definitions.

use base::crc32c;
use std::collections::BTreeMap;
use types::ObjectInfo;
use types::object_info::oi_flag;

/// Keys and values by key.
pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The digest of an omap: its header, then each key and each value behind its length.
fn omap_digest(header: &[u8], omap: &Pairs) -> u32 {
    omap.iter().flat_map(|(key, value)| [key, value]).fold(crc32c(u32::MAX, header), |crc, part| {
        let len = u32::try_from(part.len()).expect("keys and values are short");
        crc32c(crc32c(crc, &len.to_le_bytes()), part)
    })
}

/// Holds a record against what it is of.
///
/// # Errors
/// What is not so.
pub(crate) fn check(info: &ObjectInfo, data: &[u8], header: &[u8], omap: &Pairs) -> Result<(), String> {
    let digests = [
        ("data", oi_flag::DATA_DIGEST, info.data_digest, crc32c(u32::MAX, data)),
        ("omap", oi_flag::OMAP_DIGEST, info.omap_digest, omap_digest(header, omap)),
    ];
    if let Some((what, _, recorded, is)) = digests.into_iter().find(|(_, flag, recorded, is)| info.has(*flag) && recorded != is) {
        return Err(format!("the digest of its {what} is {is:#x}, and its record says {recorded:#x}"));
    }
    if !info.is_omap() && !(omap.is_empty() && header.is_empty()) {
        return Err(format!("it has {} keys, and its record says that it has no omap", omap.len()));
    }
    Ok(())
}

/// Holds what a clone shares with the next newer one, or with the head, against the bytes of both.
///
/// # Errors
/// Where they differ.
pub(crate) fn shares(ranges: impl Iterator<Item = (u64, u64)>, older: &[u8], newer: &[u8]) -> Result<(), String> {
    for (at, len) in ranges {
        let range = at as usize..(at + len) as usize;
        match (older.get(range.clone()), newer.get(range)) {
            (Some(a), Some(b)) if a == b => {}
            (Some(_), Some(_)) => return Err(format!("{at}~{len} is said to be the same, and is not")),
            _ => return Err(format!("{at}~{len} is said to be the same, of {} and {} bytes", older.len(), newer.len())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digested(data: u32, omap: u32) -> ObjectInfo {
        let mut info = ObjectInfo::default();
        info.set_data_digest(data);
        info.set_omap_digest(omap);
        info.set(oi_flag::OMAP);
        info
    }

    #[test]
    fn a_record_that_says_something_else_is_found() {
        let omap = Pairs::from([(b"k".to_vec(), b"value".to_vec())]);
        let right = digested(crc32c(u32::MAX, b"data"), omap_digest(b"h", &omap));
        assert_eq!(check(&right, b"data", b"h", &omap), Ok(()));
        assert!(check(&right, b"Data", b"h", &omap).unwrap_err().contains("data"));
        assert!(check(&right, b"data", b"", &omap).unwrap_err().contains("omap"));
        let mut plain = ObjectInfo::default();
        assert!(check(&plain, b"", b"", &omap).is_err() && check(&plain, b"", b"h", &Pairs::new()).is_err());
        plain.set(oi_flag::OMAP);
        assert_eq!(check(&plain, b"", b"", &omap), Ok(()));
    }

    #[test]
    fn what_is_shared_is_the_same() {
        assert_eq!(shares([(1, 2)].into_iter(), b"abcd", b"xbcy"), Ok(()));
        assert!(shares([(1, 3)].into_iter(), b"abcd", b"xbcy").is_err());
        assert!(shares([(1, 3)].into_iter(), b"abcd", b"xbc").is_err());
    }
}
