//! Pools, looked at: `osd pool ls|get|get-quota|stats`, `osd lspools`.

use super::{CmdError, table::bytes_text, table::count_text};
use super::{CmdResult, Command, Ctx, Reply, cmd, cmd_flags, flag, mgr_cmd, pool_json};
use crate::mgr::pgmap::Rates;
use maps::pool::HitSetParams;
use maps::{OptKey, PgPool, pool_flags};
use serde_json::{Map, Value, json};
use types::{PoolId, errno};

pub const COMMANDS: &[Command] = &[
    cmd("osd pool ls name=detail,type=CephChoices,strings=detail,req=false", "names of pools", "osd", "r", ls),
    cmd_flags("osd lspools", "numbers and names of pools", "osd", "r", flag::DEPRECATED, lspools),
    cmd(
        "osd pool get name=pool,type=CephPoolname name=var,type=CephChoices,strings=size|min_size|pg_num|pgp_num|crush_rule|hashpspool|\
         nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|hit_set_type|hit_set_period|hit_set_count|\
         hit_set_fpp|use_gmt_hitset|target_max_objects|target_max_bytes|cache_target_dirty_ratio|cache_target_dirty_high_ratio|\
         cache_target_full_ratio|cache_min_flush_age|cache_min_evict_age|erasure_code_profile|min_read_recency_for_promote|all|\
         min_write_recency_for_promote|fast_read|hit_set_grade_decay_rate|hit_set_search_last_n|scrub_min_interval|scrub_max_interval|\
         deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|\
         compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|\
         allow_ec_overwrites|fingerprint_algorithm|pg_autoscale_mode|pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|\
         target_size_ratio|dedup_tier|dedup_chunk_algorithm|dedup_cdc_chunk_size|eio|bulk",
        "a property of a pool",
        "osd",
        "r",
        get,
    ),
    cmd("osd pool get-quota name=pool,type=CephPoolname", "what a pool may hold at most", "osd", "r", get_quota),
    mgr_cmd("osd pool stats name=pool_name,type=CephPoolname,req=false", "what happens in pools just now", "osd", "r", stats),
];

fn ls(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.osd.map;
    if !ctx.args.has("detail") {
        let names: Vec<&str> = map.pools.keys().filter_map(|id| map.pool_name(*id)).collect();
        return ctx.answer(json!(names), || names.iter().map(|n| format!("{n}\n")).collect());
    }
    if ctx.args.asks_for_fields() {
        let rows: Vec<Value> = map.pools.iter().map(|(id, p)| pool_json::pool(map, *id, p, "pool_id")).collect();
        return ctx.answer_json(json!(rows));
    }
    let lines: String = map.pools.iter().map(|(id, p)| pool_json::line(map, *id, p) + "\n" + &pool_json::snap_lines(p)).collect();
    Ok(Reply::data(lines + "\n"))
}

fn lspools(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.osd.map;
    let rows: Vec<(PoolId, &str)> = map.pools.keys().map(|id| (*id, map.pool_name(*id).unwrap_or_default())).collect();
    let json = rows.iter().map(|(id, name)| json!({"poolnum": id, "poolname": name})).collect();
    ctx.answer(json, || rows.iter().map(|(id, name)| format!("{id} {name}\n")).collect())
}

/// Properties that only pools of another kind have.
enum Kind {
    Tier,
    Erasure,
}
fn only_of(var: &str) -> Option<Kind> {
    Some(match var {
        "hit_set_type"
        | "hit_set_period"
        | "hit_set_count"
        | "hit_set_fpp"
        | "target_max_objects"
        | "target_max_bytes"
        | "cache_target_dirty_ratio"
        | "cache_target_dirty_high_ratio"
        | "cache_target_full_ratio"
        | "cache_min_flush_age"
        | "cache_min_evict_age"
        | "min_read_recency_for_promote"
        | "min_write_recency_for_promote"
        | "hit_set_grade_decay_rate"
        | "hit_set_search_last_n" => Kind::Tier,
        "erasure_code_profile" | "allow_ec_overwrites" => Kind::Erasure,
        _ => return None,
    })
}

/// Flags that are properties of the same name.
const FLAGS: &[&str] =
    &["hashpspool", "nodelete", "nopgchange", "nosizechange", "write_fadvise_dontneed", "noscrub", "nodeep-scrub", "eio", "bulk"];

/// What `get POOL all` shows, in this order; options follow as far as they are set.
const ALL: &[&str] = &[
    "size",
    "min_size",
    "pg_num",
    "pgp_num",
    "crush_rule",
    "hashpspool",
    "nodelete",
    "nopgchange",
    "nosizechange",
    "write_fadvise_dontneed",
    "noscrub",
    "nodeep-scrub",
    "hit_set_type",
    "hit_set_period",
    "hit_set_count",
    "hit_set_fpp",
    "use_gmt_hitset",
    "target_max_objects",
    "target_max_bytes",
    "cache_target_dirty_ratio",
    "cache_target_dirty_high_ratio",
    "cache_target_full_ratio",
    "cache_min_flush_age",
    "cache_min_evict_age",
    "erasure_code_profile",
    "allow_ec_overwrites",
    "min_read_recency_for_promote",
    "min_write_recency_for_promote",
    "fast_read",
    "hit_set_grade_decay_rate",
    "hit_set_search_last_n",
    "pg_autoscale_mode",
    "eio",
    "bulk",
];

/// A property's value; none for an option that isn't set.
fn value(map: &maps::OsdMap, p: &PgPool, var: &str) -> Option<Value> {
    let micro = |n: u32| json!(f64::from(n) / 1e6);
    Some(match var {
        "size" => json!(p.size),
        "min_size" => json!(p.min_size),
        "pg_num" => json!(p.pg_num),
        "pgp_num" => json!(p.pgp_num),
        "crush_rule" => match map.crush.rule_names.get(&i32::from(p.crush_rule)) {
            Some(name) => json!(name),
            None => json!(p.crush_rule.to_string()),
        },
        "hit_set_type" => json!(match p.hit_set_params {
            HitSetParams::None => "none",
            HitSetParams::ExplicitHash => "explicit_hash",
            HitSetParams::ExplicitObject => "explicit_object",
            HitSetParams::Bloom { .. } => "bloom",
        }),
        "hit_set_period" => json!(p.hit_set_period),
        "hit_set_count" => json!(p.hit_set_count),
        "hit_set_fpp" => match p.hit_set_params {
            HitSetParams::Bloom { fpp_micro, .. } => micro(fpp_micro),
            _ => return None,
        },
        "use_gmt_hitset" => json!(p.use_gmt_hitset),
        "target_max_objects" => json!(p.target_max_objects),
        "target_max_bytes" => json!(p.target_max_bytes),
        "cache_target_dirty_ratio" => micro(p.cache_target_dirty_ratio_micro),
        "cache_target_dirty_high_ratio" => micro(p.cache_target_dirty_high_ratio_micro),
        "cache_target_full_ratio" => micro(p.cache_target_full_ratio_micro),
        "cache_min_flush_age" => json!(p.cache_min_flush_age),
        "cache_min_evict_age" => json!(p.cache_min_evict_age),
        "erasure_code_profile" => json!(p.erasure_code_profile),
        "allow_ec_overwrites" => json!(p.has(pool_flags::EC_OVERWRITES)),
        "min_read_recency_for_promote" => json!(p.min_read_recency_for_promote),
        "min_write_recency_for_promote" => json!(p.min_write_recency_for_promote),
        "fast_read" => json!(u8::from(p.fast_read)),
        "hit_set_grade_decay_rate" => json!(p.hit_set_grade_decay_rate),
        "hit_set_search_last_n" => json!(p.hit_set_search_last_n),
        "pg_autoscale_mode" => json!(pool_json::autoscale_name(p.pg_autoscale_mode)),
        flag if FLAGS.contains(&flag) => json!(p.has(pool_flags::parse(flag)?)),
        option => pool_json::opt_json(p.opts.get(OptKey::by_name(option)?.0)?),
    })
}
fn value_text(var: &str, v: &Value) -> String {
    match v {
        Value::String(s) => s.clone(),
        // Alone among truths, this one is a number in plain text.
        Value::Bool(b) if var == "use_gmt_hitset" => u8::from(*b).to_string(),
        other => other.to_string(),
    }
}

fn get(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, var) = (ctx.args.need("pool")?, ctx.args.need("var")?);
    let id = ctx.mon.osd.need_pool(&name)?;
    let map = &ctx.mon.osd.map;
    let p = &map.pools[&id];
    let applies = |var: &str| match only_of(var) {
        Some(Kind::Tier) => p.is_tier(),
        Some(Kind::Erasure) => p.is_erasure(),
        None => true,
    };
    if !applies(&var) {
        let kind = if matches!(only_of(&var), Some(Kind::Tier)) { "tier" } else { "erasure" };
        return Err(CmdError::new(errno::EACCES, format!("pool '{name}' is not a {kind} pool: variable not applicable")));
    }
    let vars: Vec<String> = if var == "all" {
        let set = p.opts.0.keys().filter_map(|k| k.name()).map(str::to_string);
        ALL.iter().map(ToString::to_string).filter(|v| applies(v)).chain(set).collect()
    } else {
        vec![var.clone()]
    };
    let values: Vec<(String, Value)> = vars.into_iter().filter_map(|v| Some((v.clone(), value(map, p, &v)?))).collect();
    if values.is_empty() {
        return Err(CmdError::new(errno::ENOENT, format!("option '{var}' is not set on pool '{name}'")));
    }
    let mut json = Map::new();
    json.insert("pool".into(), json!(name));
    json.insert("pool_id".into(), json!(id));
    json.extend(values.iter().cloned());
    ctx.answer(Value::Object(json), || values.iter().map(|(var, v)| format!("{var}: {}\n", value_text(var, v))).collect())
}

fn get_quota(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("pool")?;
    let id = ctx.mon.osd.need_pool(&name)?;
    let p = &ctx.mon.osd.map.pools[&id];
    let sums = ctx.mon.manager.pgs.pool_sum(id);
    let json = json!({
        "pool_name": name,
        "pool_id": id,
        "quota_max_objects": p.quota_max_objects,
        "current_num_objects": sums.num_objects,
        "quota_max_bytes": p.quota_max_bytes,
        "current_num_bytes": sums.num_bytes,
    });
    ctx.answer(json, || {
        let limit = |max: u64, shown: String, unit: &str, now: i64| match max {
            0 => "N/A".to_string(),
            _ => format!("{shown}  (current num {unit}: {now} {unit})"),
        };
        let objects = limit(p.quota_max_objects, count_text(p.quota_max_objects) + " objects", "objects", sums.num_objects);
        let bytes = limit(p.quota_max_bytes, bytes_text(p.quota_max_bytes), "bytes", sums.num_bytes);
        format!("quotas for pool '{name}':\n  max objects: {objects}\n  max bytes  : {bytes}\n")
    })
}

/// What clients do, as members and as a line.
fn client_io(r: &Rates) -> (Map<String, Value>, String) {
    let (mut v, mut parts) = (Map::new(), Vec::new());
    if r.read_ops > 0 || r.write_ops > 0 {
        if r.read_ops > 0 {
            v.insert("read_bytes_sec".into(), json!(r.read_bytes));
            parts.push(format!("{}/s rd", bytes_text(r.read_bytes)));
        }
        if r.write_ops > 0 {
            v.insert("write_bytes_sec".into(), json!(r.write_bytes));
            parts.push(format!("{}/s wr", bytes_text(r.write_bytes)));
        }
        v.insert("read_op_per_sec".into(), json!(r.read_ops));
        v.insert("write_op_per_sec".into(), json!(r.write_ops));
        parts.push(format!("{} op/s rd", count_text(r.read_ops)));
        parts.push(format!("{} op/s wr", count_text(r.write_ops)));
    }
    (v, parts.join(", "))
}

fn stats(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.osd.map;
    let pools: Vec<PoolId> = match ctx.args.text("pool_name") {
        Some(name) => vec![ctx.mon.osd.need_pool(&name)?],
        None => map.pools.keys().copied().collect(),
    };
    if pools.is_empty() {
        return ctx.answer(json!([]), || "there are no pools!\n".into());
    }
    let pgs = &ctx.mon.manager.pgs;
    let (mut rows, mut text) = (Vec::new(), String::new());
    for id in pools {
        let name = map.pool_name(id).unwrap_or_default();
        let (rates, sums) = (pgs.rates(Some(id)), pgs.pool_sum(id));
        let (mut recovery, mut lines) = (Map::new(), String::new());
        let all = sums.num_object_copies.max(1) as f64;
        for (what, total, n) in
            [("degraded", "degraded_total", sums.num_objects_degraded), ("misplaced", "misplaced_total", sums.num_objects_misplaced)]
        {
            if n > 0 {
                recovery.insert(format!("{what}_objects"), json!(n));
                recovery.insert(total.into(), json!(sums.num_object_copies));
                recovery.insert(format!("{what}_ratio"), json!(n as f64 / all));
                lines += &format!("  {n}/{} objects {what} ({:.3}%)\n", sums.num_object_copies, n as f64 * 100.0 / all);
            }
        }
        let mut recovery_rate = Map::new();
        if rates.recovering_objects > 0 || rates.recovering_bytes > 0 || rates.recovering_keys > 0 {
            recovery_rate.insert("recovering_objects_per_sec".into(), json!(rates.recovering_objects));
            recovery_rate.insert("recovering_bytes_per_sec".into(), json!(rates.recovering_bytes));
            recovery_rate.insert("recovering_keys_per_sec".into(), json!(rates.recovering_keys));
            lines += &format!("  recovery io {}/s, {} objects/s\n", bytes_text(rates.recovering_bytes), rates.recovering_objects);
        }
        let (io, line) = client_io(&rates);
        if !line.is_empty() {
            lines += &format!("  client io {line}\n");
        }
        rows.push(json!({"pool_name": name, "pool_id": id, "recovery": recovery, "recovery_rate": recovery_rate, "client_io_rate": io}));
        text += &format!("pool {name} id {id}\n{}\n", if lines.is_empty() { "  nothing is going on\n".into() } else { lines });
    }
    ctx.answer(json!(rows), || text)
}
