//! Which code is which operation.

use super::exec::{Answer, Exec, Step, done, is_user_change};
use types::osd_op::{Extent, OpCode};
use types::{Bytes, OsdOp};

impl Exec<'_> {
    /// Runs one operation of the vector.
    pub fn one(&mut self, op: &OsdOp, indata: &Bytes, index: u32) -> Step<Answer> {
        self.user_modify |= is_user_change(op);
        match op.code {
            OpCode::READ | OpCode::SYNC_READ => self.op_read(&settled(op)),
            OpCode::WRITE => self.op_write(&settled(op), indata),
            OpCode::SPARSE_READ => self.op_sparse_read(&settled(op)),
            OpCode::MAPEXT => self.op_mapext(&settled(op)),
            OpCode::STAT => self.op_stat(),
            OpCode::CMPEXT => self.op_cmpext(&settled(op), indata),
            OpCode::CHECKSUM => self.op_checksum(op, indata),
            OpCode::WRITEFULL => self.op_write_full(op, indata),
            OpCode::WRITESAME => self.op_write_same(op, indata),
            OpCode::APPEND => self.op_append(op, indata),
            OpCode::ZERO => self.zero(settled(op).extent()),
            OpCode::TRUNCATE => self.truncate(settled(op).extent()),
            OpCode::TRIMTRUNC => {
                let extent = settled(op).extent();
                self.truncate(Extent { offset: extent.truncate_size, ..extent })
            }
            OpCode::CREATE => self.op_create(op, indata),
            OpCode::DELETE => self.remove(),
            OpCode::STARTSYNC => {
                self.modify = true;
                done()
            }
            OpCode::SETALLOCHINT => self.op_alloc_hint(op),
            OpCode::ROLLBACK => self.op_rollback(op),
            OpCode::LIST_SNAPS => self.op_list_snaps(),
            OpCode::GETXATTR => self.op_getxattr(op, indata),
            OpCode::GETXATTRS => self.op_getxattrs(),
            OpCode::CMPXATTR => self.op_cmpxattr(op, indata),
            OpCode::SETXATTR => self.op_setxattr(op, indata),
            OpCode::RMXATTR => self.op_rmxattr(op, indata),
            OpCode::OMAPGETKEYS => self.op_omap_get_keys(indata),
            OpCode::OMAPGETVALS => self.op_omap_get_vals(indata),
            OpCode::OMAPGETHEADER => Ok((0, self.omap_header()?.into())),
            OpCode::OMAPGETVALSBYKEYS => self.op_omap_get_vals_by_keys(indata),
            OpCode::OMAP_CMP => self.op_omap_cmp(indata),
            OpCode::OMAPSETVALS => self.op_omap_set_vals(indata),
            OpCode::OMAPSETHEADER => self.omap_set_header(indata.clone()),
            OpCode::OMAPCLEAR => self.omap_clear(),
            OpCode::OMAPRMKEYS => self.op_omap_rm_keys(indata),
            OpCode::OMAPRMKEYRANGE => self.op_omap_rm_key_range(indata),
            OpCode::TMAPGET => self.op_tmap_get(),
            OpCode::TMAPPUT => self.op_tmap_put(indata),
            OpCode::TMAPUP => self.op_tmap_up(indata),
            OpCode::TMAP2OMAP => self.op_tmap_to_omap(op.tmap2omap().flags),
            OpCode::ASSERT_VER => self.op_assert_ver(op),
            OpCode::WATCH => self.op_watch(op),
            OpCode::NOTIFY => self.op_notify(op, indata),
            OpCode::NOTIFY_ACK => self.op_notify_ack(op, indata),
            OpCode::LIST_WATCHERS => self.op_list_watchers(),
            OpCode::CALL => self.op_call(op, indata, index),
            OpCode::ISDIRTY => self.op_is_dirty(),
            OpCode::UNDIRTY => self.op_undirty(),
            OpCode::COPY_GET => self.op_copy_get(indata),
            OpCode::COPY_FROM | OpCode::COPY_FROM2 => self.op_copy_from(op, indata),
            code => self.op_cache(code),
        }
    }
}

impl Exec<'_> {
    /// True if the operation, where it succeeds, leaves the result as the operation before it has left it.
    pub fn keeps_result(&self, op: &OsdOp) -> bool {
        match op.code {
            OpCode::STAT | OpCode::ASSERT_VER | OpCode::MAPEXT | OpCode::NOTIFY | OpCode::NOTIFY_ACK => true,
            OpCode::OMAPGETKEYS | OpCode::OMAPGETVALS | OpCode::OMAPGETHEADER | OpCode::OMAPGETVALSBYKEYS | OpCode::OMAP_CMP => true,
            OpCode::ZERO => self.is_zero_behind_the_end(settled(op).extent()),
            _ => false,
        }
    }
}

/// An operation whose truncate_seq is the 1 with which clients of old say that there was none.
pub(super) fn settled(op: &OsdOp) -> OsdOp {
    let extent = op.extent();
    if extent.truncate_seq == 1 && extent.truncate_size == u64::MAX {
        return OsdOp { flags: op.flags, ..OsdOp::with_extent(op.code, Extent { truncate_size: 0, truncate_seq: 0, ..extent }) };
    }
    *op
}
