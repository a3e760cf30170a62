//! `fs set`: the settings of a file system, and those of its features that its operator may change.

use super::fs::{changeable, err, truth};
use super::fs_show::{CLIENT_FEATURES, compat_json};
use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use maps::mds_map::{MAX_RANKS, mds_flags};
use maps::{Filesystem, MdsMap, MdsState};
use serde_json::{Value, json};
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd(
        "fs set name=fs_name,type=CephString name=var,type=CephChoices,strings=max_mds|allow_dirfrags|allow_new_snaps|allow_standby_replay\
         |bal_rank_mask|balance_automate|balancer|cluster_down|down|inline_data|joinable|max_file_size|max_xattr_size|min_compat_client\
         |refuse_client_session|refuse_standby_for_another_fs|session_autoclose|session_timeout|standby_count_wanted|allow_multimds\
         |allow_multimds_snaps name=val,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false \
         name=yes_i_really_really_mean_it,type=CephBool,req=false",
        "sets a variable of a file system",
        "mds",
        "rw",
        set,
    ),
    cmd("fs feature ls", "features that clients may have", "mds", "r", |ctx| {
        let rows: Vec<Value> = CLIENT_FEATURES.iter().enumerate().map(|(index, name)| json!({"index": index, "name": name})).collect();
        ctx.answer(json!(rows), || CLIENT_FEATURES.iter().enumerate().map(|(i, name)| format!("{i} {name}\n")).collect())
    }),
    cmd(
        "fs required_client_features name=fs_name,type=CephString name=subop,type=CephChoices,strings=add|rm name=val,type=CephString",
        "lets in only clients with a feature, or those without again",
        "mds",
        "rw",
        required_client_features,
    ),
    cmd("fs compat show name=fs_name,type=CephString", "the features of a file system", "mds", "r", |ctx| {
        let compat = super::fs::seen(ctx)?.mds.compat;
        ctx.answer(compat_json(&compat), || compat.to_string())
    }),
    cmd(
        "fs compat name=fs_name,type=CephString name=subop,type=CephChoices,strings=rm_compat|rm_incompat|add_compat|add_incompat \
         name=feature,type=CephInt name=feature_str,type=CephString,req=false",
        "changes the features of a file system",
        "fs",
        "rw",
        compat,
    ),
];

/// The smallest `max_file_size`: a stripe unit of CephFS.
const FILE_SIZE_MIN: i64 = 65536;
/// The shortest timeout of clients' sessions, seconds.
const SESSION_MIN_S: i64 = 30;

/// A number of at least `least`.
fn number(var: &str, text: &str, least: i64) -> Result<i64, CmdError> {
    let Ok(n) = text.parse::<i64>() else { return err(errno::EINVAL, format!("{var} requires an integer value")) };
    if n < least { err(errno::ERANGE, format!("{var} must be at least {least}")) } else { Ok(n) }
}
fn seconds(var: &str, text: &str) -> Result<u32, CmdError> {
    u32::try_from(number(var, text, SESSION_MIN_S)?).or_else(|_| err(errno::ERANGE, format!("{var} is too large")))
}

/// Sets a flag, or clears it; one that was ever set stays remembered.
fn set_flag(mds: &mut MdsMap, flag: u32, on: bool) {
    if on {
        mds.flags |= flag;
        // The fields are a byte each: what doesn't fit is not remembered.
        mds.ever_allowed_features |= flag as u8;
        mds.explicitly_allowed_features |= flag as u8;
    } else {
        mds.flags &= !flag;
    }
}

/// A change, and what to say of it.
type Change = (Box<dyn FnOnce(&mut MdsMap)>, String);

fn plain(change: impl FnOnce(&mut MdsMap) + 'static) -> Result<Change, CmdError> {
    Ok((Box::new(change), String::new()))
}
fn said(change: impl FnOnce(&mut MdsMap) + 'static, text: impl Into<String>) -> Result<Change, CmdError> {
    Ok((Box::new(change), text.into()))
}

fn set(ctx: &mut Ctx<'_>) -> CmdResult {
    let fs = changeable(ctx)?;
    let (var, val) = (ctx.args.need("var")?, ctx.args.need("val")?);
    if matches!(var.as_str(), "allow_multimds" | "allow_dirfrags") {
        return Ok(Reply::status(format!("{var} is always on: this command is deprecated")));
    }
    if var == "down" && !truth(&val)? && fs.mds.max_mds > 0 {
        return Ok(Reply::status(format!("{} is already online", fs.mds.fs_name)));
    }
    let (change, text) = match var.as_str() {
        "allow_standby_replay" => {
            let on = truth(&val)?;
            if !on {
                let followers = fs.mds.info.values().filter(|i| i.state == MdsState::STANDBY_REPLAY);
                followers.for_each(|i| ctx.mon.fail_mds(i.gid, ctx.clock));
            }
            plain(move |mds| set_flag(mds, mds_flags::ALLOW_STANDBY_REPLAY, on))?
        }
        "allow_multimds_snaps" => {
            if ctx.args.text("confirm").as_deref() != Some("--yes-i-am-really-a-mds") {
                return err(errno::EPERM, "this command is for metadata servers");
            }
            let on = truth(&val)?;
            plain(move |mds| set_flag(mds, mds_flags::ALLOW_MULTIMDS_SNAPS, on))?
        }
        "inline_data" if truth(&val)? && !ctx.args.flag("yes_i_really_really_mean_it") => {
            return err(errno::EPERM, "inline data is deprecated. Add --yes-i-really-really-mean-it if you want it all the same.");
        }
        _ => change_of(&fs, &var, val)?,
    };
    ctx.mon.fs.pending().modify(fs.fscid, |fs| change(&mut fs.mds));
    Ok(Reply::status(text))
}

/// Settings that change nothing but the map.
fn change_of(fs: &Filesystem, var: &str, val: String) -> Result<Change, CmdError> {
    let name = &fs.mds.fs_name;
    match var {
        "max_mds" => {
            let Ok(n) = val.parse::<i64>() else { return err(errno::EINVAL, format!("{var} requires an integer value")) };
            if n <= 0 || n > MAX_RANKS {
                return err(errno::EINVAL, format!("a file system has between 1 and {MAX_RANKS} ranks"));
            }
            plain(move |mds| {
                mds.flags &= !mds_flags::NOT_JOINABLE;
                mds.max_mds = n as i32;
            })
        }
        "inline_data" => {
            let on = truth(&val)?;
            said(move |mds| mds.inline_data_enabled = on, if on { "inline data enabled" } else { "inline data disabled" })
        }
        "balancer" => said(move |mds| mds.balancer = val, "the metadata load balancer is set"),
        "bal_rank_mask" => {
            let digits = val.strip_prefix("0x").unwrap_or(&val);
            let special = matches!(val.as_str(), "-1" | "all" | "0x0" | "0");
            let ranks = digits.len() <= MAX_RANKS as usize / 4
                && digits.bytes().all(|b| b.is_ascii_hexdigit())
                && digits.bytes().any(|b| b != b'0');
            if !special && (digits.is_empty() || !ranks) {
                return err(errno::EINVAL, "bal_rank_mask is a hexadecimal mask of ranks, one at least");
            }
            said(move |mds| mds.bal_rank_mask = val, "the balancer's mask of ranks is set")
        }
        "max_file_size" => {
            let n = number(var, &val, FILE_SIZE_MIN)?;
            plain(move |mds| mds.max_file_size = n as u64)
        }
        "max_xattr_size" => {
            let n = number(var, &val, 0)?;
            plain(move |mds| mds.max_xattr_size = n as u64)
        }
        "allow_new_snaps" => {
            let on = truth(&val)?;
            let text = if on { "enabled new snapshots" } else { "disabled new snapshots" };
            said(move |mds| set_flag(mds, mds_flags::ALLOW_SNAPS, on), text)
        }
        "down" => {
            let down = truth(&val)?;
            let change = move |mds: &mut MdsMap| match down {
                true if mds.max_mds > 0 => (mds.old_max_mds, mds.max_mds) = (mds.max_mds, 0),
                true => {}
                false => mds.max_mds = mds.old_max_mds.max(1),
            };
            said(change, format!("{name} marked {}", if down { "down" } else { "up" }))
        }
        "cluster_down" | "joinable" => {
            let joinable = truth(&val)? != (var == "cluster_down");
            let can = if joinable { "joinable; MDS may join as newly active." } else { "not joinable; MDS cannot join as newly active." };
            let change = move |mds: &mut MdsMap| {
                if joinable {
                    mds.flags &= !mds_flags::NOT_JOINABLE;
                } else {
                    mds.flags |= mds_flags::NOT_JOINABLE;
                }
            };
            said(change, format!("{name} marked {can}"))
        }
        "standby_count_wanted" => {
            let n = number(var, &val, 0)?.min(MAX_RANKS);
            plain(move |mds| mds.standby_count_wanted = n as i32)
        }
        "session_timeout" => {
            let s = seconds(var, &val)?;
            plain(move |mds| mds.session_timeout_s = s)
        }
        "session_autoclose" => {
            let s = seconds(var, &val)?;
            plain(move |mds| mds.session_autoclose_s = s)
        }
        "balance_automate" => {
            let on = truth(&val)?;
            plain(move |mds| set_flag(mds, mds_flags::BALANCE_AUTOMATE, on))
        }
        "refuse_client_session" => {
            let on = truth(&val)?;
            let text =
                if on { "client(s) blocked from establishing new session(s)" } else { "client(s) allowed to establish new session(s)" };
            said(
                move |mds| {
                    mds.flags = mds.flags & !mds_flags::REFUSE_CLIENT_SESSION | if on { mds_flags::REFUSE_CLIENT_SESSION } else { 0 }
                },
                text,
            )
        }
        "refuse_standby_for_another_fs" => {
            let on = truth(&val)?;
            let flag = mds_flags::REFUSE_STANDBY_FOR_ANOTHER_FS;
            let text = if on { "set to refuse standby for another fs" } else { "allowed to use standby for another fs" };
            said(move |mds| mds.flags = mds.flags & !flag | if on { flag } else { 0 }, text)
        }
        "min_compat_client" => {
            let Some(bit) = feature_of_release(&val) else { return err(errno::EINVAL, format!("version {val} is not recognized")) };
            let change = move |mds: &mut MdsMap| {
                mds.required_client_features = Default::default();
                bit.into_iter().for_each(|bit| mds.required_client_features.insert(bit));
            };
            said(change, "min_compat_client is deprecated: see `ceph fs required_client_features`")
        }
        _ => err(errno::EINVAL, format!("unknown variable {var}")),
    }
}

/// The feature that clients of a release have and earlier ones lack; none for releases before the first that has one.
fn feature_of_release(name: &str) -> Option<Option<usize>> {
    let release = maps::Release::parse(name)?.0;
    // By number: octopus, nautilus, mimic, luminous, kraken, jewel.
    const FIRST: [(u8, usize); 6] = [(15, 13), (14, 12), (13, 8), (12, 7), (11, 6), (10, 5)];
    Some(FIRST.into_iter().find(|(first, _)| release >= *first).map(|(_, bit)| bit))
}

fn required_client_features(ctx: &mut Ctx<'_>) -> CmdResult {
    let fs = changeable(ctx)?;
    let (add, val) = (ctx.args.need("subop")? == "add", ctx.args.need("val")?);
    let by_name = CLIENT_FEATURES.iter().position(|name| *name == val && val != "reserved");
    let Some(bit) = by_name.or_else(|| val.parse().ok()).filter(|bit| *bit < CLIENT_FEATURES.len()) else {
        return err(errno::EINVAL, format!("Invalid feature: {val}"));
    };
    let name = CLIENT_FEATURES[bit];
    if fs.mds.required_client_features.test(bit) == add {
        return Ok(Reply::status(format!("feature '{name}' is already {}", if add { "set" } else { "unset" })));
    }
    ctx.mon.fs.pending().modify(fs.fscid, |fs| {
        let bits = &mut fs.mds.required_client_features;
        if add { bits.insert(bit) } else { bits.remove(bit) }
    });
    let done = if add { "added" } else { "removed" };
    Ok(Reply::status(format!("{done} feature '{name}' {} required_client_features", if add { "to" } else { "from" })))
}

fn compat(ctx: &mut Ctx<'_>) -> CmdResult {
    let fs = changeable(ctx)?;
    let (subop, feature) = (ctx.args.need("subop")?, ctx.args.need_int("feature")?);
    if !(1..64).contains(&feature) {
        return err(errno::EINVAL, "Invalid feature");
    }
    if !fs.mds.info.is_empty() {
        return err(errno::EBUSY, "file system must be failed or down; use `ceph fs fail` to bring down");
    }
    let (feature, mut set) = (feature as u64, fs.mds.compat.clone());
    let part = if subop.ends_with("_incompat") { &mut set.incompat } else { &mut set.compat };
    if subop.starts_with("rm_") {
        part.names.remove(&feature);
    } else {
        let name = ctx.args.text("feature_str").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| CmdError::new(errno::EINVAL, "adding a feature requires a feature string"))?;
        if part.names.get(&feature).is_some_and(|there| *there != name) {
            return err(errno::EEXIST, format!("feature {feature} exists with another name"));
        }
        part.names.insert(feature, name);
    }
    ctx.mon.fs.pending().modify(fs.fscid, |fs| fs.mds.compat = set);
    Ok(Reply::status(format!("{subop} of feature {feature} done")))
}
