//! An object's name in our store, however objects lie on members: objects have the shard of their collection. A group of copies has none.

use types::{CollId, GHObject, HObject, NO_SHARD};

/// An object's name in a collection.
#[inline]
pub fn name(coll: CollId, obj: HObject) -> GHObject {
    GHObject { shard: coll.pg().map_or(NO_SHARD, |pg| pg.shard), ..GHObject::plain(obj) }
}
/// Where a listing of a collection begins that is to have this object, with what is kept of former generations of it.
pub fn first_of(coll: CollId, obj: HObject) -> GHObject {
    GHObject { generation: 0, ..name(coll, obj) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{PgId, SpgId};

    #[test]
    fn a_name_has_the_shard_of_its_collection() {
        let (obj, pgid) = (HObject { oid: "a".into(), ..HObject::min() }, PgId::new(1, 3));
        assert_eq!(name(CollId::Pg(SpgId::whole(pgid)), obj.clone()), GHObject::plain(obj.clone()));
        let of_shard = CollId::Pg(SpgId { pgid, shard: 2 });
        assert_eq!(name(of_shard, obj.clone()).shard, 2);
        assert!(first_of(of_shard, obj.clone()) < name(of_shard, obj));
    }
}
