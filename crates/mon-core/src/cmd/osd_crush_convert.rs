//! The CRUSH map, converted: a class renamed, straw buckets made straw2, two buckets' contents exchanged.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd(
        "osd crush class rename name=srcname,type=CephString,goodchars=[A-Za-z0-9-_] name=dstname,type=CephString,goodchars=[A-Za-z0-9-_]",
        "renames a device class",
        "osd",
        "rw",
        rename_class,
    ),
    cmd("osd crush set-all-straw-buckets-to-straw2", "makes straw buckets straw2", "osd", "rw", |ctx| {
        ctx.mon.osd.edit_crush(|crush| Ok::<_, CmdError>(crush.straw_to_straw2()))?;
        Ok(Reply::default())
    }),
    cmd(
        "osd crush swap-bucket name=source,type=CephString,goodchars=[A-Za-z0-9-_.] name=dest,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "exchanges what two buckets hold; the first is to be outside of all trees",
        "osd",
        "rw",
        swap,
    ),
];

fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}

fn rename_class(ctx: &mut Ctx<'_>) -> CmdResult {
    let (from, to) = (ctx.args.need("srcname")?, ctx.args.need("dstname")?);
    let crush = &ctx.mon.osd.map.crush;
    match (crush.class_id(&from).is_some(), crush.class_id(&to).is_some()) {
        (false, true) => return Ok(Reply::status(format!("already renamed to '{to}'"))),
        (false, false) => return err(errno::ENOENT, format!("fail to rename '{from}' to '{to}' : (2) No such file or directory")),
        (true, true) => return err(errno::EEXIST, format!("fail to rename '{from}' to '{to}' : (17) File exists")),
        (true, false) => {}
    }
    ctx.mon.osd.edit_crush(|crush| crush.rename_class(&from, &to).map(|()| true)).map_err(super::osd_crush::refused)?;
    Ok(Reply::status(format!("rename class '{from}' to '{to}'")))
}

fn swap(ctx: &mut Ctx<'_>) -> CmdResult {
    let (from, to, sure) = (ctx.args.need("source")?, ctx.args.need("dest")?, ctx.args.flag("yes_i_really_mean_it"));
    let crush = &ctx.mon.osd.map.crush;
    let Some(one) = crush.item_id(&from) else { return err(errno::ENOENT, format!("source item {from} does not exist")) };
    let Some(other) = crush.item_id(&to) else { return err(errno::ENOENT, format!("dest item {to} does not exist")) };
    let (Some(a), Some(b)) = (crush.bucket(one), crush.bucket(other)) else {
        return err(errno::EINVAL, "failed to swap bucket contents: (22) Invalid argument");
    };
    let is_placed = crush.iter_buckets().any(|bucket| bucket.position(one).is_some());
    if is_placed && !sure {
        return err(errno::EPERM, format!("source item {from} is not an orphan bucket; pass --yes-i-really-mean-it to proceed anyway"));
    }
    let algs = (a.alg().name(), b.alg().name());
    if algs.0 != algs.1 && !sure {
        let text = format!("source bucket alg {} != dest bucket alg {}; pass --yes-i-really-mean-it to proceed anyway", algs.0, algs.1);
        return err(errno::EPERM, text);
    }
    let exchanged = ctx.mon.osd.edit_crush(|crush| crush.swap_buckets(one, other).map(|()| true));
    match exchanged {
        Ok(_) => Ok(Reply::status(format!("swapped bucket of {from} to {to}"))),
        Err(_) => err(errno::EINVAL, "failed to swap bucket contents: (22) Invalid argument"),
    }
}
