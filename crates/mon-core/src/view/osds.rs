//! OSDs as people look for them: by host, with their class, how full they are and what they do.

use super::short;
use crate::view::View;
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl View<'_> {
    pub(super) fn osds_view(&self) -> Value {
        let (map, pgs) = (&self.osd.map, &self.manager.pgs);
        let mut groups: BTreeMap<i32, u32> = BTreeMap::new();
        for osd in pgs.pgs.values().flat_map(|stat| &stat.acting) {
            *groups.entry(*osd).or_default() += 1;
        }
        let host_type = map.crush.type_id("host");
        let row = |osd: i32| {
            let host = host_type.and_then(|t| map.crush.ancestor_of_type(osd, t)).and_then(|id| map.crush.item_name(id));
            let host = host.or_else(|| self.osd.metadata.get(&osd)?.get("hostname").map(String::as_str)).unwrap_or("-");
            let fs = pgs.osds.get(&osd).map(|stat| stat.statfs).unwrap_or_default();
            let up = map.is_up(osd);
            let rates = self.manager.daemons.get(&format!("osd.{osd}")).filter(|_| up).map(|d| d.perf.rates).unwrap_or_default();
            json!({
                "id": osd, "host": host, "class": map.crush.item_class(osd).unwrap_or_default(), "up": up, "in": map.is_in(osd),
                "total": fs.total, "used": fs.used_raw(), "pgs": groups.get(&osd).copied().unwrap_or(0),
                "read_ops": short(rates.read_ops), "write_ops": short(rates.write_ops),
                "read_bytes": short(rates.read_bytes), "write_bytes": short(rates.write_bytes),
                "read_us": short(rates.read_us), "write_us": short(rates.write_us),
            })
        };
        map.osds().map(row).collect()
    }
}
