//! `fs authorize`: what a client of a file system needs of every service, from directories and rights.

use super::fs::err;
use super::{CmdError, CmdResult, Command, Ctx, cmd};
use cephx::{CryptoKey, EntityAuth, Keyring};
use std::collections::BTreeMap;
use types::{EntityText, UTime, errno};

pub const COMMANDS: &[Command] = &[cmd(
    "fs authorize name=filesystem,type=CephString name=entity,type=CephString name=caps,type=CephString,n=N",
    "lets a client use directories of a file system: pairs of a path and its rights",
    "auth",
    "rwx",
    authorize,
)];

/// `r`, `rw`, and behind them any of `p` (quotas, layouts), `s` (snapshots) and `x`, in this order.
fn rights_are_known(rights: &str) -> bool {
    let rest = rights.strip_prefix("rw").or_else(|| rights.strip_prefix('r'));
    rest.is_some_and(|rest| ["", "p", "s", "x", "ps", "px", "sx", "psx"].contains(&rest))
}

fn authorize(ctx: &mut Ctx<'_>) -> CmdResult {
    let (fs, name) = (ctx.args.need("filesystem")?, ctx.args.need("entity")?);
    let entity = EntityText::parse(&name).filter(|_| name.starts_with("client."));
    let entity = entity.ok_or_else(|| CmdError::new(errno::EINVAL, format!("'{name}' is no client")))?;
    let every = matches!(fs.as_str(), "*" | "all");
    if !every && ctx.mon.fs.view().by_name(&fs).is_none() {
        return err(errno::EINVAL, format!("there is no file system '{fs}'"));
    }
    let words = ctx.args.list("caps");
    let (mut mds, mut writes, mut at) = (Vec::new(), false, 0);
    while at < words.len() {
        let (path, rights) = (&words[at], words.get(at + 1).map(String::as_str).unwrap_or_default());
        if !path.starts_with('/') || path.contains(['"', '\'', ',', ' ']) || !rights_are_known(rights) {
            return err(errno::EINVAL, format!("'{path} {rights}' is no pair of a path and rights (r, rw, rwp, rws, rwps)"));
        }
        writes |= rights.contains('w');
        let mut cap = format!("allow {rights}");
        if !every {
            cap += &format!(" fsname={fs}");
        }
        if path != "/" {
            cap += &format!(" path={}", path.trim_start_matches('/'));
        }
        at += 2;
        if words.get(at).is_some_and(|w| w == "root_squash") {
            cap += " root_squash";
            at += 1;
        }
        mds.push(cap);
    }
    let of_fs = if every { String::new() } else { format!(" fsname={fs}") };
    let data = if every { "*" } else { &fs };
    let caps: BTreeMap<String, String> = [
        ("mds".to_string(), mds.join(", ")),
        ("mon".to_string(), format!("allow r{of_fs}")),
        ("osd".to_string(), format!("allow {} tag cephfs data={data}", if writes { "rw" } else { "r" })),
    ]
    .into();
    for (service, text) in &caps {
        cephx::caps::check(service, text).map_err(|e| CmdError::new(errno::EINVAL, e.to_string()))?;
    }
    let mon = &mut *ctx.mon;
    let key = match mon.auth.entities.get(&entity) {
        Some(known) if known.caps != caps => {
            return err(errno::EINVAL, format!("{entity} exists with other capabilities: change them with `ceph auth caps`"));
        }
        Some(known) => known.key.clone(),
        None => CryptoKey::generate_of(mon.auth.preferred, UTime::from_wall_ns(ctx.clock.wall_ns), mon.entropy.as_mut()),
    };
    let auth = EntityAuth { key, caps, pending_key: CryptoKey::default() };
    mon.auth.put(entity.clone(), auth.clone(), &mut mon.batch);
    let shown = EntityAuth { caps: BTreeMap::new(), ..auth };
    let json = serde_json::json!([{"entity": entity.to_string(), "key": shown.key.to_base64()}]);
    ctx.answer(json, || Keyring { entities: [(entity.clone(), shown.clone())].into() }.to_string())
}
