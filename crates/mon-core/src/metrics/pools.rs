//! Pools and the states of their placement groups.

use super::{Kind, Page};
use crate::cmd::pool_df;
use crate::view::View;
use std::collections::BTreeMap;
use types::PgId;
use types::pg_stat::pg_state;

/// Figures of a pool as `df detail` has them; those that only grow are counters.
const FIGURES: [(&str, Kind); 16] = [
    ("max_avail", Kind::Gauge),
    ("avail_raw", Kind::Gauge),
    ("stored", Kind::Gauge),
    ("stored_raw", Kind::Gauge),
    ("objects", Kind::Gauge),
    ("dirty", Kind::Gauge),
    ("quota_bytes", Kind::Gauge),
    ("quota_objects", Kind::Gauge),
    ("rd", Kind::Counter),
    ("rd_bytes", Kind::Counter),
    ("wr", Kind::Counter),
    ("wr_bytes", Kind::Counter),
    ("compress_bytes_used", Kind::Gauge),
    ("compress_under_bytes", Kind::Gauge),
    ("bytes_used", Kind::Gauge),
    ("percent_used", Kind::Gauge),
];

impl View<'_> {
    pub(super) fn pool_metrics(&self, page: &mut Page) {
        let (map, pgs) = (&self.osd.map, &self.manager.pgs);
        let per_pool = self.stores_count_by_pool();
        for (id, pool) in &map.pools {
            let number = id.to_string();
            let label = [("pool_id", number.as_str())];
            let df = pool_df(self, *id, per_pool, true);
            for (key, kind) in FIGURES {
                let value = df[key].as_f64().unwrap_or(0.0);
                page.put(&format!("ceph_pool_{key}"), kind, &format!("DF pool {key}"), &label, value);
            }
            let sum = pgs.pool_sum(*id);
            let rates = pgs.rates(Some(*id));
            let recovery = [
                ("recovering_objects_per_sec", rates.recovering_objects as f64),
                ("recovering_bytes_per_sec", rates.recovering_bytes as f64),
                ("recovering_keys_per_sec", rates.recovering_keys as f64),
                ("num_objects_recovered", sum.num_objects_recovered as f64),
                ("num_bytes_recovered", sum.num_bytes_recovered as f64),
            ];
            for (key, value) in recovery {
                page.put(&format!("ceph_pool_{key}"), Kind::Gauge, &format!("OSD pool stats: {key}"), &label, value);
            }
            page.put(
                "ceph_pool_objects_repaired",
                Kind::Counter,
                "Number of objects repaired in a pool",
                &label,
                f64::from(sum.num_objects_repaired as i32),
            );
            let kind = if pool.is_erasure() { "erasure" } else { "replicated" };
            let description =
                if pool.is_erasure() { format!("ec:{}", pool.erasure_code_profile) } else { format!("replica:{}", pool.size) };
            let labels = [
                ("pool_id", number.as_str()),
                ("name", map.pool_name(*id).unwrap_or_default()),
                ("type", kind),
                ("description", &description),
                ("compression_mode", "none"),
            ];
            page.put("ceph_pool_metadata", Kind::Untyped, "POOL Metadata", &labels, 1.0);
            self.group_metrics(page, *id, &number);
        }
    }

    /// How many groups of a pool have each state.
    fn group_metrics(&self, page: &mut Page, pool: i64, number: &str) {
        let mut counts: BTreeMap<&str, u32> = pg_state::TABLE.iter().map(|(name, _)| (*name, 0)).collect();
        counts.insert("unknown", 0);
        let mut total = 0;
        for (_, stat) in self.manager.pgs.pgs.range(PgId::new(pool, 0)..=PgId::new(pool, u32::MAX)) {
            total += 1;
            if stat.state == 0 {
                *counts.entry("unknown").or_default() += 1;
            }
            for (name, bit) in pg_state::TABLE {
                if stat.state & bit != 0 {
                    *counts.entry(*name).or_default() += 1;
                }
            }
        }
        let label = [("pool_id", number)];
        for (state, n) in counts {
            page.put(&format!("ceph_pg_{state}"), Kind::Gauge, &format!("PG {state} per pool"), &label, n.into());
        }
        page.put("ceph_pg_total", Kind::Gauge, "PG Total Count per Pool", &label, total.into());
    }
}
