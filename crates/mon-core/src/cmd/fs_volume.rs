//! What a manager's modules say and do of file systems: `fs status` and `fs volume ls` are answered here, the rest is theirs.

use super::fs::err;
use super::table::{Table, bytes_text};
use super::{CmdResult, Command, Ctx, mgr_cmd};
use maps::{Filesystem, MdsInfo};
use serde_json::{Value, json};
use types::errno;

pub const COMMANDS: &[Command] = &[
    mgr_cmd("fs status name=fs,type=CephString,req=false", "file systems, their servers and pools", "fs", "r", status),
    mgr_cmd("fs volume ls", "file systems", "fs", "r", |ctx| {
        let json = ctx.mon.fs.view().filesystems.values().map(|fs| json!({"name": fs.mds.fs_name})).collect();
        ctx.answer_json(json)
    }),
    mgr_cmd(
        "fs volume create name=name,type=CephString name=placement,type=CephString,req=false",
        "of a stock manager",
        "fs",
        "rw",
        theirs,
    ),
    mgr_cmd("fs volume rm name=vol_name,type=CephString", "of a stock manager", "fs", "rw", theirs),
    mgr_cmd("fs volume info name=vol_name,type=CephString", "of a stock manager", "fs", "r", theirs),
    mgr_cmd("fs subvolume ls name=vol_name,type=CephString", "of a stock manager", "fs", "r", theirs),
    mgr_cmd("fs subvolume create name=vol_name,type=CephString name=sub_name,type=CephString", "of a stock manager", "fs", "rw", theirs),
];

fn theirs(ctx: &mut Ctx<'_>) -> CmdResult {
    let text = format!("'{}' is a command of the stock manager's module volumes: this endpoint has no modules", ctx.args.prefix());
    err(errno::EOPNOTSUPP, text)
}

fn status(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = ctx.mon.visible_fsmap(ctx.conn);
    let wanted = ctx.args.text("fs").filter(|name| !name.is_empty());
    let shown: Vec<&Filesystem> =
        map.filesystems.values().filter(|fs| wanted.as_ref().is_none_or(|name| *name == fs.mds.fs_name)).collect();
    if let Some(name) = wanted.filter(|_| shown.is_empty()) {
        return err(errno::EINVAL, format!("Invalid filesystem: {name}"));
    }
    let state = |i: &MdsInfo| i.state.name().trim_start_matches("up:").to_string();
    let pool_rows = |fs: &Filesystem| -> Vec<(i64, String, &'static str, u64)> {
        let kinds = std::iter::once((fs.mds.metadata_pool, "metadata")).chain(fs.mds.data_pools.iter().map(|id| (*id, "data")));
        let used = |id| ctx.mon.manager.pgs.pool_sum(id).num_bytes.max(0) as u64;
        kinds.map(|(id, kind)| (id, ctx.mon.osd.map.pool_name(id).unwrap_or_default().to_string(), kind, used(id))).collect()
    };
    let mut servers: Vec<Value> = Vec::new();
    let mut pools: Vec<Value> = Vec::new();
    for fs in &shown {
        servers.extend(fs.mds.info.values().map(|i| json!({"rank": i.rank, "name": i.name, "state": state(i)})));
        pools.extend(pool_rows(fs).into_iter().map(|(id, name, kind, used)| json!({"id": id, "name": name, "type": kind, "used": used})));
    }
    servers.extend(map.standbys.values().map(|i| json!({"name": i.name, "state": "standby"})));
    ctx.answer(json!({"mdsmap": servers, "pools": pools}), || {
        let mut out = String::new();
        for fs in &shown {
            out += &format!("{} - {} of {} ranks up\n", fs.mds.fs_name, fs.mds.up.len(), fs.mds.max_mds);
            let mut t = Table::new(&["<RANK", "<STATE", "<MDS"]);
            fs.mds.info.values().for_each(|i| t.row(vec![i.rank.to_string(), state(i), i.name.clone()]));
            out += &t.text();
            let mut t = Table::new(&["<POOL", "<TYPE", ">USED"]);
            pool_rows(fs).into_iter().for_each(|(_, name, kind, used)| t.row(vec![name, kind.into(), bytes_text(used)]));
            out += &t.text();
        }
        let standbys: Vec<&str> = map.standbys.values().map(|i| i.name.as_str()).collect();
        if !standbys.is_empty() {
            out += &format!("STANDBY MDS: {}\n", standbys.join(", "));
        }
        out
    })
}
