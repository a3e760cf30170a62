//! One operation of a client's request on an object: `ceph_osd_op`, 38 bytes, with its code, flags and arguments.
//!
//! Holds the table of codes and what each code's kind is (reads, writes, both). The arguments stay the 28 bytes that they came as and
//! are looked at through the view that fits the code ([`OsdOp::extent`], [`OsdOp::xattr`] ...): so an op is copied, echoed in a reply
//! and compared without knowing its code. The data of an op travels apart from it (`messages::MOSDOp`).
//!
//! Source of the facts: Ceph 18.2 `src/include/rados.h`.

use denc::{Decoder, Denc, DencError, Encoder};
use std::fmt;

/// `CEPH_OSD_OP_*`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OpCode(pub u16);

macro_rules! codes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        impl OpCode {
            $( pub const $name: OpCode = OpCode($code); )*
            /// Every code that clients can send, ascending.
            pub const ALL: &'static [OpCode] = &[ $( OpCode($code), )* ];
            /// As Ceph prints it; `???` for an unknown code.
            pub const fn name(self) -> &'static str {
                match self.0 { $( $code => $text, )* _ => "???" }
            }
        }
    };
}
codes! {
    READ = 0x1201, "read";
    STAT = 0x1202, "stat";
    MAPEXT = 0x1203, "mapext";
    MASKTRUNC = 0x1204, "masktrunc";
    SPARSE_READ = 0x1205, "sparse-read";
    NOTIFY = 0x1206, "notify";
    NOTIFY_ACK = 0x1207, "notify-ack";
    ASSERT_VER = 0x1208, "assert-version";
    LIST_WATCHERS = 0x1209, "list-watchers";
    LIST_SNAPS = 0x120a, "list-snaps";
    SYNC_READ = 0x120b, "sync_read";
    TMAPGET = 0x120c, "tmapget";
    OMAPGETKEYS = 0x1211, "omap-get-keys";
    OMAPGETVALS = 0x1212, "omap-get-vals";
    OMAPGETHEADER = 0x1213, "omap-get-header";
    OMAPGETVALSBYKEYS = 0x1214, "omap-get-vals-by-keys";
    OMAP_CMP = 0x1219, "omap-cmp";
    ISDIRTY = 0x121d, "isdirty";
    COPY_GET = 0x121e, "copy-get";
    CHECKSUM = 0x121f, "checksum";
    CMPEXT = 0x1220, "cmpext";
    GETXATTR = 0x1301, "getxattr";
    GETXATTRS = 0x1302, "getxattrs";
    CMPXATTR = 0x1303, "cmpxattr";
    CALL = 0x1401, "call";
    PGLS = 0x1501, "pgls";
    PGLS_FILTER = 0x1502, "pgls-filter";
    PG_HITSET_LS = 0x1503, "pg-hitset-ls";
    PG_HITSET_GET = 0x1504, "pg-hitset-get";
    PGNLS = 0x1505, "pgnls";
    PGNLS_FILTER = 0x1506, "pgnls-filter";
    SCRUBLS = 0x1507, "scrubls";
    WRITE = 0x2201, "write";
    WRITEFULL = 0x2202, "writefull";
    TRUNCATE = 0x2203, "truncate";
    ZERO = 0x2204, "zero";
    DELETE = 0x2205, "delete";
    APPEND = 0x2206, "append";
    STARTSYNC = 0x2207, "startsync";
    SETTRUNC = 0x2208, "settrunc";
    TRIMTRUNC = 0x2209, "trimtrunc";
    TMAPPUT = 0x220b, "tmapput";
    CREATE = 0x220d, "create";
    ROLLBACK = 0x220e, "rollback";
    WATCH = 0x220f, "watch";
    OMAPSETVALS = 0x2215, "omap-set-vals";
    OMAPSETHEADER = 0x2216, "omap-set-header";
    OMAPCLEAR = 0x2217, "omap-clear";
    OMAPRMKEYS = 0x2218, "omap-rm-keys";
    COPY_FROM = 0x221a, "copy-from";
    UNDIRTY = 0x221c, "undirty";
    SETALLOCHINT = 0x2223, "set-alloc-hint";
    CACHE_PIN = 0x2224, "cache-pin";
    CACHE_UNPIN = 0x2225, "cache-unpin";
    WRITESAME = 0x2226, "write-same";
    SET_REDIRECT = 0x2227, "set-redirect";
    TIER_PROMOTE = 0x2229, "tier-promote";
    UNSET_MANIFEST = 0x222a, "unset-manifest";
    OMAPRMKEYRANGE = 0x222c, "omap-rm-key-range";
    COPY_FROM2 = 0x222d, "copy-from2";
    SETXATTR = 0x2301, "setxattr";
    SETXATTRS = 0x2302, "setxattrs";
    RESETXATTRS = 0x2303, "resetxattrs";
    RMXATTR = 0x2304, "rmxattr";
    TMAPUP = 0x320a, "tmapup";
    TMAP2OMAP = 0x3222, "tmap2omap";
    CACHE_FLUSH = 0x821f, "cache-flush";
    CACHE_EVICT = 0x8220, "cache-evict";
    CACHE_TRY_FLUSH = 0x8221, "cache-try-flush";
    SET_CHUNK = 0x8228, "set-chunk";
    TIER_FLUSH = 0x822b, "tier-flush";
    TIER_EVICT = 0x822c, "tier-evict";
}

const MODE_RD: u16 = 0x1000;
const MODE_WR: u16 = 0x2000;
const MODE_SUB: u16 = 0x4000;
const MODE_CACHE: u16 = 0x8000;
const TYPE: u16 = 0x0f00;

impl OpCode {
    /// True if the op reads the object. A class call does what its method does, so neither this nor [`OpCode::is_write`] holds of it.
    pub const fn is_read(self) -> bool {
        self.0 & MODE_RD != 0 && self.0 != Self::CALL.0
    }
    /// True if the op changes the object.
    pub const fn is_write(self) -> bool {
        self.0 & MODE_WR != 0
    }
    /// An op of cache tiering.
    pub const fn is_cache(self) -> bool {
        self.0 & MODE_CACHE != 0
    }
    /// An op among OSDs of old, never sent by clients.
    pub const fn is_sub(self) -> bool {
        self.0 & (MODE_SUB | MODE_CACHE | MODE_WR | MODE_RD) == MODE_SUB
    }
    pub const fn is_data(self) -> bool {
        self.0 & TYPE == 0x0200
    }
    pub const fn is_attr(self) -> bool {
        self.0 & TYPE == 0x0300
    }
    pub const fn is_exec(self) -> bool {
        self.0 & TYPE == 0x0400
    }
    /// An op on a placement group: listing.
    pub const fn is_pg(self) -> bool {
        self.0 & TYPE == 0x0500
    }
    /// True if the arguments are an [`Extent`].
    pub const fn uses_extent(self) -> bool {
        matches!(
            self,
            Self::READ
                | Self::MAPEXT
                | Self::MASKTRUNC
                | Self::SPARSE_READ
                | Self::SYNC_READ
                | Self::WRITE
                | Self::WRITEFULL
                | Self::TRUNCATE
                | Self::ZERO
                | Self::APPEND
                | Self::TRIMTRUNC
                | Self::CMPEXT
        )
    }
}
impl fmt::Display for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
impl fmt::Debug for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:#06x})", self.name(), self.0)
    }
}

/// Flags of one op, `CEPH_OSD_OP_FLAG_*`.
pub mod op_flag {
    /// CREATE fails if the object exists.
    pub const EXCL: u32 = 0x1;
    /// The ops behind this one run even if it fails.
    pub const FAILOK: u32 = 0x2;
    pub const FADVISE_RANDOM: u32 = 0x4;
    pub const FADVISE_SEQUENTIAL: u32 = 0x8;
    pub const FADVISE_WILLNEED: u32 = 0x10;
    pub const FADVISE_DONTNEED: u32 = 0x20;
    pub const FADVISE_NOCACHE: u32 = 0x40;
    pub const WITH_REFERENCE: u32 = 0x80;
    pub const BYPASS_CLEAN_CACHE: u32 = 0x100;
}

/// Flags of a whole request or reply, `CEPH_OSD_FLAG_*`.
pub mod osd_flag {
    pub const ACK: u32 = 0x1;
    pub const ONNVRAM: u32 = 0x2;
    /// The client wants, or the reply is, the answer that the op is on disk.
    pub const ONDISK: u32 = 0x4;
    pub const RETRY: u32 = 0x8;
    pub const READ: u32 = 0x10;
    pub const WRITE: u32 = 0x20;
    /// EOLDSNAPC if the snapshot context is older than the object's.
    pub const ORDERSNAP: u32 = 0x40;
    pub const PEERSTAT_OLD: u32 = 0x80;
    pub const BALANCE_READS: u32 = 0x100;
    pub const PARALLELEXEC: u32 = 0x200;
    /// On a placement group, not an object.
    pub const PGOP: u32 = 0x400;
    pub const EXEC: u32 = 0x800;
    pub const EXEC_PUBLIC: u32 = 0x1000;
    pub const LOCALIZE_READS: u32 = 0x2000;
    /// Ordered with writes even if it only reads.
    pub const RWORDERED: u32 = 0x4000;
    pub const IGNORE_CACHE: u32 = 0x8000;
    pub const SKIPRWLOCKS: u32 = 0x1_0000;
    pub const IGNORE_OVERLAY: u32 = 0x2_0000;
    pub const FLUSH: u32 = 0x4_0000;
    pub const MAP_SNAP_CLONE: u32 = 0x8_0000;
    /// The request's snapshot context counts even if the pool has snapshots of its own.
    pub const ENFORCE_SNAPC: u32 = 0x10_0000;
    pub const REDIRECTED: u32 = 0x20_0000;
    pub const KNOWN_REDIR: u32 = 0x40_0000;
    /// Tried although the cluster or pool is full; fails with ENOSPC if it would grow.
    pub const FULL_TRY: u32 = 0x80_0000;
    pub const FULL_FORCE: u32 = 0x100_0000;
    pub const IGNORE_REDIRECT: u32 = 0x200_0000;
    /// A write may answer a positive result and data per op.
    pub const RETURNVEC: u32 = 0x400_0000;
    pub const SUPPORTSPOOLEIO: u32 = 0x800_0000;

    /// Names as Ceph prints them, lowest bit first, joined by `+`; `-` for none.
    pub fn names(flags: u32) -> String {
        const NAMES: [&str; 28] = [
            "ack",
            "onnvram",
            "ondisk",
            "retry",
            "read",
            "write",
            "ordersnap",
            "peerstat_old",
            "balance_reads",
            "parallelexec",
            "pgop",
            "exec",
            "exec_public",
            "localize_reads",
            "rwordered",
            "ignore_cache",
            "skiprwlocks",
            "ignore_overlay",
            "flush",
            "map_snap_clone",
            "enforce_snapc",
            "redirected",
            "known_if_redirected",
            "full_try",
            "full_force",
            "ignore_redirect",
            "returnvec",
            "supports_pool_eio",
        ];
        let set: Vec<&str> = NAMES.iter().enumerate().filter(|(bit, _)| flags & 1 << bit != 0).map(|(_, name)| *name).collect();
        if set.is_empty() { "-".into() } else { set.join("+") }
    }
}

/// How CMPXATTR and OMAP_CMP compare, `CEPH_OSD_CMPXATTR_OP_*`: the operand of the request stands to the right.
pub mod cmp_op {
    pub const EQ: u8 = 1;
    pub const NE: u8 = 2;
    pub const GT: u8 = 3;
    pub const GTE: u8 = 4;
    pub const LT: u8 = 5;
    pub const LTE: u8 = 6;
}
/// What CMPXATTR compares as, `CEPH_OSD_CMPXATTR_MODE_*`.
pub mod cmp_mode {
    pub const STRING: u8 = 1;
    pub const U64: u8 = 2;
}
/// `CEPH_OSD_WATCH_OP_*`.
pub mod watch_op {
    pub const UNWATCH: u8 = 0;
    pub const LEGACY_WATCH: u8 = 1;
    pub const WATCH: u8 = 3;
    pub const RECONNECT: u8 = 5;
    pub const PING: u8 = 7;
}
/// `CEPH_OSD_CHECKSUM_OP_TYPE_*`.
pub mod checksum_kind {
    pub const XXHASH32: u8 = 0;
    pub const XXHASH64: u8 = 1;
    pub const CRC32C: u8 = 2;
}
/// `CEPH_OSD_COPY_FROM_FLAG_*`.
pub mod copy_from_flag {
    pub const FLUSH: u8 = 1;
    pub const IGNORE_OVERLAY: u8 = 2;
    pub const IGNORE_CACHE: u8 = 4;
    pub const MAP_SNAP_CLONE: u8 = 8;
    pub const RWORDERED: u8 = 16;
    /// COPY_FROM2 only: use the given truncate_seq and truncate_size.
    pub const TRUNCATE_SEQ: u8 = 32;
}
/// TMAP2OMAP's flag: an object without a tmap is no error.
pub const TMAP2OMAP_NULLOK: u8 = 1;

/// Bytes of an op's arguments.
pub const OP_ARGS_LEN: usize = 28;
/// Bytes of an op on the wire.
pub const OP_LEN: usize = 38;

/// `ceph_osd_op`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OsdOp {
    pub code: OpCode,
    /// [`op_flag`]s.
    pub flags: u32,
    /// The union of arguments as on the wire; see the views.
    pub args: [u8; OP_ARGS_LEN],
    /// Bytes of indata in a request, of outdata in a reply. Encoders of messages set it from the data that they send.
    pub payload_len: u32,
}

macro_rules! views {
    ($( $(#[$doc:meta])* $view:ident, $get:ident, $with:ident { $( $(#[$fdoc:meta])* $field:ident: $t:ty ),* $(,)? } )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
            pub struct $view { $( $(#[$fdoc])* pub $field: $t, )* }
        )*
        impl OsdOp {
            $(
                #[doc = concat!("The arguments as a [`", stringify!($view), "`].")]
                #[inline]
                pub fn $get(&self) -> $view {
                    let mut at = 0;
                    $( let $field = {
                        const N: usize = size_of::<$t>();
                        let bytes: [u8; N] = self.args[at..at + N].try_into().expect("a view lies within the arguments");
                        at += N;
                        <$t>::from_le_bytes(bytes)
                    }; )*
                    let _ = at;
                    $view { $( $field, )* }
                }
                #[doc = concat!("An op with a [`", stringify!($view), "`] for arguments.")]
                pub fn $with(code: OpCode, view: $view) -> Self {
                    let mut op = Self { code, ..Self::default() };
                    let mut at = 0;
                    $( {
                        const N: usize = size_of::<$t>();
                        op.args[at..at + N].copy_from_slice(&view.$field.to_le_bytes());
                        at += N;
                    } )*
                    let _ = at;
                    op
                }
            )*
        }
    };
}
views! {
    /// READ, WRITE and everything else that [`OpCode::uses_extent`].
    Extent, extent, with_extent {
        offset: u64,
        length: u64,
        /// The object's size after the truncate that `truncate_seq` numbers (CephFS); 0 elsewhere.
        truncate_size: u64,
        truncate_seq: u32,
    }
    /// GETXATTR, SETXATTR, RMXATTR, CMPXATTR: the indata is the name and then the value.
    XattrArgs, xattr, with_xattr { name_len: u32, value_len: u32, cmp_op: u8, cmp_mode: u8 }
    /// CALL: the indata is class, method and input.
    CallArgs, call, with_call { class_len: u8, method_len: u8, argc: u8, indata_len: u32 }
    /// PGLS, PGNLS and their filtered forms.
    PglsArgs, pgls, with_pgls { count: u64, start_epoch: u32 }
    /// ROLLBACK.
    SnapArgs, snap, with_snap { snapid: u64 }
    /// WATCH.
    WatchArgs, watch, with_watch {
        cookie: u64,
        /// Not used any more.
        ver: u64,
        /// [`watch_op`].
        op: u8,
        generation: u32,
        timeout_s: u32,
    }
    /// NOTIFY, NOTIFY_ACK.
    NotifyArgs, notify, with_notify { cookie: u64 }
    /// ASSERT_VER.
    AssertVerArgs, assert_ver, with_assert_ver { unused: u64, ver: u64 }
    /// COPY_GET.
    CopyGetArgs, copy_get, with_copy_get { max: u64 }
    /// COPY_FROM, COPY_FROM2.
    CopyFromArgs, copy_from, with_copy_from {
        snapid: u64,
        src_version: u64,
        /// [`copy_from_flag`]s.
        flags: u8,
        src_fadvise_flags: u32,
    }
    /// PG_HITSET_GET.
    HitSetGetArgs, hit_set_get, with_hit_set_get { sec: u32, nsec: u32 }
    /// TMAP2OMAP.
    Tmap2OmapArgs, tmap2omap, with_tmap2omap { flags: u8 }
    /// SETALLOCHINT.
    AllocHintArgs, alloc_hint, with_alloc_hint { expected_object_size: u64, expected_write_size: u64, flags: u32 }
    /// WRITESAME.
    WriteSameArgs, writesame, with_writesame { offset: u64, length: u64, data_length: u64 }
    /// CHECKSUM.
    ChecksumArgs, checksum, with_checksum {
        offset: u64,
        length: u64,
        chunk_size: u32,
        /// [`checksum_kind`].
        kind: u8,
    }
}

impl OsdOp {
    /// An op without arguments.
    pub const fn new(code: OpCode) -> Self {
        Self { code, flags: 0, args: [0; OP_ARGS_LEN], payload_len: 0 }
    }
    /// An op on a range of bytes.
    pub fn range(code: OpCode, offset: u64, length: u64) -> Self {
        Self::with_extent(code, Extent { offset, length, ..Extent::default() })
    }
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}
impl Default for OsdOp {
    fn default() -> Self {
        Self::new(OpCode(0))
    }
}
impl fmt::Debug for OsdOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if self.code.uses_extent() {
            let extent = self.extent();
            write!(f, " {}~{}", extent.offset, extent.length)?;
        }
        write!(f, " flags {:#x} data {}", self.flags, self.payload_len)
    }
}
impl Denc for OsdOp {
    fn encode(&self, e: &mut Encoder) {
        let mut out = [0; OP_LEN];
        out[..2].copy_from_slice(&self.code.0.to_le_bytes());
        out[2..6].copy_from_slice(&self.flags.to_le_bytes());
        out[6..34].copy_from_slice(&self.args);
        out[34..].copy_from_slice(&self.payload_len.to_le_bytes());
        e.raw(&out);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let mut bytes = [0; OP_LEN];
        d.read_exact(&mut bytes)?;
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let mut args = [0; OP_ARGS_LEN];
        args.copy_from_slice(&bytes[6..34]);
        Ok(Self { code: OpCode(u16::from_le_bytes([bytes[0], bytes[1]])), flags: u32_at(2), args, payload_len: u32_at(34) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_lie_where_the_union_has_them() {
        let op = OsdOp::with_watch(OpCode::WATCH, WatchArgs { cookie: 1, ver: 2, op: watch_op::PING, generation: 4, timeout_s: 5 });
        let bytes = op.to_bytes(0);
        assert_eq!(bytes.len(), OP_LEN);
        assert_eq!(bytes[6 + 16], 7);
        assert_eq!(bytes[6 + 17], 4);
        assert_eq!(OsdOp::from_bytes(&bytes).unwrap().watch().timeout_s, 5);
        let read = OsdOp::range(OpCode::READ, 4096, 512);
        assert_eq!((read.extent().offset, read.extent().length), (4096, 512));
    }

    #[test]
    fn kinds_of_codes() {
        assert!(OpCode::READ.is_read() && !OpCode::READ.is_write());
        assert!(OpCode::TMAPUP.is_read() && OpCode::TMAPUP.is_write());
        assert!(!OpCode::CALL.is_read() && !OpCode::CALL.is_write() && OpCode::CALL.is_exec());
        assert!(OpCode::PGNLS.is_pg());
        assert_eq!(OpCode(0x1234).name(), "???");
        assert_eq!(osd_flag::names(osd_flag::ACK | osd_flag::READ), "ack+read");
    }
}
