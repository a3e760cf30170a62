//! Pools, changed: `osd pool set`, `osd pool set-quota`.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use maps::pool_opts::OptKind;
use maps::{OptKey, OptValue, PgPool, pool_flags};
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd(
        "osd pool set name=pool,type=CephPoolname name=var,type=CephChoices,strings=size|min_size|pg_num|pgp_num|pgp_num_actual|crush_rule|\
         hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|hit_set_type|hit_set_period|\
         hit_set_count|hit_set_fpp|use_gmt_hitset|target_max_bytes|target_max_objects|cache_target_dirty_ratio|\
         cache_target_dirty_high_ratio|cache_target_full_ratio|cache_min_flush_age|cache_min_evict_age|min_read_recency_for_promote|\
         min_write_recency_for_promote|fast_read|hit_set_grade_decay_rate|hit_set_search_last_n|scrub_min_interval|scrub_max_interval|\
         deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|\
         compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|\
         allow_ec_overwrites|fingerprint_algorithm|pg_autoscale_mode|pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|\
         target_size_ratio|dedup_tier|dedup_chunk_algorithm|dedup_cdc_chunk_size|eio|bulk \
         name=val,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "changes a property of a pool",
        "osd",
        "rw",
        set,
    ),
    cmd(
        "osd pool set-quota name=pool,type=CephPoolname name=field,type=CephChoices,strings=max_objects|max_bytes name=val,type=CephString",
        "limits what a pool may hold",
        "osd",
        "rw",
        set_quota,
    ),
];

fn invalid<T>(text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno::EINVAL, text))
}

/// A number with an optional unit: `10K` is 10 * `step`; `Ki` and `KiB` are binary always.
fn with_unit(text: &str, step: i64) -> Result<i64, CmdError> {
    let bad = || CmdError::new(errno::EINVAL, format!("error parsing value '{text}': not a number with a known unit"));
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let number: i64 = digits.trim().parse().map_err(|_| bad())?;
    let bare = unit.trim_end_matches('B');
    let (letter, step) = match bare.strip_suffix('i') {
        Some(letter) => (letter, 1024),
        None => (bare, step),
    };
    let power = match letter.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        "E" => 6,
        _ => return Err(bad()),
    };
    number.checked_mul(step.pow(power)).filter(|n| *n >= 0 || power == 0).ok_or_else(bad)
}

/// A pool's property as the request has it.
struct Wanted<'a> {
    var: &'a str,
    val: &'a str,
}
impl Wanted<'_> {
    fn int(&self) -> Result<i64, CmdError> {
        self.val.trim().parse().or_else(|_| {
            invalid(format!("error parsing integer value '{}': Expected option value to be integer, got '{}'", self.val, self.val))
        })
    }
    fn float(&self) -> Result<f64, CmdError> {
        match self.val.trim().parse::<f64>() {
            Ok(f) if f.is_finite() => Ok(f),
            _ => invalid(format!("error parsing float value '{}': not a number", self.val)),
        }
    }
    fn truth(&self) -> Result<bool, CmdError> {
        match self.val {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => invalid("expecting value 'true', 'false', '0', or '1'"),
        }
    }
    fn choice(&self, choices: &[&str]) -> Result<(), CmdError> {
        if choices.contains(&self.val) { Ok(()) } else { invalid(format!("unrecognized {} '{}'", self.var, self.val)) }
    }
}

/// The number of a pool's placement groups, and of places for them: the operator's wish (`pg_num`, `pgp_num`), which a manager fulfils step by step,
/// or such a step (`pg_num_actual`, `pgp_num_actual`). With one OSD nothing has to move, and the wish is fulfilled at once; splits always are.
fn set_pg_num(ctx: &Ctx<'_>, id: types::PoolId, p: &mut PgPool, w: &Wanted<'_>, name: &str) -> Result<(), CmdError> {
    let (n, alone) = (w.int()?, ctx.mon.osd.map.num_osds() <= 1);
    let present = match w.var {
        "pg_num" if alone && p.pg_num != p.pg_num_target => 0,
        "pg_num" => p.pg_num_target,
        "pg_num_actual" => p.pg_num,
        "pgp_num" if alone && p.pgp_num != p.pgp_num_target => 0,
        "pgp_num" => p.pgp_num_target,
        _ => p.pgp_num,
    };
    if n == i64::from(present) {
        return Ok(());
    }
    let most = ctx.mon.config.max_pool_pg_num();
    if !(1..=i64::from(most)).contains(&n) {
        return invalid(format!("specified {} {n} must be between 1 and {most}", w.var));
    }
    if p.has(pool_flags::CREATING) {
        return Err(CmdError::new(errno::EBUSY, format!("placement groups of pool {name} are being created")));
    }
    let n = n as u32;
    match w.var {
        "pg_num" => {
            let bound = |key| p.opts.int(key).filter(|bound| *bound > 0);
            if let Some(least) = bound(OptKey::PG_NUM_MIN).filter(|least| i64::from(n) < *least) {
                return invalid(format!("specified pg_num {n} < pg_num_min {least}"));
            }
            if let Some(most) = bound(OptKey::PG_NUM_MAX).filter(|most| i64::from(n) > *most) {
                return invalid(format!("specified pg_num {n} > pg_num_max {most}"));
            }
            if n > p.pg_num_target {
                ctx.mon.osd.check_pg_limit(Some(id), n, p.size, &ctx.mon.config)?;
            }
            wish_pg_num(p, n, alone);
        }
        "pg_num_actual" if n > p.pg_num => (p.pg_num, p.pg_num_pending) = (n, n),
        "pg_num_actual" if n < p.pgp_num => return invalid(format!("specified pg_num {n} < pgp_num {}", p.pgp_num)),
        "pg_num_actual" if n + 1 < p.pg_num => {
            return invalid(format!("specified pg_num {n} < pg_num ({}) - 1; only single pg decrease is currently supported", p.pg_num));
        }
        "pg_num_actual" => p.pg_num_pending = n,
        "pgp_num" if n > p.pg_num_target => return invalid(format!("specified pgp_num {n} > pg_num {}", p.pg_num_target)),
        "pgp_num" if alone => (p.pgp_num, p.pgp_num_target) = (n.min(p.pg_num), n),
        "pgp_num" => p.pgp_num_target = n,
        _ if n > p.pg_num => return invalid(format!("specified pgp_num {n} > pg_num {}", p.pg_num)),
        _ => p.pgp_num = n,
    }
    if w.var.starts_with("pg_num") {
        // Clients of before Nautilus don't know that a changed pg_num means to send again.
        p.last_force_op_resend_prenautilus = ctx.mon.osd.map.epoch + 1;
    }
    Ok(())
}

/// Where there are several OSDs, groups that come of a split stay with the one that they came from: places for them are another wish.
fn wish_pg_num(p: &mut PgPool, n: u32, alone: bool) {
    p.pg_num_target = n;
    p.pgp_num_target = if alone { n } else { p.pgp_num_target.min(n) };
    if alone {
        (p.pg_num, p.pg_num_pending, p.pgp_num) = (n, n, n);
        // Nothing says how far the groups were when they were merged: there is one copy.
        p.last_pg_merge_meta = Default::default();
    } else if n > p.pg_num && p.pg_num == p.pg_num_pending {
        (p.pg_num, p.pg_num_pending) = (n, n);
    }
}

fn set(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, var, val) = (ctx.args.need("pool")?, ctx.args.need("var")?, ctx.args.need("val")?);
    let sure = ctx.args.flag("yes_i_really_mean_it");
    let id = ctx.mon.osd.need_pool(&name)?;
    let w = Wanted { var: &var, val: &val };
    let mut p = ctx.mon.osd.map.pools[&id].clone();
    match var.as_str() {
        "size" => set_size(ctx, id, &mut p, &w, sure)?,
        "min_size" => {
            if p.has(pool_flags::NOSIZECHANGE) {
                return Err(CmdError::new(
                    errno::EPERM,
                    "pool min size change is disabled; you must unset nosizechange flag for the pool first",
                ));
            }
            let n = w.int()?;
            if n < 1 || n > i64::from(p.size) {
                return invalid(format!("pool min_size must be between 1 and size, which is set to {}", p.size));
            }
            p.min_size = n as u8;
        }
        "pg_num" | "pg_num_actual" | "pgp_num" | "pgp_num_actual" => {
            if p.has(pool_flags::NOPGCHANGE) {
                return Err(CmdError::new(
                    errno::EPERM,
                    format!("pool {var} change is disabled; you must unset nopgchange flag for the pool first"),
                ));
            }
            set_pg_num(ctx, id, &mut p, &w, &name)?;
        }
        "crush_rule" => {
            let crush = &ctx.mon.osd.map.crush;
            let rule = crush.rule_id(&val).ok_or_else(|| CmdError::new(errno::ENOENT, format!("crush rule {val} does not exist")))?;
            if crush.rule(rule).is_none_or(|r| r.kind != p.kind) {
                return invalid(format!("crush rule {rule} type does not match pool"));
            }
            p.crush_rule = rule as u8;
        }
        "hashpspool" if !sure => {
            return Err(CmdError::new(
                errno::EPERM,
                "this moves all placement groups of the pool; pass --yes-i-really-mean-it if you mean it",
            ));
        }
        "hashpspool"
        | "nodelete"
        | "nopgchange"
        | "nosizechange"
        | "write_fadvise_dontneed"
        | "noscrub"
        | "nodeep-scrub"
        | "eio"
        | "bulk" => {
            let flag = pool_flags::parse(&var).expect("the names are flags");
            if w.truth()? {
                p.flags |= flag;
            } else {
                p.flags &= !flag;
            }
        }
        "pg_autoscale_mode" => {
            p.pg_autoscale_mode = match val.as_str() {
                "off" => PgPool::AUTOSCALE_OFF,
                "warn" => PgPool::AUTOSCALE_WARN,
                "on" => PgPool::AUTOSCALE_ON,
                _ => return invalid(format!("specified invalid mode {val}")),
            };
        }
        "use_gmt_hitset"
        | "hit_set_type"
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
        | "hit_set_search_last_n" => {
            // There are no cache tiers here, and of others these can't be set.
            return Err(CmdError::new(errno::EACCES, ""));
        }
        "fast_read" => return invalid("fast read is not supported in replication pool"),
        "allow_ec_overwrites" if p.is_erasure() => return invalid("pool must only be stored on bluestore for scrubbing to work"),
        "allow_ec_overwrites" => return invalid("ec overwrites can only be enabled for an erasure coded pool"),
        _ => set_option(ctx, &mut p, &w)?,
    }
    let shown = match var.as_str() {
        "target_size_bytes" => with_unit(&val, 1024)?.to_string(),
        _ => val,
    };
    if p != ctx.mon.osd.map.pools[&id] {
        p.last_change = ctx.mon.osd.map.epoch + 1;
        *ctx.mon.osd.pool_mut(id).expect("we looked") = p;
    }
    let told = format!("set pool {id} {var} to {shown}");
    Ok(Reply::status(match without_effect(&var) {
        Some(why) => format!("{told}; it is kept and has no effect: {why}"),
        None => told,
    }))
}

/// Settings that Humboldt's OSDs do not go by, by how their names begin, and why. They are kept, as tools set and read them.
const WITHOUT_EFFECT: [(&str, &str); 4] = [
    ("compression_", "Humboldt's OSDs store data as they came, and compress none"),
    ("csum_", "Humboldt's OSDs have a crc32c of each block, whatever the pool says"),
    ("dedup_", "Humboldt's OSDs find no duplicates"),
    ("fingerprint_algorithm", "Humboldt's OSDs find no duplicates"),
];

fn without_effect(var: &str) -> Option<&'static str> {
    WITHOUT_EFFECT.iter().find(|(front, _)| var.starts_with(front)).map(|(_, why)| *why)
}

fn set_size(ctx: &Ctx<'_>, id: types::PoolId, p: &mut PgPool, w: &Wanted<'_>, sure: bool) -> Result<(), CmdError> {
    if p.has(pool_flags::NOSIZECHANGE) {
        return Err(CmdError::new(errno::EPERM, "pool size change is disabled; you must unset nosizechange flag for the pool first"));
    }
    let n = w.int()?;
    if !(1..=10).contains(&n) {
        return invalid("pool size must be between 1 and 10");
    }
    let config = &ctx.mon.config;
    if n == 1 {
        if !config.mon_bool("mon_allow_pool_size_one") {
            return Err(CmdError::new(errno::EPERM, "configuring pool size as 1 is disabled by default."));
        }
        if !sure {
            return Err(CmdError::new(
                errno::EPERM,
                "WARNING: setting pool size 1 could lead to data loss without recovery. If you are *ABSOLUTELY CERTAIN* that is what you want, \
                 pass the flag --yes-i-really-mean-it.",
            ));
        }
    }
    let size = n as u8;
    if size > p.size {
        ctx.mon.osd.check_pg_limit(Some(id), p.pg_num_target, size, config)?;
    }
    p.size = size;
    let min = config.mon_number("osd_pool_default_min_size") as u8;
    p.min_size = if min > 0 { min.min(size) } else { size - size / 2 };
    Ok(())
}

/// Options that a pool needn't have: `unset` or 0 takes them away.
fn set_option(ctx: &Ctx<'_>, p: &mut PgPool, w: &Wanted<'_>) -> Result<(), CmdError> {
    let Some((key, kind)) = OptKey::by_name(w.var) else { return invalid(format!("unrecognized variable '{}'", w.var)) };
    let unset = w.val == "unset";
    if !unset {
        match w.var {
            "compression_mode" => w.choice(&["none", "passive", "aggressive", "force"])?,
            "compression_algorithm" => w.choice(&["none", "snappy", "zlib", "zstd", "lz4", ""])?,
            "fingerprint_algorithm" => w.choice(&["none", "sha1", "sha256", "sha512"])?,
            "dedup_chunk_algorithm" => w.choice(&["none", "fixed", "fastcdc"])?,
            _ => {}
        }
    }
    const CSUMS: [&str; 8] = ["", "none", "xxhash32", "xxhash64", "crc32c", "crc32c_16", "crc32c_8", "invalid"];
    let value = match kind {
        OptKind::Str if unset => None,
        OptKind::Str => Some(OptValue::Str(w.val.into())),
        OptKind::Int => {
            let n = match w.var {
                "csum_type" if unset => 0,
                "csum_type" => match CSUMS.iter().take(7).skip(1).position(|c| *c == w.val) {
                    Some(i) => i as i64 + 1,
                    None => return invalid(format!("unrecognized csum_type '{}'", w.val)),
                },
                "target_size_bytes" | "compression_max_blob_size" | "compression_min_blob_size" | "csum_max_block" | "csum_min_block" => {
                    with_unit(w.val, 1024)?
                }
                "dedup_tier" => match ctx.mon.osd.map.pool_by_name(w.val) {
                    Some(id) => id,
                    None => return Err(CmdError::new(errno::ENOENT, format!("unrecognized pool '{}'", w.val))),
                },
                _ => w.int()?,
            };
            let target = i64::from(p.pg_num_target);
            match w.var {
                "pg_num_min" if n > target => return invalid(format!("specified pg_num_min {n} > pg_num {target}")),
                "pg_num_max" if n != 0 && n < target => return invalid(format!("specified pg_num_max {n} < pg_num {target}")),
                "recovery_priority" if !(-10..=10).contains(&n) => return invalid("pool recovery_priority must be between -10 and 10"),
                _ => {}
            }
            (n != 0).then_some(OptValue::Int(n))
        }
        OptKind::Double => {
            let f = w.float()?;
            match w.var {
                "compression_required_ratio" if !(0.0..=1.0).contains(&f) => {
                    return invalid(format!("compression_required_ratio is out of range (0-1): '{}'", w.val));
                }
                "target_size_ratio" if f < 0.0 => return invalid("target_size_ratio cannot be negative"),
                "pg_autoscale_bias" if !(0.0..=1000.0).contains(&f) => return invalid("pg_autoscale_bias must be between 0 and 1000"),
                _ => {}
            }
            (f != 0.0).then_some(OptValue::Double(f))
        }
    };
    match value {
        Some(value) => p.opts.set(key, value),
        None => p.opts.unset(key),
    }
    Ok(())
}

fn set_quota(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, field, val) = (ctx.args.need("pool")?, ctx.args.need("field")?, ctx.args.need("val")?);
    let id = ctx.mon.osd.need_pool(&name)?;
    let objects = field == "max_objects";
    let value = with_unit(&val, if objects { 1000 } else { 1024 })?;
    if value < 0 {
        return invalid(format!("error parsing value '{val}': it is negative"));
    }
    let pool = ctx.mon.osd.pool_mut(id).expect("we looked");
    *(if objects { &mut pool.quota_max_objects } else { &mut pool.quota_max_bytes }) = value as u64;
    Ok(Reply::status(format!("set-quota {field} = {value} for pool {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_decimal_or_binary() {
        let n = |text, step| with_unit(text, step).ok();
        assert_eq!(
            [n("10", 1000), n("10K", 1000), n("10K", 1024), n("1Gi", 1000), n("2GiB", 1024)],
            [10, 10_000, 10_240, 1 << 30, 2 << 30].map(Some)
        );
        assert_eq!([n("x", 1000), n("1X", 1000), n("9000000000000E", 1000)], [None; 3]);
    }
}
