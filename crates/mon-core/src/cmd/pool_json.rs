//! A pool as `osd dump` and `osd pool ls detail` show it: as JSON and as a line.

use maps::{OptKey, OptValue, OsdMap, PgPool, pool_flags};
use serde_json::{Map, Value, json};
use types::PoolId;

const CACHE_MODES: [&str; 7] = ["none", "writeback", "forward", "readonly", "readforward", "readproxy", "proxy"];

pub fn autoscale_name(mode: u8) -> &'static str {
    match mode {
        PgPool::AUTOSCALE_OFF => "off",
        PgPool::AUTOSCALE_WARN => "warn",
        PgPool::AUTOSCALE_ON => "on",
        _ => "???",
    }
}
pub fn cache_mode_name(mode: u8) -> &'static str {
    CACHE_MODES.get(usize::from(mode)).copied().unwrap_or("unknown")
}

/// An option's value.
pub fn opt_json(value: &OptValue) -> Value {
    match value {
        OptValue::Str(s) => json!(s),
        OptValue::Int(n) => json!(n),
        OptValue::Double(d) => json!(d),
    }
}
pub fn opt_text(value: &OptValue) -> String {
    match value {
        OptValue::Str(s) => s.clone(),
        OptValue::Int(n) => n.to_string(),
        OptValue::Double(d) => d.to_string(),
    }
}
fn opt_name(key: OptKey) -> String {
    key.name().map_or_else(|| format!("option_{}", key.0), str::to_string)
}

/// How evenly the primaries of a pool's groups are spread: 1 is as even as can be.
#[derive(Debug, Clone, Copy)]
pub struct ReadBalance {
    pub acting: f64,
    pub stable: f64,
    pub optimal: f64,
    pub raw_acting: f64,
    pub raw_stable: f64,
    pub affinity_weighted: f64,
    pub average_affinity: f64,
    pub average_affinity_weighted: f64,
}

/// The spread of a replicated pool's primaries; none if no OSD can be one.
pub fn read_balance(map: &OsdMap, id: PoolId, pool: &PgPool) -> Option<ReadBalance> {
    if !pool.is_replicated() {
        return None;
    }
    let mut work = maps::Placement::default();
    let mut groups: std::collections::BTreeMap<i32, (u32, u32, u32)> = std::collections::BTreeMap::new();
    for seed in 0..pool.pg_num {
        let on = map.pg_to_up_acting(types::PgId::new(id, seed), &mut work);
        for osd in on.acting.iter().filter(|o| **o != crush::ITEM_NONE) {
            groups.entry(*osd).or_default().0 += 1;
        }
        if on.acting_primary >= 0 {
            groups.entry(on.acting_primary).or_default().1 += 1;
        }
        if on.up_primary >= 0 {
            groups.entry(on.up_primary).or_default().2 += 1;
        }
    }
    let affinity = |o: &i32| f64::from(map.primary_affinity(*o)) / 65536.0;
    let n = groups.len() as f64;
    let sum: f64 = groups.keys().map(affinity).sum();
    if n == 0.0 || sum == 0.0 {
        return None;
    }
    let mean = f64::from(pool.pg_num) / n;
    let most = |f: fn(&(u32, u32, u32)) -> u32| f64::from(groups.values().map(f).max().unwrap_or(0));
    let (raw_acting, raw_stable) = (most(|g| g.1) / mean, most(|g| g.2) / mean);
    let average = sum / n;
    let members: u32 = groups.values().map(|g| g.0).sum();
    let weighted: f64 = groups.iter().map(|(o, g)| affinity(o) * f64::from(g.0)).sum();
    let share = weighted / f64::from(members.max(1));
    let optimal =
        groups.iter().filter(|(o, _)| affinity(o) > 0.0).map(|(o, _)| 1.0f64.max(average / affinity(o) * affinity(o))).fold(1.0, f64::max);
    Some(ReadBalance {
        acting: raw_acting / optimal,
        stable: raw_stable / optimal,
        optimal,
        raw_acting,
        raw_stable,
        affinity_weighted: share,
        average_affinity: average,
        average_affinity_weighted: share,
    })
}

/// The members of a pool; its number goes under `id_key`, which differs between commands.
pub fn pool(map: &OsdMap, id: PoolId, p: &PgPool, id_key: &str) -> Value {
    let mut v = Map::new();
    v.insert(id_key.into(), json!(id));
    v.insert("pool_name".into(), json!(map.pool_name(id).unwrap_or_default()));
    let merge = &p.last_pg_merge_meta;
    let snaps: Vec<Value> = p.snaps.values().map(|s| json!({"snapid": s.snapid, "stamp": s.stamp.to_string(), "name": s.name})).collect();
    let options: Map<String, Value> = p.opts.0.iter().map(|(key, value)| (opt_name(*key), opt_json(value))).collect();
    let mut extend = |more: Value| v.extend(more.as_object().expect("an object was made").clone());
    extend(json!({
        "create_time": p.create_time.to_string(),
        "flags": p.flags,
        "flags_names": pool_flags::text(p.flags),
        "type": p.kind,
        "size": p.size,
        "min_size": p.min_size,
        "crush_rule": p.crush_rule,
        "peering_crush_bucket_count": p.stretch.bucket_count,
        "peering_crush_bucket_target": p.stretch.bucket_target,
        "peering_crush_bucket_barrier": p.stretch.bucket_barrier,
        "peering_crush_bucket_mandatory_member": p.stretch.mandatory_member,
        "object_hash": p.object_hash,
        "pg_autoscale_mode": autoscale_name(p.pg_autoscale_mode),
        "pg_num": p.pg_num,
        "pg_placement_num": p.pgp_num,
        "pg_placement_num_target": p.pgp_num_target,
        "pg_num_target": p.pg_num_target,
        "pg_num_pending": p.pg_num_pending,
        "last_pg_merge_meta": {
            "source_pgid": merge.source_pgid.to_string(),
            "ready_epoch": merge.ready_epoch,
            "last_epoch_started": merge.last_epoch_started,
            "last_epoch_clean": merge.last_epoch_clean,
            "source_version": merge.source_version.to_string(),
            "target_version": merge.target_version.to_string(),
        },
        "last_change": p.last_change.to_string(),
        "last_force_op_resend": p.last_force_op_resend.to_string(),
        "last_force_op_resend_prenautilus": p.last_force_op_resend_prenautilus.to_string(),
        "last_force_op_resend_preluminous": p.last_force_op_resend_preluminous.to_string(),
        "auid": p.auid,
        "snap_mode": if p.is_pool_snaps_mode() { "pool" } else { "selfmanaged" },
        "snap_seq": p.snap_seq,
        "snap_epoch": p.snap_epoch,
        "pool_snaps": snaps,
        "removed_snaps": p.removed_snaps.to_string(),
    }));
    extend(json!({
        "quota_max_bytes": p.quota_max_bytes,
        "quota_max_objects": p.quota_max_objects,
        "tiers": p.tiers,
        "tier_of": p.tier_of,
        "read_tier": p.read_tier,
        "write_tier": p.write_tier,
        "cache_mode": cache_mode_name(p.cache_mode),
        "target_max_bytes": p.target_max_bytes,
        "target_max_objects": p.target_max_objects,
        "cache_target_dirty_ratio_micro": p.cache_target_dirty_ratio_micro,
        "cache_target_dirty_high_ratio_micro": p.cache_target_dirty_high_ratio_micro,
        "cache_target_full_ratio_micro": p.cache_target_full_ratio_micro,
        "cache_min_flush_age": p.cache_min_flush_age,
        "cache_min_evict_age": p.cache_min_evict_age,
        "erasure_code_profile": p.erasure_code_profile,
        "hit_set_params": {"type": hit_set_name(p)},
        "hit_set_period": p.hit_set_period,
        "hit_set_count": p.hit_set_count,
        "use_gmt_hitset": p.use_gmt_hitset,
        "min_read_recency_for_promote": p.min_read_recency_for_promote,
        "min_write_recency_for_promote": p.min_write_recency_for_promote,
        "hit_set_grade_decay_rate": p.hit_set_grade_decay_rate,
        "hit_set_search_last_n": p.hit_set_search_last_n,
        "grade_table": [],
        "stripe_width": p.stripe_width,
        "expected_num_objects": p.expected_num_objects,
        "fast_read": p.fast_read,
        "options": options,
        "application_metadata": p.application_metadata,
    }));
    if let Some(r) = read_balance(map, id, p) {
        extend(json!({"read_balance": {
            "score_acting": r.acting,
            "score_stable": r.stable,
            "optimal_score": r.optimal,
            "raw_score_acting": r.raw_acting,
            "raw_score_stable": r.raw_stable,
            "primary_affinity_weighted": r.affinity_weighted,
            "average_primary_affinity": r.average_affinity,
            "average_primary_affinity_weighted": r.average_affinity_weighted,
        }}));
    }
    Value::Object(v)
}

fn hit_set_name(p: &PgPool) -> &'static str {
    use maps::pool::HitSetParams as P;
    match p.hit_set_params {
        P::None => "none",
        P::ExplicitHash => "explicit_hash",
        P::ExplicitObject => "explicit_object",
        P::Bloom { .. } => "bloom",
    }
}

/// `pool 1 'rbd' replicated size 1 ...`, without a line break.
pub fn line(map: &OsdMap, id: PoolId, p: &PgPool) -> String {
    let name = map.pool_name(id).unwrap_or_default();
    let kind = if p.is_erasure() { format!("erasure profile {}", p.erasure_code_profile) } else { "replicated".into() };
    let hash = if p.object_hash == PgPool::HASH_RJENKINS { "rjenkins" } else { "linux" };
    let mut out = format!(
        "pool {id} '{name}' {kind} size {} min_size {} crush_rule {} object_hash {hash} pg_num {} pgp_num {}",
        p.size, p.min_size, p.crush_rule, p.pg_num, p.pgp_num
    );
    if p.pg_num_target != p.pg_num {
        out += &format!(" pg_num_target {}", p.pg_num_target);
    }
    if p.pgp_num_target != p.pgp_num {
        out += &format!(" pgp_num_target {}", p.pgp_num_target);
    }
    if p.pg_num_pending != p.pg_num {
        out += &format!(" pg_num_pending {}", p.pg_num_pending);
    }
    out += &format!(" autoscale_mode {} last_change {}", autoscale_name(p.pg_autoscale_mode), p.last_change);
    if p.last_force_op_resend != 0 || p.last_force_op_resend_prenautilus != 0 || p.last_force_op_resend_preluminous != 0 {
        out += &format!(" lfor {}/{}/{}", p.last_force_op_resend_preluminous, p.last_force_op_resend_prenautilus, p.last_force_op_resend);
    }
    if p.flags != 0 {
        out += &format!(" flags {}", pool_flags::text(p.flags));
    }
    if p.quota_max_bytes != 0 {
        out += &format!(" max_bytes {}", p.quota_max_bytes);
    }
    if p.quota_max_objects != 0 {
        out += &format!(" max_objects {}", p.quota_max_objects);
    }
    if p.is_tier() {
        out += &format!(" tier_of {}", p.tier_of);
    }
    out += &format!(" stripe_width {}", p.stripe_width);
    if p.expected_num_objects != 0 {
        out += &format!(" expected_num_objects {}", p.expected_num_objects);
    }
    for (key, value) in &p.opts.0 {
        out += &format!(" {} {}", opt_name(*key), opt_text(value));
    }
    if !p.application_metadata.is_empty() {
        let apps: Vec<&str> = p.application_metadata.keys().map(String::as_str).collect();
        out += &format!(" application {}", apps.join(","));
    }
    if let Some(r) = read_balance(map, id, p) {
        out += &format!(" read_balance_score {:.2}", r.acting);
    }
    out
}
/// The lines of a pool's own snapshots.
pub fn snap_lines(p: &PgPool) -> String {
    p.snaps.values().map(|s| format!("\tsnap {} '{}' {}\n", s.snapid, s.name, s.stamp)).collect()
}
