//! A map converted: classes renamed, buckets of the older algorithm made straw2, the contents of two buckets exchanged.

use crate::bucket::Weights;
use crate::edit::CrushError;
use crate::map::CrushMap;

impl CrushMap {
    /// `osd crush class rename`: rules and devices keep the class.
    pub fn rename_class(&mut self, from: &str, to: &str) -> Result<(), CrushError> {
        let id = self.class_id(from).ok_or_else(|| CrushError::NoClass(from.into()))?;
        self.class_names.insert(id, to.into());
        self.rebuild_shadows();
        Ok(())
    }

    /// `osd crush set-all-straw-buckets-to-straw2`. False if there are none.
    pub fn straw_to_straw2(&mut self) -> bool {
        let ids: Vec<i32> = self.iter_buckets().filter(|b| matches!(b.weights, Weights::Straw { .. })).map(|b| b.id).collect();
        for id in &ids {
            let bucket = self.bucket_mut(*id).expect("we listed it");
            let content: Vec<(i32, u32)> = bucket.weighted().collect();
            bucket.weights = Weights::Straw2 { item_weights: Vec::new() };
            bucket.set_content(&content);
        }
        !ids.is_empty()
    }

    /// True if `below` is in the tree of `above`, or is it.
    fn is_within(&self, below: i32, above: i32) -> bool {
        below == above || self.parents(below).into_iter().any(|parent| self.is_within(parent, above))
    }

    /// `osd crush swap-bucket`: two buckets exchange items and names, and stay where they are. Neither may be in the other.
    pub fn swap_buckets(&mut self, one: i32, other: i32) -> Result<(), CrushError> {
        let content = |id: i32| self.bucket(id).map(|b| b.weighted().collect::<Vec<_>>()).ok_or(CrushError::NoId(id));
        let contents = (content(one)?, content(other)?);
        if self.is_within(one, other) || self.is_within(other, one) {
            return Err(CrushError::Loop);
        }
        for (id, items, gone) in [(one, &contents.1, &contents.0), (other, &contents.0, &contents.1)] {
            for (item, _) in gone {
                self.remove_from(id, *item);
            }
            for (item, weight) in items {
                self.add_to(id, *item, *weight);
            }
            self.carry_up(id);
        }
        let names = (self.names.remove(&one), self.names.remove(&other));
        self.names.extend(names.1.map(|name| (one, name)));
        self.names.extend(names.0.map(|name| (other, name)));
        self.rebuild_shadows();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::Location;

    fn at(host: &str) -> Location {
        [("root", "default"), ("host", host)].map(|(kind, name)| (kind.to_string(), name.to_string())).into()
    }

    #[test]
    fn buckets_exchange_what_they_hold() {
        let mut map = CrushMap::new_cluster("host");
        for (osd, host) in [(0, "a"), (1, "a"), (2, "b")] {
            map.insert_item(osd, 0x1_0000, &format!("osd.{osd}"), &at(host)).unwrap();
        }
        let (a, b, root) = (map.item_id("a").unwrap(), map.item_id("b").unwrap(), map.item_id("default").unwrap());
        map.swap_buckets(a, b).unwrap();
        assert_eq!((map.item_id("a"), map.item_id("b")), (Some(b), Some(a)));
        assert_eq!((&map.bucket(a).unwrap().items[..], &map.bucket(b).unwrap().items[..]), (&[2][..], &[0, 1][..]));
        // What is above them goes by the new weights.
        let weight = |id: i32| map.bucket(root).unwrap().weighted().find(|(item, _)| *item == id).unwrap().1;
        assert_eq!((weight(a), weight(b), map.bucket(root).unwrap().weight), (0x1_0000, 0x2_0000, 0x3_0000));
        assert!(map.swap_buckets(a, root).is_err() && map.swap_buckets(a, -99).is_err());
        map.check().unwrap();
    }

    #[test]
    fn a_class_keeps_its_trees_under_its_new_name() {
        let mut map = CrushMap::new_cluster("host");
        map.insert_item(0, 0x1_0000, "osd.0", &at("a")).unwrap();
        map.set_device_class(0, "ssd").unwrap();
        let shadow = map.item_id("default~ssd").unwrap();
        map.rename_class("ssd", "fast").unwrap();
        assert_eq!((map.item_id("default~fast"), map.item_id("default~ssd"), map.item_class(0)), (Some(shadow), None, Some("fast")));
        assert!(map.rename_class("ssd", "slow").is_err());
    }
}
