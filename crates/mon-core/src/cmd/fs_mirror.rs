//! `fs mirror`: what cephfs-mirror reads of the map: which file systems are copied, and where to.

use super::fs::{changeable, err};
use super::{CmdResult, Command, Ctx, Reply, cmd};
use maps::fs_map::{MirrorPeer, MirrorTarget};
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd("fs mirror enable name=fs_name,type=CephString", "lets a file system be copied", "mds", "rw", |ctx| switch(ctx, true)),
    cmd("fs mirror disable name=fs_name,type=CephString", "ends the copying of a file system", "mds", "rw", |ctx| switch(ctx, false)),
    cmd(
        "fs mirror peer_add name=fs_name,type=CephString name=uuid,type=CephString name=remote_cluster_spec,type=CephString \
         name=remote_fs_name,type=CephString",
        "adds a place where a file system is copied to",
        "mds",
        "rw",
        peer_add,
    ),
    cmd(
        "fs mirror peer_remove name=fs_name,type=CephString name=uuid,type=CephString",
        "takes such a place away",
        "mds",
        "rw",
        peer_remove,
    ),
];

fn switch(ctx: &mut Ctx<'_>, on: bool) -> CmdResult {
    let fs = changeable(ctx)?;
    if fs.mirror.mirrored != on {
        ctx.mon.fs.pending().modify(fs.fscid, |fs| {
            fs.mirror.mirrored = on;
            fs.mirror.peers.retain(|_| on);
        });
    }
    Ok(Reply::default())
}

fn mirrored(ctx: &Ctx<'_>) -> Result<maps::Filesystem, super::CmdError> {
    let fs = changeable(ctx)?;
    if fs.mirror.mirrored { Ok(fs) } else { err(errno::EINVAL, format!("Mirroring not enabled for filesystem '{}'", fs.mds.fs_name)) }
}

fn peer_add(ctx: &mut Ctx<'_>) -> CmdResult {
    let fs = mirrored(ctx)?;
    let (uuid, spec) = (ctx.args.need("uuid")?, ctx.args.need("remote_cluster_spec")?);
    let Some((client, cluster)) = spec.split_once('@') else {
        return err(errno::EINVAL, "the remote cluster is given as CLIENT@CLUSTER");
    };
    let remote = MirrorTarget { client_name: client.into(), cluster_name: cluster.into(), fs_name: ctx.args.need("remote_fs_name")? };
    if fs.mirror.peers.iter().any(|p| p.uuid == uuid || p.remote == remote) {
        return Ok(Reply::status("peer already exists"));
    }
    ctx.mon.fs.pending().modify(fs.fscid, |fs| fs.mirror.peers.extend([MirrorPeer { uuid, remote }]));
    Ok(Reply::default())
}

fn peer_remove(ctx: &mut Ctx<'_>) -> CmdResult {
    let fs = mirrored(ctx)?;
    let uuid = ctx.args.need("uuid")?;
    if fs.mirror.peers.iter().all(|p| p.uuid != uuid) {
        return Ok(Reply::status(format!("cannot find peer with uuid: {uuid}")));
    }
    ctx.mon.fs.pending().modify(fs.fscid, |fs| fs.mirror.peers.retain(|p| p.uuid != uuid));
    Ok(Reply::default())
}
