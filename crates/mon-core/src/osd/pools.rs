//! Pools: made, removed and renamed, for commands and for clients' MPoolOp.

use super::OsdService;
use crate::Mon;
use crate::cmd::CmdError;
use crate::config::ConfigDb;
use crate::session::{Budget, ConnId};
use base::Clock;
use cephx::caps::{OsdCap, Perm};
use maps::{OptKey, OptValue, PgPool, pool_flags};
use messages::{MPoolOp, MPoolOpReply, Paxos, pool_op};
use types::{PoolId, UTime, errno};

/// What a new pool shall be; what is left out comes from the configuration.
#[derive(Debug, Default)]
pub struct PoolSpec {
    pub name: String,
    pub pg_num: Option<u32>,
    pub pgp_num: Option<u32>,
    pub crush_rule: Option<u32>,
    pub size: Option<u8>,
    pub min_size: Option<u8>,
    pub expected_num_objects: u64,
    pub autoscale_mode: Option<u8>,
    pub bulk: bool,
    pub pg_num_min: Option<i64>,
    pub pg_num_max: Option<i64>,
    pub target_size_bytes: Option<i64>,
    pub target_size_ratio: Option<f64>,
}

fn refuse<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}

/// `pg_num` and `pgp_num` of a new pool.
fn group_numbers(spec: &PoolSpec, config: &ConfigDb) -> Result<(u32, u32), CmdError> {
    let pg_num = spec.pg_num.filter(|n| *n > 0).unwrap_or(config.mon_number("osd_pool_default_pg_num") as u32).max(1);
    let pgp_default = config.mon_number("osd_pool_default_pgp_num") as u32;
    let pgp_num = spec.pgp_num.filter(|n| *n > 0).unwrap_or(if pgp_default > 0 { pgp_default.min(pg_num) } else { pg_num });
    let most = config.max_pool_pg_num();
    if pg_num > most {
        return refuse(
            errno::ERANGE,
            format!(
                "'pg_num' must be greater than 0 and less than or equal to {most} (you may adjust 'mon max pool pg num' for higher values), got {pg_num}"
            ),
        );
    }
    if pgp_num > pg_num {
        return refuse(
            errno::ERANGE,
            format!("'pgp_num' must be greater than 0 and lower or equal than 'pg_num', which in this case is {pg_num}"),
        );
    }
    Ok((pg_num, pgp_num))
}

fn default_flags(spec: &PoolSpec, config: &ConfigDb) -> u64 {
    let mut flags = pool_flags::CREATING;
    for (name, flag) in [
        ("osd_pool_default_flag_hashpspool", pool_flags::HASHPSPOOL),
        ("osd_pool_default_flag_nodelete", pool_flags::NODELETE),
        ("osd_pool_default_flag_nopgchange", pool_flags::NOPGCHANGE),
        ("osd_pool_default_flag_nosizechange", pool_flags::NOSIZECHANGE),
        ("osd_pool_default_flag_bulk", pool_flags::BULK),
    ] {
        if config.mon_bool(name) {
            flags |= flag;
        }
    }
    if spec.bulk {
        flags |= pool_flags::BULK;
    }
    flags
}

/// The options that are given with a new pool.
fn set_options(pool: &mut PgPool, spec: &PoolSpec) {
    let ints =
        [(OptKey::PG_NUM_MIN, spec.pg_num_min), (OptKey::PG_NUM_MAX, spec.pg_num_max), (OptKey::TARGET_SIZE_BYTES, spec.target_size_bytes)];
    for (key, value) in ints {
        if let Some(value) = value.filter(|v| *v > 0) {
            pool.opts.0.insert(key, OptValue::Int(value));
        }
    }
    if let Some(ratio) = spec.target_size_ratio.filter(|r| *r > 0.0) {
        pool.opts.0.insert(OptKey::TARGET_SIZE_RATIO, OptValue::Double(ratio));
    }
}

impl OsdService {
    /// A pool's number by name, as the change being made leaves it.
    pub fn pool_id(&self, name: &str) -> Option<PoolId> {
        if let Some(inc) = self.peek_pending() {
            if let Some((id, _)) = inc.new_pool_names.iter().find(|(_, n)| *n == name) {
                return Some(*id);
            }
            return self.map.pool_by_name(name).filter(|id| !inc.old_pools.contains(id) && !inc.new_pool_names.contains_key(id));
        }
        self.map.pool_by_name(name)
    }
    /// A pool's number by name, or the answer that says there is none.
    pub fn need_pool(&self, name: &str) -> Result<PoolId, CmdError> {
        self.pool_id(name).ok_or_else(|| CmdError::new(errno::ENOENT, format!("unrecognized pool '{name}'")))
    }

    /// Adds a pool to the change being made. A pool of that name that exists already is not an error.
    pub fn create_pool(&mut self, spec: &PoolSpec, config: &ConfigDb, now: UTime) -> Result<PoolId, CmdError> {
        if let Some(id) = self.pool_id(&spec.name) {
            return Ok(id);
        }
        if spec.name.is_empty() {
            return refuse(errno::EINVAL, "a pool needs a name");
        }
        let (pg_num, pgp_num) = group_numbers(spec, config)?;
        let rule = self.default_rule(spec, config)?;
        let size = spec.size.unwrap_or(config.mon_number("osd_pool_default_size") as u8).clamp(1, 10);
        let min_default = config.mon_number("osd_pool_default_min_size") as u8;
        let min_size = spec.min_size.unwrap_or(if min_default > 0 && min_default <= size { min_default } else { size - size / 2 });
        self.check_pg_limit(None, pg_num, size, config)?;

        let autoscale = match config.mon_value("osd_pool_default_pg_autoscale_mode") {
            "on" => PgPool::AUTOSCALE_ON,
            "warn" => PgPool::AUTOSCALE_WARN,
            _ => PgPool::AUTOSCALE_OFF,
        };
        let epoch = self.map.epoch + 1;
        let pool_max = i64::from(self.map.pool_max);
        let inc = self.pending();
        let id = if inc.new_pool_max == -1 { pool_max } else { inc.new_pool_max } + 1;
        inc.new_pool_max = id;
        let mut pool = PgPool {
            create_time: now,
            flags: default_flags(spec, config),
            kind: PgPool::REPLICATED,
            size,
            min_size,
            crush_rule: rule as u8,
            object_hash: PgPool::HASH_RJENKINS,
            pg_autoscale_mode: spec.autoscale_mode.unwrap_or(autoscale),
            pg_num,
            pgp_num,
            pg_num_pending: pg_num,
            pg_num_target: pg_num,
            pgp_num_target: pgp_num,
            last_change: epoch,
            expected_num_objects: spec.expected_num_objects,
            cache_target_dirty_ratio_micro: 400_000,
            cache_target_dirty_high_ratio_micro: 600_000,
            cache_target_full_ratio_micro: 800_000,
            cache_min_flush_age: 0,
            cache_min_evict_age: 0,
            ..PgPool::default()
        };
        set_options(&mut pool, spec);
        inc.new_pools.insert(id, pool);
        inc.new_pool_names.insert(id, spec.name.clone());
        Ok(id)
    }

    fn default_rule(&self, spec: &PoolSpec, config: &ConfigDb) -> Result<u32, CmdError> {
        let crush = &self.map.crush;
        if let Some(rule) = spec.crush_rule {
            return if crush.rule_exists(rule) { Ok(rule) } else { refuse(errno::ENOENT, format!("crush rule {rule} does not exist")) };
        }
        let wanted = config.mon_number("osd_pool_default_crush_rule");
        if wanted >= 0.0 && crush.rule_exists(wanted as u32) {
            return Ok(wanted as u32);
        }
        match (0..crush.rules.len() as u32).find(|r| crush.rule(*r).is_some_and(|rule| rule.kind == maps_rule::REPLICATED)) {
            Some(rule) => Ok(rule),
            None => refuse(errno::ENOENT, "no suitable CRUSH rule exists, check 'osd pool default crush *' config options"),
        }
    }

    /// Refuses more placement groups than the OSDs shall carry.
    pub fn check_pg_limit(&self, pool: Option<PoolId>, pg_num: u32, size: u8, config: &ConfigDb) -> Result<(), CmdError> {
        let max_per_osd = config.mon_number("mon_max_pg_per_osd") as u64;
        let osds = self.map.num_in().max(1) as u64;
        let others: u64 =
            self.map.pools.iter().filter(|(id, _)| Some(**id) != pool).map(|(_, p)| u64::from(p.pg_num_target) * u64::from(p.size)).sum();
        let projected = others + u64::from(pg_num) * u64::from(size);
        if max_per_osd > 0 && projected > max_per_osd.saturating_mul(osds) {
            return refuse(
                errno::ERANGE,
                format!(
                    "{} pg_num {pg_num} size {size} for this pool would result in {} cumulative PGs per OSD ({projected} total PG replicas on {osds} \
                     'in' root OSDs by crush rule) which exceeds the mon_max_pg_per_osd value of {max_per_osd}",
                    pool.map(|id| format!("pool id {id}")).unwrap_or_default(),
                    projected / osds
                ),
            );
        }
        Ok(())
    }

    /// Removes a pool in the change being made.
    pub fn remove_pool(&mut self, id: PoolId, config: &ConfigDb) -> Result<(), CmdError> {
        if !config.mon_bool("mon_allow_pool_delete") {
            return refuse(
                errno::EPERM,
                "pool deletion is disabled; you must first set the mon_allow_pool_delete config option to true before you can destroy a pool",
            );
        }
        let Some(pool) = self.map.pools.get(&id) else { return Ok(()) };
        if pool.has(pool_flags::NODELETE) {
            return refuse(errno::EPERM, "pool deletion is disabled; you must unset nodelete flag for the pool first");
        }
        if pool.is_tier() || !pool.tiers.is_empty() {
            return refuse(errno::EBUSY, "pool is or has a tier");
        }
        self.pending().old_pools.insert(id);
        Ok(())
    }
}

use crush_kinds as maps_rule;
mod crush_kinds {
    /// `CRUSH_RULE_TYPE_REPLICATED`: the kind of a rule for replicated pools.
    pub const REPLICATED: u8 = 1;
}

impl Mon {
    /// An operation on a pool. Those of clients that may do no more than write to the pool keep within their session's budget.
    pub(crate) fn on_pool_op(&mut self, conn: ConnId, m: MPoolOp, clock: Clock) {
        let unmanaged = matches!(m.op, pool_op::CREATE_UNMANAGED_SNAP | pool_op::DELETE_UNMANAGED_SNAP);
        if unmanaged && !self.may(conn, "osd", Perm::W) {
            let Some(session) = self.sessions.get_mut(&conn) else { return };
            if session.snaps.waiting >= Budget::WAITING_MAX {
                let fsid = self.options.fsid;
                let reply = MPoolOpReply { tid: m.tid, paxos: Paxos::default(), fsid, result: -errno::EAGAIN, epoch: 0, response: None };
                return self.send_pool_op(conn, reply);
            }
            if session.snaps.waiting > 0 || !session.snaps.take(clock.mono) {
                session.snaps.waiting += 1;
                self.waiting_snaps.push_back((conn, m));
                return;
            }
        }
        self.do_pool_op(conn, m, clock);
    }

    /// Does what waited, as far as each session's budget goes.
    pub(crate) fn tick_snaps(&mut self, clock: Clock) {
        for (conn, m) in std::mem::take(&mut self.waiting_snaps) {
            let Some(session) = self.sessions.get_mut(&conn) else { continue };
            if session.snaps.take(clock.mono) {
                session.snaps.waiting -= 1;
                self.do_pool_op(conn, m, clock);
            } else {
                self.waiting_snaps.push_back((conn, m));
            }
        }
    }

    fn do_pool_op(&mut self, conn: ConnId, m: MPoolOp, clock: Clock) {
        let (result, response) = match self.pool_op(conn, &m, clock) {
            Ok(response) => (0, response),
            Err(e) => (-e.errno, None),
        };
        let fsid = self.options.fsid;
        self.send_pool_op(conn, MPoolOpReply { tid: m.tid, paxos: Paxos::default(), fsid, result, epoch: 0, response });
    }

    fn pool_op(&mut self, conn: ConnId, m: &MPoolOp, clock: Clock) -> Result<Option<bytes::Bytes>, CmdError> {
        let now = UTime::from_wall_ns(clock.wall_ns);
        if m.fsid != self.options.fsid {
            return refuse(errno::EPERM, "another cluster's request");
        }
        self.check_pool_op(conn, m)?;
        match m.op {
            pool_op::CREATE => {
                let rule = u32::try_from(m.crush_rule).ok().filter(|r| *r != 0xffff);
                let spec = PoolSpec { name: m.name.clone(), crush_rule: rule, ..PoolSpec::default() };
                self.osd.create_pool(&spec, &self.config, now)?;
                Ok(None)
            }
            pool_op::DELETE => {
                self.check_pool_is_free(m.pool.into())?;
                self.osd.remove_pool(m.pool.into(), &self.config)?;
                Ok(None)
            }
            _ => self.snap_op(m, now),
        }
    }

    /// Refuses to take from a file system what it lies on.
    pub(crate) fn check_pool_is_free(&self, id: PoolId) -> Result<(), CmdError> {
        if self.fs.view().uses_pool(id) {
            return refuse(errno::EBUSY, "the pool is in use by CephFS");
        }
        Ok(())
    }

    /// Snapshots of clients need less than the rest: who may write to the pool may make and remove them.
    fn check_pool_op(&self, conn: ConnId, m: &MPoolOp) -> Result<(), CmdError> {
        let unmanaged = matches!(m.op, pool_op::CREATE_UNMANAGED_SNAP | pool_op::DELETE_UNMANAGED_SNAP);
        if self.may(conn, "osd", Perm::W) {
            return Ok(());
        }
        let Some(session) = self.sessions.get(&conn).filter(|_| unmanaged) else { return refuse(errno::EPERM, "") };
        let name = self.osd.map.pool_name(m.pool.into()).unwrap_or_default();
        let addr = session.peer.from;
        let args = [("poolname".to_string(), name.to_string())].into();
        if session.caps.may_command(&session.peer.entity, &addr, "osd", "osd pool op unmanaged-snap", &args, Perm::W) {
            return Ok(());
        }
        let caps = self.auth.entities.get(&session.peer.entity).and_then(|e| e.caps.get("osd")).and_then(|text| OsdCap::parse(text).ok());
        let Some(caps) = caps else { return refuse(errno::EPERM, "") };
        if caps.writes_into(name, &addr) { Ok(()) } else { refuse(errno::EPERM, "") }
    }
}
