//! `rados df`: what each pool holds and did, and what the cluster has.

use super::objects::out;
use super::{Done, Failed, Options, failed, json_text};
use client::{Answer, ClientError, Cluster, Request};
use serde_json::json;

const HEADINGS: [&str; 14] = [
    "POOL_NAME",
    "USED",
    "OBJECTS",
    "CLONES",
    "COPIES",
    "MISSING_ON_PRIMARY",
    "UNFOUND",
    "DEGRADED",
    "RD_OPS",
    "RD",
    "WR_OPS",
    "WR",
    "USED COMPR",
    "UNDER COMPR",
];

/// Bytes as people read them: three digits, powers of 1024.
fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (0..UNITS.len() - 1).find(|i| bytes >> (10 * i) < 1024).unwrap_or(UNITS.len() - 1);
    let scaled = bytes as f64 / (1u64 << (10 * unit)) as f64;
    match (unit, scaled) {
        (0, _) => format!("{bytes} B"),
        (_, s) if bytes.is_multiple_of(1 << (10 * unit)) => format!("{s:.0} {}", UNITS[unit]),
        (_, s) if s >= 100.0 => format!("{s:.0} {}", UNITS[unit]),
        (_, s) if s >= 10.0 => format!("{s:.0} {}", UNITS[unit]),
        (_, s) => format!("{s:.1} {}", UNITS[unit]),
    }
}

/// Columns as wide as their widest cell; the first to the left, the others to the right.
fn table(rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..HEADINGS.len()).map(|i| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(i, (cell, width))| if i == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") });
        text += &(cells.collect::<Vec<_>>().join("  ") + "\n");
    }
    text
}

pub async fn run(cluster: &Cluster, o: &Options) -> Done {
    let map = cluster.map();
    let names: Vec<String> = match &o.pool {
        Some(name) => {
            map.pool_by_name(name).ok_or_else(|| failed(format_args!("opening pool {name}"), &ClientError::NoPool(name.clone())))?;
            vec![name.clone()]
        }
        None => map.pools.keys().filter_map(|id| map.pool_name(*id)).map(String::from).collect(),
    };
    let pools = cluster.ask(Request::PoolStats(names)).await.map_err(|e| failed("fetching pool stats", &e))?;
    let Answer::PoolStats { reply, .. } = pools else { return Err(Failed("error fetching pool stats".into())) };
    let total = cluster.ask(Request::Statfs { data_pool: None }).await.map_err(|e| failed("getting total cluster usage", &e))?;
    let Answer::Statfs { reply: total, .. } = total else { return Err(Failed("error getting total cluster usage".into())) };
    let mut rows = vec![HEADINGS.map(String::from).to_vec()];
    let mut members = Vec::new();
    let stats: std::collections::BTreeMap<_, _> = reply.stats.into_iter().collect();
    for (name, stat) in &stats {
        let (s, fs) = (&stat.stats.sum, &stat.store_stats);
        let copies = map.pool_by_name(name).and_then(|id| map.pool(id)).map_or(1, |p| i64::from(p.size.max(1)));
        // What the stores allocated, where they count by pool; with keys and values.
        let (data, omap) =
            if reply.per_pool { (fs.allocated, fs.omap_allocated) } else { (s.num_bytes * copies, s.num_omap_bytes * copies) };
        let used = (data.max(0) + omap.max(0)) as u64;
        let kib = |n: i64| n.max(0) as u64 * 1024;
        let counts = [
            s.num_objects,
            s.num_object_clones,
            s.num_object_copies,
            s.num_objects_missing_on_primary,
            s.num_objects_unfound,
            s.num_objects_degraded,
        ];
        let mut row = vec![name.clone(), bytes_text(used)];
        row.extend(counts.iter().map(i64::to_string));
        row.extend([s.num_rd.to_string(), bytes_text(kib(s.num_rd_kb)), s.num_wr.to_string(), bytes_text(kib(s.num_wr_kb))]);
        let (compressed, original) = (fs.data_compressed_allocated.max(0) as u64, fs.data_compressed_original.max(0) as u64);
        row.extend([bytes_text(compressed), bytes_text(original)]);
        rows.push(row);
        members.push(json!({
            "name": name, "id": map.pool_by_name(name), "size_bytes": used, "size_kb": used.div_ceil(1024), "num_objects": counts[0],
            "num_object_clones": counts[1], "num_object_copies": counts[2], "num_objects_missing_on_primary": counts[3],
            "num_objects_unfound": counts[4], "num_objects_degraded": counts[5], "read_ops": s.num_rd, "read_bytes": kib(s.num_rd_kb),
            "write_ops": s.num_wr, "write_bytes": kib(s.num_wr_kb), "compress_bytes_used": compressed, "compress_under_bytes": original,
        }));
    }
    if let Some(format) = o.json() {
        let all = json!({"pools": members, "total_objects": total.objects, "total_used": total.used_kib, "total_avail": total.avail_kib,
            "total_space": total.total_kib});
        return out(json_text(&all, format).as_bytes());
    }
    let bytes = |kib: u64| bytes_text(kib << 10);
    out(format!(
        "{}\ntotal_objects    {}\ntotal_used       {}\ntotal_avail      {}\ntotal_space      {}\n",
        table(&rows),
        total.objects,
        bytes(total.used_kib),
        bytes(total.avail_kib),
        bytes(total.total_kib)
    )
    .as_bytes())
}

#[cfg(test)]
mod tests {
    use super::bytes_text;

    #[test]
    fn bytes_have_as_many_digits_as_stock_prints() {
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (12_900, "13 KiB"), (16 << 30, "16 GiB")] {
            assert_eq!(bytes_text(bytes), text);
        }
    }
}
