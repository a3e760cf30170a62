//! File systems, from `fs new` to `fs rm`: their pools, their names, and showing them.

use super::fs_show::{filesystem_json, filesystem_text, flags_json, flags_text, fsmap_json, fsmap_text};
use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd, cmd_flags, flag};
use maps::mds_map::mds_flags;
use maps::{Filesystem, FsId, MdsState, OptKey, OptValue};
use serde_json::json;
use types::{PoolId, UTime, errno};

pub const COMMANDS: &[Command] = &[
    cmd("fs ls", "file systems", "fs", "r", ls),
    cmd("fs dump name=epoch,type=CephInt,req=false,range=0", "the map of file systems", "mds", "r", dump),
    cmd("fs get name=fs_name,type=CephString", "a file system", "fs", "r", |ctx| {
        let fs = seen(ctx)?;
        ctx.answer(filesystem_json(&fs), || filesystem_text(&fs))
    }),
    cmd("fs lsflags name=fs_name,type=CephString", "the flags of a file system", "fs", "r", |ctx| {
        let fs = seen(ctx)?;
        ctx.answer(flags_json(&fs.mds), || flags_text(&fs.mds))
    }),
    cmd(
        "fs new name=fs_name,type=CephString,goodchars=[A-Za-z0-9-_.] name=metadata,type=CephString name=data,type=CephString \
         name=force,type=CephBool,req=false name=allow_dangerous_metadata_overlay,type=CephBool,req=false \
         name=fscid,type=CephInt,range=0,req=false name=recover,type=CephBool,req=false",
        "makes a file system on two pools",
        "fs",
        "rw",
        new,
    ),
    cmd(
        "fs fail name=fs_name,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "ends all servers of a file system and lets none join",
        "fs",
        "rw",
        fail,
    ),
    cmd(
        "fs rm name=fs_name,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "removes a file system; its pools stay",
        "fs",
        "rw",
        rm,
    ),
    cmd(
        "fs reset name=fs_name,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "for disasters only: makes a file system one of one rank",
        "fs",
        "rw",
        reset,
    ),
    cmd(
        "fs rename name=fs_name,type=CephString name=new_fs_name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "gives a file system another name",
        "mds",
        "rw",
        rename,
    ),
    cmd(
        "fs swap name=fs1_name,type=CephString name=fs1_id,type=CephInt,range=0 name=fs2_name,type=CephString \
         name=fs2_id,type=CephInt,range=0 name=swap_fscids,type=CephChoices,strings=yes|no,req=true \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "gives two file systems each other's names",
        "mds",
        "rw",
        swap,
    ),
    cmd("fs add_data_pool name=fs_name,type=CephString name=pool,type=CephString", "adds a pool for data", "mds", "rw", add_data_pool),
    cmd("fs rm_data_pool name=fs_name,type=CephString name=pool,type=CephString", "takes a pool for data away", "mds", "rw", rm_data_pool),
    cmd("fs set-default name=fs_name,type=CephString", "sets what clients get that name no file system", "fs", "rw", set_default),
    cmd_flags(
        "fs set_default name=fs_name,type=CephString",
        "the former name of fs set-default",
        "fs",
        "rw",
        flag::DEPRECATED,
        set_default,
    ),
    cmd(
        "fs flag set name=flag_name,type=CephChoices,strings=enable_multiple name=val,type=CephString \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "sets a flag of all file systems",
        "fs",
        "rw",
        |ctx| {
            let on = truth(&ctx.args.need("val")?)?;
            let map = ctx.mon.fs.pending();
            map.enable_multiple = on;
            map.ever_enabled_multiple |= on;
            Ok(Reply::default())
        },
    ),
];

pub fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}
/// `true`, `yes`, `1` and their opposites.
pub fn truth(text: &str) -> Result<bool, CmdError> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "y" | "1" => Ok(true),
        "false" | "no" | "n" | "0" => Ok(false),
        _ => err(errno::EINVAL, format!("'{text}' is neither true nor false")),
    }
}

/// The file system of the command, if the asker may see it.
pub fn seen(ctx: &Ctx<'_>) -> Result<Filesystem, CmdError> {
    let name = ctx.args.need("fs_name")?;
    let map = ctx.mon.visible_fsmap(ctx.conn);
    map.by_name(&name).cloned().ok_or_else(|| CmdError::new(errno::ENOENT, format!("filesystem '{name}' not found")))
}
/// The file system of the command, if there is one and the asker may change it.
pub fn changeable(ctx: &Ctx<'_>) -> Result<Filesystem, CmdError> {
    let name = ctx.args.need("fs_name")?;
    let Some(fs) = ctx.mon.fs.view().by_name(&name).cloned() else {
        return err(errno::ENOENT, format!("Filesystem not found: '{name}'"));
    };
    may_change(ctx, &name)?;
    Ok(fs)
}
pub fn may_change(ctx: &Ctx<'_>, name: &str) -> Result<(), CmdError> {
    let session = ctx.mon.sessions.get(&ctx.conn);
    if session.is_some_and(|s| s.caps.may_change_fs(&s.peer.entity, name)) {
        return Ok(());
    }
    err(errno::EPERM, format!("Permission denied: '{name}'"))
}
pub fn sure(ctx: &Ctx<'_>, why: &str) -> Result<(), CmdError> {
    if ctx.args.flag("yes_i_really_mean_it") {
        return Ok(());
    }
    err(errno::EPERM, format!("{why} Add --yes-i-really-mean-it if you are sure."))
}
/// Refuses to end servers that would be long in replay.
pub fn not_behind(ctx: &Ctx<'_>) -> Result<(), CmdError> {
    const TRIM: u16 = 1;
    const CACHE_OVERSIZED: u16 = 11;
    let behind = ctx.mon.fs.health.values().flat_map(|h| &h.metrics).any(|m| m.kind == TRIM || m.kind == CACHE_OVERSIZED);
    if behind && !ctx.args.flag("yes_i_really_mean_it") {
        return err(
            errno::EPERM,
            "MDS_TRIM or MDS_CACHE_OVERSIZED is raised: a restart may take very long. Add --yes-i-really-mean-it to go on all the same.",
        );
    }
    Ok(())
}

fn ls(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = ctx.mon.visible_fsmap(ctx.conn);
    let pool = |id: i64| ctx.mon.osd.map.pool_name(id).unwrap_or_default().to_string();
    let rows = map.filesystems.values().map(|fs| {
        json!({
            "name": fs.mds.fs_name,
            "metadata_pool": pool(fs.mds.metadata_pool),
            "metadata_pool_id": fs.mds.metadata_pool,
            "data_pool_ids": fs.mds.data_pools,
            "data_pools": fs.mds.data_pools.iter().map(|id| pool(*id)).collect::<Vec<_>>(),
        })
    });
    ctx.answer(rows.collect(), || {
        let line = |fs: &Filesystem| {
            let data: String = fs.mds.data_pools.iter().map(|id| pool(*id) + " ").collect();
            format!("name: {}, metadata pool: {}, data pools: [{data}]\n", fs.mds.fs_name, pool(fs.mds.metadata_pool))
        };
        if map.filesystems.is_empty() { "No filesystems enabled\n".into() } else { map.filesystems.values().map(line).collect() }
    })
}

fn dump(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = match ctx.args.int("epoch")?.filter(|e| *e != 0) {
        None => ctx.mon.visible_fsmap(ctx.conn).into_owned(),
        Some(epoch) => match u32::try_from(epoch).ok().and_then(|e| ctx.mon.fs.map_at(e)) {
            Some(map) => map,
            None => return err(errno::ENOENT, format!("there is no map for epoch {epoch}")),
        },
    };
    let reply = ctx.answer(fsmap_json(&map), || fsmap_text(&map))?;
    Ok(reply.with_status(format!("dumped fsmap epoch {}", map.epoch)))
}

/// What a pool is to be for.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    Metadata,
    FirstData,
    MoreData,
}

/// Refuses pools that can't hold a file system's data.
fn check_pool(ctx: &Ctx<'_>, id: PoolId, used: Use, force: bool, overlay: bool) -> Result<(), CmdError> {
    let map = &ctx.mon.osd.map;
    let (Some(pool), Some(name)) = (map.pools.get(&id), map.pool_name(id)) else {
        return err(errno::ENOENT, format!("pool id '{id}' does not exist"));
    };
    if !pool.snaps.is_empty() {
        return err(errno::EOPNOTSUPP, format!("pool({id}) has snapshots of its own: a file system can't use it"));
    }
    let apps = &pool.application_metadata;
    if !force && !overlay && !apps.is_empty() {
        match apps.get(APP) {
            None => return err(errno::EINVAL, format!("RADOS pool '{name}' has another application enabled")),
            Some(keys) => {
                if let Some((kind, fs)) = keys.get_key_value("data").or_else(|| keys.get_key_value("metadata")) {
                    return err(errno::EINVAL, format!("RADOS pool '{name}' is already used by filesystem '{fs}' as a '{kind}' pool"));
                }
            }
        }
    }
    if pool.is_erasure() && (used == Use::Metadata || (used == Use::FirstData && !force)) {
        return err(
            errno::EINVAL,
            format!(
                "pool '{name}' (id '{id}') is an erasure-coded pool, which can't be the {} pool",
                match used {
                    Use::Metadata => "metadata",
                    _ => "default data",
                }
            ),
        );
    }
    if pool.is_tier() {
        return err(errno::EINVAL, format!("pool '{name}' (id '{id}') is already in use as a cache tier"));
    }
    Ok(())
}

/// The application of pools that file systems use.
const APP: &str = "cephfs";

fn tag(ctx: &mut Ctx<'_>, pool: PoolId, kind: &str, fs: &str) {
    if let Some(p) = ctx.mon.osd.pool_mut(pool) {
        p.application_metadata.entry(APP.into()).or_default().insert(kind.into(), fs.into());
    }
}
/// Tells a file system's pools whose they are.
fn tag_all(ctx: &mut Ctx<'_>, fs: &Filesystem, name: &str) {
    fs.mds.data_pools.iter().for_each(|pool| tag(ctx, *pool, "data", name));
    tag(ctx, fs.mds.metadata_pool, "metadata", name);
}

fn pool_named(ctx: &Ctx<'_>, param: &str) -> Result<PoolId, CmdError> {
    let name = ctx.args.need(param)?;
    ctx.mon.osd.map.pool_by_name(&name).ok_or_else(|| CmdError::new(errno::ENOENT, format!("pool '{name}' does not exist")))
}
/// The same by name or number.
fn pool_given(ctx: &Ctx<'_>) -> Result<PoolId, CmdError> {
    pool_named(ctx, "pool").or_else(|e| ctx.args.need("pool")?.parse().ok().filter(|id| *id >= 0).ok_or(e))
}

fn new(ctx: &mut Ctx<'_>) -> CmdResult {
    let (metadata, data) = (pool_named(ctx, "metadata")?, pool_named(ctx, "data")?);
    let name = ctx.args.need("fs_name")?;
    if name.is_empty() {
        return err(errno::EINVAL, "a file system needs a name");
    }
    may_change(ctx, &name)?;
    let (force, overlay) = (ctx.args.flag("force"), ctx.args.flag("allow_dangerous_metadata_overlay"));
    let map = ctx.mon.fs.view();
    if let Some(there) = map.by_name(&name) {
        if there.mds.metadata_pool == metadata && there.mds.data_pools.first() == Some(&data) {
            return Ok(Reply::status(format!("filesystem '{name}' already exists")));
        }
        return err(errno::EINVAL, format!("filesystem already exists with name '{name}'"));
    }
    if !force && ctx.mon.manager.pgs.pool_sum(metadata).num_objects > 0 {
        return err(errno::EINVAL, format!("pool '{}' already contains some objects: use an empty one", ctx.args.need("metadata")?));
    }
    if !map.filesystems.is_empty() && !map.enable_multiple {
        return err(errno::EINVAL, "several filesystems are disabled: see 'ceph fs flag set enable_multiple true'");
    }
    let used = map.filesystems.values().find(|fs| fs.mds.uses(metadata) || fs.mds.uses(data));
    if let Some(used) = used.filter(|_| !overlay) {
        let text =
            format!("filesystem '{}' already uses one of the pools; --allow-dangerous-metadata-overlay permits it", used.mds.fs_name);
        return err(errno::EINVAL, text);
    }
    let fscid = match ctx.args.int("fscid")? {
        None => None,
        Some(_) if !force => return err(errno::EINVAL, "pass --force to give a file system its number"),
        Some(id) => {
            let id = FsId::try_from(id).ok().filter(|id| *id > 0);
            let id = id.ok_or_else(|| CmdError::new(errno::EINVAL, "no number for a file system"))?;
            if map.filesystems.contains_key(&id) {
                return err(errno::EINVAL, format!("filesystem already exists with id '{id}'"));
            }
            Some(id)
        }
    };
    check_pool(ctx, data, Use::FirstData, force, overlay)?;
    check_pool(ctx, metadata, Use::Metadata, force, overlay)?;

    tag(ctx, data, "data", &name);
    tag(ctx, metadata, "metadata", &name);
    let pool = ctx.mon.osd.pool_mut(metadata).expect("we looked");
    pool.opts.0.insert(OptKey::RECOVERY_PRIORITY, OptValue::Int(5));
    pool.opts.0.insert(OptKey::PG_NUM_MIN, OptValue::Int(16));
    pool.opts.0.insert(OptKey::PG_AUTOSCALE_BIAS, OptValue::Double(4.0));
    let now = UTime::from_wall_ns(ctx.clock.wall_ns);
    let recover = ctx.args.flag("recover");
    let fscid = ctx.mon.fs.pending().create(&name, metadata, data, fscid, recover, now);
    let map = ctx.mon.fs.view();
    let standby = map.available_standby(&map.filesystems[&fscid]).map(|i| i.gid);
    if let Some(standby) = standby.filter(|_| !recover) {
        ctx.mon.fs.pending().promote(standby, fscid, 0);
    }
    Ok(Reply::status(format!("new fs with metadata pool {metadata} and data pool {data}")))
}

fn fail(ctx: &mut Ctx<'_>) -> CmdResult {
    let fs = changeable(ctx)?;
    not_behind(ctx)?;
    ctx.mon.fs.pending().modify(fs.fscid, |fs| fs.mds.flags |= mds_flags::NOT_JOINABLE);
    for gid in fs.mds.info.keys() {
        ctx.mon.fail_mds(*gid, ctx.clock);
    }
    Ok(Reply::status(format!("{} marked not joinable; MDS cannot join the cluster. All MDS ranks marked failed.", fs.mds.fs_name)))
}

/// Ends servers that follow ranks without a holder.
fn drop_followers(ctx: &mut Ctx<'_>, fs: &Filesystem) {
    for info in fs.mds.info.values().filter(|i| i.state == MdsState::STANDBY_REPLAY) {
        ctx.mon.fail_mds(info.gid, ctx.clock);
    }
}

fn rm(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("fs_name")?;
    if ctx.mon.fs.view().by_name(&name).is_none() {
        return Ok(Reply::status(format!("filesystem '{name}' does not exist")));
    }
    let fs = changeable(ctx)?;
    if !fs.mds.up.is_empty() {
        return err(errno::EINVAL, "all MDS daemons must be inactive or failed before a filesystem is removed. See `ceph fs fail`.");
    }
    sure(ctx, "Clients won't find the files of this filesystem any more.")?;
    drop_followers(ctx, &fs);
    ctx.mon.fs.pending().remove(fs.fscid);
    Ok(Reply::default())
}

fn reset(ctx: &mut Ctx<'_>) -> CmdResult {
    let fs = changeable(ctx)?;
    if !fs.mds.up.is_empty() {
        return err(errno::EINVAL, "all MDS daemons must be inactive before a filesystem is reset: see `ceph fs fail`");
    }
    sure(ctx, "This command is for disaster recovery: used wrongly, it loses files.")?;
    drop_followers(ctx, &fs);
    let now = UTime::from_wall_ns(ctx.clock.wall_ns);
    ctx.mon.fs.pending().reset(fs.fscid, now);
    Ok(Reply::default())
}

fn not_mirrored(fs: &Filesystem) -> Result<(), CmdError> {
    if fs.mirror.mirrored {
        return err(
            errno::EPERM,
            format!("Mirroring is enabled on file system '{0}': disable it first with `ceph fs mirror disable {0}`", fs.mds.fs_name),
        );
    }
    Ok(())
}

fn rename(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, new) = (ctx.args.need("fs_name")?, ctx.args.need("new_fs_name")?);
    let map = ctx.mon.fs.view();
    match (map.by_name(&name).is_some(), map.by_name(&new).is_some()) {
        (false, true) => return Ok(Reply::status(format!("there is a file system '{new}': it may have been renamed before"))),
        (false, false) => return err(errno::ENOENT, format!("File system '{name}' does not exist")),
        (true, true) => return err(errno::EINVAL, format!("file system name '{new}' already in use")),
        (true, false) if new.is_empty() => return err(errno::EINVAL, "a file system needs a name"),
        (true, false) => {}
    }
    let fs = changeable(ctx)?;
    not_mirrored(&fs)?;
    sure(ctx, "Clients whose capabilities name the file system lose access to it.")?;
    tag_all(ctx, &fs, &new);
    ctx.mon.fs.pending().modify(fs.fscid, |fs| fs.mds.fs_name = new);
    Ok(Reply::status("File system is renamed. Capabilities that name it have to be given anew."))
}

fn swap(ctx: &mut Ctx<'_>) -> CmdResult {
    sure(ctx, "Clients whose capabilities name the file systems get the other one, or none.")?;
    let one = |name: &str, id: &str| -> Result<(Filesystem, i64), CmdError> {
        let name = ctx.args.need(name)?;
        let fs = ctx.mon.fs.view().by_name(&name).cloned();
        let fs = fs.ok_or_else(|| CmdError::new(errno::ENOENT, format!("File system '{name}' doesn't exist")))?;
        may_change(ctx, &name)?;
        Ok((fs, ctx.args.need_int(id)?))
    };
    let ((a, a_id), (b, b_id)) = (one("fs1_name", "fs1_id")?, one("fs2_name", "fs2_id")?);
    if a.fscid == b.fscid {
        return err(errno::EINVAL, "one file system has nothing to swap with itself");
    }
    if (a_id, b_id) == (i64::from(b.fscid), i64::from(a.fscid)) {
        return Ok(Reply::status("the ids are already the other way round: `ceph fs swap` may have been run before"));
    }
    for (fs, id) in [(&a, a_id), (&b, b_id)] {
        if id != i64::from(fs.fscid) {
            return err(errno::EINVAL, format!("FSCID provided for '{}' is incorrect.", fs.mds.fs_name));
        }
        not_mirrored(fs)?;
        if !fs.mds.up.is_empty() {
            return err(errno::EPERM, format!("CephFS '{}' is not offline: see `ceph fs fail`", fs.mds.fs_name));
        }
        if !fs.mds.has(mds_flags::REFUSE_CLIENT_SESSION) {
            return err(errno::EPERM, format!("CephFS '{}' doesn't refuse clients: set refuse_client_session before", fs.mds.fs_name));
        }
    }
    let ids = ctx.args.need("swap_fscids")? == "yes";
    drop_followers(ctx, &a);
    drop_followers(ctx, &b);
    let (a_name, b_name) = (a.mds.fs_name.clone(), b.mds.fs_name.clone());
    tag_all(ctx, &a, &b_name);
    tag_all(ctx, &b, &a_name);
    let map = ctx.mon.fs.pending();
    map.modify(a.fscid, |fs| fs.mds.fs_name = b_name);
    map.modify(b.fscid, |fs| fs.mds.fs_name = a_name);
    if ids {
        map.swap_ids(a.fscid, b.fscid);
    }
    Ok(Reply::status("File system names have been swapped. Capabilities that name them may have to be given anew."))
}

fn add_data_pool(ctx: &mut Ctx<'_>) -> CmdResult {
    let fs = changeable(ctx)?;
    let pool = pool_given(ctx)?;
    if fs.mds.data_pools.contains(&pool) {
        return Ok(Reply::status(format!("data pool {pool} is already on fs {}", fs.mds.fs_name)));
    }
    check_pool(ctx, pool, Use::MoreData, false, false)?;
    tag(ctx, pool, "data", &fs.mds.fs_name);
    ctx.mon.fs.pending().modify(fs.fscid, |fs| fs.mds.data_pools.push(pool));
    Ok(Reply::status(format!("added data pool {pool} to fsmap")))
}

fn rm_data_pool(ctx: &mut Ctx<'_>) -> CmdResult {
    let fs = changeable(ctx)?;
    let pool = pool_given(ctx)?;
    if fs.mds.data_pools.first() == Some(&pool) {
        return err(errno::EINVAL, "cannot remove default data pool");
    }
    if !fs.mds.data_pools.contains(&pool) {
        return Ok(Reply::default());
    }
    ctx.mon.fs.pending().modify(fs.fscid, |fs| fs.mds.data_pools.retain(|id| *id != pool));
    Ok(Reply::status(format!("removed data pool {pool} from fsmap")))
}

fn set_default(ctx: &mut Ctx<'_>) -> CmdResult {
    let fs = changeable(ctx)?;
    ctx.mon.fs.pending().legacy_client_fscid = fs.fscid;
    Ok(Reply::default())
}
