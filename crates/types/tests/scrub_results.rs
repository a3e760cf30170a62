//! What scrubs found, as it is on the wire.

use denc::Denc;
use types::scrub_results::{
    FoundObject, FoundShard, InconsistentObj, InconsistentSnapset, ScrubLsResult, object_error, shard_error, snapset_error,
};
use types::{Bytes, PgShard};

#[test]
fn what_is_missing_has_no_attributes_on_the_wire() {
    let whole = FoundShard {
        attrs: [("_".into(), Bytes::from_static(b"record"))].into(),
        size: 7,
        omap_digest: Some(3),
        selected_oi: true,
        ..FoundShard::default()
    };
    let missing = FoundShard { errors: shard_error::MISSING, primary: true, ..FoundShard::default() };
    // A frame (6 bytes), the errors and whether it is the primary's.
    assert_eq!(missing.to_bytes(0).len(), 6 + 8 + 1);
    let object = InconsistentObj {
        errors: object_error::SIZE,
        object: FoundObject { name: "o".into(), snap: 4, ..FoundObject::default() },
        version: 9,
        shards: [(PgShard::whole(0), whole), (PgShard::whole(2), missing)].into(),
        union_errors: shard_error::MISSING,
    };
    let bytes = object.to_bytes(0);
    assert_eq!(InconsistentObj::from_bytes(&bytes), Ok(object));
    assert!((0..bytes.len()).all(|end| InconsistentObj::from_bytes(&bytes.slice(..end)).is_err()));
    let set = InconsistentSnapset { errors: snapset_error::EXTRA_CLONES, clones: vec![1, 2], missing: vec![3], ..Default::default() };
    assert_eq!(InconsistentSnapset::from_bytes(&set.to_bytes(0)), Ok(set));
    let page = ScrubLsResult { interval: 3, vals: vec![bytes] };
    assert_eq!(ScrubLsResult::from_bytes(&page.to_bytes(0)), Ok(page));
}
