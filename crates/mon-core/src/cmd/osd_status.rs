//! `osd status`, which is of the manager's module `status` with stock: OSDs, how full they are and what they do.

use super::osd_map::state_names;
use super::table::{Table, bytes_text, count_text};
use super::{CmdError, CmdResult, Command, Ctx, mgr_cmd};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use types::{OsdId, errno};

pub const COMMANDS: &[Command] = &[mgr_cmd(
    "osd status name=bucket,type=CephString,req=false",
    "OSDs below a bucket, or all: how full they are, and what they do",
    "osd",
    "r",
    status,
)];

fn status(ctx: &mut Ctx<'_>) -> CmdResult {
    let (osd, manager) = (&ctx.mon.osd, &ctx.mon.manager);
    let map = &osd.map;
    let below: Option<BTreeSet<OsdId>> = match ctx.args.text("bucket").filter(|name| !name.is_empty()) {
        None => None,
        Some(name) => match map.crush.item_id(&name) {
            Some(id) if id < 0 => Some(map.crush.devices_below(id).into_keys().collect()),
            _ => return Err(CmdError::new(errno::ENOENT, format!("Bucket '{name}' not found"))),
        },
    };
    let mut t = Table::new(&[">ID", "<HOST", ">USED", ">AVAIL", ">WR OPS", ">WR DATA", ">RD OPS", ">RD DATA", "<STATE"]);
    let mut all: Vec<Value> = Vec::new();
    for id in map.osds().filter(|id| below.as_ref().is_none_or(|below| below.contains(id))) {
        let store = manager.pgs.osds.get(&id).map(|stat| stat.statfs);
        let host = osd.metadata.get(&id).filter(|_| store.is_some()).and_then(|about| about.get("hostname")).cloned().unwrap_or_default();
        let (used, available) = store.map_or((0, 0), |fs| (fs.used_raw(), fs.available));
        let rates = manager.daemons.get(&format!("osd.{id}")).filter(|_| map.is_up(id)).map(|d| d.perf.rates).unwrap_or_default();
        let states = state_names(map.state(id));
        // Bytes, whatever the fields are called.
        all.push(json!({
            "id": id, "host name": host, "kb used": used, "kb available": available,
            "write ops rate": rates.write_ops, "write byte rate": rates.write_bytes,
            "read ops rate": rates.read_ops, "read byte rate": rates.read_bytes,
            "state": states,
        }));
        let whole = |rate: f64| rate.round() as u64;
        t.row(vec![
            id.to_string(),
            host,
            bytes_text(used),
            bytes_text(available),
            count_text(whole(rates.write_ops)),
            bytes_text(whole(rates.write_bytes)),
            count_text(whole(rates.read_ops)),
            bytes_text(whole(rates.read_bytes)),
            states.join(","),
        ]);
    }
    ctx.answer(json!({"OSDs": all}), || t.text())
}
