//! The log of an index: what other zones replay. Its entries stand in the index's own omap, in the order of the header's versions.

use super::entry::{COMPLETE, EntryVer, Packed, op};
use super::header::Header;
use super::keys::LOG;
use crate::registry::Method;
use crate::rest::{Rest, keeps};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, encode, errno, reply, stored};
use denc::{ByteStr, Bytes, Decoder, Denc, DencError, Encoder, denc_struct};
use types::UTime;
use types::errno::ENODATA;

pub const METHODS: &[Method] = &[
    Method::reads("bi_log_list", list),
    Method::writes("bi_log_trim", trim),
    Method::writes("bi_log_resync", resync),
    Method::writes("bi_log_stop", stop),
];

/// In an entry's flags: the change is of versions.
pub const OF_VERSIONS: u16 = 1;

/// Behind the log's last key.
const LOG_END: &[u8] = b"\x801000_";

/// `rgw_bi_log_entry`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logged {
    /// Where it stands in the log.
    pub id: ByteStr,
    pub object: ByteStr,
    pub instance: ByteStr,
    pub at: UTime,
    pub ver: EntryVer,
    pub op: u8,
    pub state: u8,
    pub index_ver: u64,
    pub tag: ByteStr,
    pub flags: u16,
    /// Of a delete marker's.
    pub owner: ByteStr,
    pub owner_display_name: ByteStr,
    /// `rgw_zone_set`: where the change has been, in the order in which it came.
    pub zones: Vec<ByteStr>,
    pub rest: Rest,
}

impl Denc for Logged {
    fn encode(&self, e: &mut Encoder) {
        self.rest.frame(e, 4, 1, |e| {
            e.put(&self.id);
            e.put(&self.object);
            e.put(&self.at);
            e.put(&self.ver);
            e.put(&self.tag);
            e.u8(self.op);
            e.u8(self.state);
            e.put(&Packed(self.index_ver));
            e.put(&self.instance);
            e.u16(self.flags);
            e.put(&self.owner);
            e.put(&self.owner_display_name);
            e.put(&self.zones);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Rest::read(d, "Logged", 4, |d, v| {
            let mut entry = Self { id: d.get()?, object: d.get()?, at: d.get()?, ver: d.get()?, tag: d.get()?, ..Self::default() };
            (entry.op, entry.state, entry.index_ver) = (d.u8()?, d.u8()?, d.get::<Packed>()?.0);
            if v >= 2 {
                (entry.instance, entry.flags) = (d.get()?, d.u16()?);
            }
            if v >= 3 {
                (entry.owner, entry.owner_display_name) = (d.get()?, d.get()?);
            }
            if v >= 4 {
                entry.zones = d.get()?;
            }
            Ok(entry)
        })
        .map(|(it, rest)| Self { rest, ..it })
    }
}
keeps!(Logged, Logged::default());

/// `cls_rgw_bi_log_list_op`.
pub struct ListOp {
    marker: ByteStr,
    entries_max: u32,
}
denc_struct!(ListOp, v 1, compat 1, { marker, entries_max });

/// `cls_rgw_bi_log_list_ret`.
pub struct ListReply {
    entries: Vec<Logged>,
    truncated: bool,
}
denc_struct!(ListReply, v 1, compat 1, { entries, truncated });

/// `cls_rgw_bi_log_trim_op`: from behind the one to the other.
pub struct TrimOp {
    after: ByteStr,
    /// Empty for all that follow.
    to: ByteStr,
}
denc_struct!(TrimOp, v 1, compat 1, { after, to });

fn key(id: &ByteStr) -> Vec<u8> {
    [LOG, id.as_slice()].concat()
}

/// Adds an entry at the header's version. The header is not stored.
pub fn append(obj: &mut dyn ObjectView, header: &mut Header, mut entry: Logged) -> ClsResult<()> {
    entry.index_ver = header.ver;
    put(obj, header, entry)
}

fn put(obj: &mut dyn ObjectView, header: &mut Header, mut entry: Logged) -> ClsResult<()> {
    entry.id = format!("{:011}.{}.{}", header.ver, obj.version(), obj.subop()).into();
    let bytes = encode(&entry);
    obj.omap_set(vec![(key(&entry.id).into(), bytes)])?;
    if entry.id > header.max_marker {
        header.max_marker = entry.id;
    }
    Ok(())
}

fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    let (page, truncated) = obj.omap_vals(&key(&op.marker), LOG, op.entries_max.into())?;
    let entries = page.iter().map(|(_, value)| stored(value)).collect::<ClsResult<_>>()?;
    reply(&ListReply { entries, truncated })
}

/// ENODATA when nothing is left: callers repeat it until then.
fn trim(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: TrimOp = decode(&input)?;
    let end = if op.to.is_empty() { LOG_END.to_vec() } else { [key(&op.to), vec![0]].concat() };
    let (page, _) = obj.omap_keys(&key(&op.after), 1)?;
    let Some(first) = page.first().filter(|first| first.as_slice() < &end[..]) else { return errno(ENODATA) };
    obj.omap_remove_range(first.as_slice(), &end)?;
    done()
}

fn resync(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    switch(obj, op::RESYNC, false)
}

fn stop(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    switch(obj, op::SYNC_STOP, true)
}

/// Logging begins or ends; the log says so.
fn switch(obj: &mut dyn ObjectView, op: u8, stopped: bool) -> ClsResult<ClsReply> {
    let mut header = Header::load(obj)?;
    let entry = Logged { at: obj.now(), op, state: COMPLETE, ..Logged::default() };
    put(obj, &mut header, entry)?;
    header.sync_stopped = stopped;
    header.store(obj)?;
    done()
}
