//! The types of these classes by their names in Ceph, for samples of them.

use super::{
    change, check, entry, garbage, garbage_queue, header, keys, lifecycle, link, list, log, object, olh, raw, reshard, resharding, unlink,
    upload, usage,
};
use crate::cephfs;
use crate::wire::encode;
use denc::{Bytes, Denc, DencError};

type Again = fn(&Bytes) -> Result<Bytes, DencError>;

fn again<T: Denc>(bytes: &Bytes) -> Result<Bytes, DencError> {
    T::from_bytes(bytes).map(|value| encode(&value))
}

/// The types by their names in Ceph.
const TYPES: &[(&str, Again)] = &[
    ("ObjCeiling", again::<cephfs::Ceiling>),
    ("RGWUploadPartInfo", again::<upload::Part>),
    ("cls_rgw_bi_log_list_op", again::<log::ListOp>),
    ("cls_rgw_bi_log_list_ret", again::<log::ListReply>),
    ("cls_rgw_bi_log_trim_op", again::<log::TrimOp>),
    ("cls_rgw_bucket_instance_entry", again::<header::Resharding>),
    ("cls_rgw_gc_defer_entry_op", again::<garbage::DeferOp>),
    ("cls_rgw_gc_list_op", again::<garbage::ListOp>),
    ("cls_rgw_gc_list_ret", again::<garbage::ListReply>),
    ("cls_rgw_gc_obj_info", again::<garbage::Garbage>),
    ("cls_rgw_gc_queue_defer_entry_op", again::<garbage::SetOp>),
    ("cls_rgw_gc_queue_init_op", again::<garbage_queue::GcInitOp>),
    ("cls_rgw_gc_queue_remove_entries_op", again::<garbage_queue::GcRemoveOp>),
    ("cls_rgw_gc_remove_op", again::<garbage::RemoveOp>),
    ("cls_rgw_gc_set_entry_op", again::<garbage::SetOp>),
    ("cls_rgw_gc_urgent_data", again::<garbage_queue::Urgent>),
    ("cls_rgw_guard_bucket_resharding_op", again::<reshard::GuardOp>),
    ("cls_rgw_lc_entry", again::<lifecycle::Bucket>),
    ("cls_rgw_lc_get_entry_ret", again::<lifecycle::One>),
    ("cls_rgw_lc_list_entries_op", again::<lifecycle::ListOp>),
    ("cls_rgw_lc_obj_head", again::<lifecycle::Head>),
    ("cls_rgw_lc_put_head_op", again::<lifecycle::HeadOp>),
    ("cls_rgw_lc_rm_entry_op", again::<lifecycle::One>),
    ("cls_rgw_lc_set_entry_op", again::<lifecycle::One>),
    ("cls_rgw_mp_upload_part_info_update_op", again::<upload::UpdateOp>),
    ("cls_rgw_obj", again::<garbage::Piece>),
    ("cls_rgw_obj_chain", again::<garbage::Chain>),
    ("cls_rgw_obj_key", again::<keys::ObjKey>),
    ("cls_rgw_reshard_add_op", again::<reshard::One>),
    ("cls_rgw_reshard_entry", again::<reshard::Job>),
    ("cls_rgw_reshard_get_op", again::<reshard::One>),
    ("cls_rgw_reshard_get_ret", again::<reshard::One>),
    ("cls_rgw_reshard_list_op", again::<reshard::ListOp>),
    ("cls_rgw_reshard_list_ret", again::<reshard::ListReply>),
    ("cls_rgw_reshard_remove_op", again::<reshard::RemoveOp>),
    ("cls_rgw_set_bucket_resharding_op", again::<reshard::Status>),
    ("rgw_bi_log_entry", again::<log::Logged>),
    ("rgw_bucket_category_stats", again::<header::Sums>),
    ("rgw_bucket_dir", again::<list::Dir>),
    ("rgw_bucket_dir_entry", again::<entry::Entry>),
    ("rgw_bucket_dir_entry_meta", again::<entry::Meta>),
    ("rgw_bucket_dir_header", again::<header::Header>),
    ("rgw_bucket_entry_ver", again::<entry::EntryVer>),
    ("rgw_bucket_olh_entry", again::<olh::Olh>),
    ("rgw_bucket_olh_log_entry", again::<olh::Todo>),
    ("rgw_bucket_pending_info", again::<entry::Pending>),
    ("rgw_cls_bi_entry", again::<raw::Raw>),
    ("rgw_cls_bi_get_op", again::<raw::GetOp>),
    ("rgw_cls_bi_get_ret", again::<raw::One>),
    ("rgw_cls_bi_list_op", again::<raw::ListOp>),
    ("rgw_cls_bi_list_ret", again::<raw::ListReply>),
    ("rgw_cls_bi_put_entries_op", again::<raw::PutOp>),
    ("rgw_cls_bi_put_op", again::<raw::One>),
    ("rgw_bucket_deleted_entry", again::<resharding::Deleted>),
    ("rgw_cls_bucket_clear_olh_op", again::<olh::ClearOp>),
    ("rgw_cls_check_index_ret", again::<check::CheckReply>),
    ("rgw_cls_link_olh_op", again::<link::LinkOp>),
    ("rgw_cls_list_op", again::<list::ListOp>),
    ("rgw_cls_list_ret", again::<list::ListReply>),
    ("rgw_cls_obj_check_attrs_prefix", again::<object::CheckAttrsOp>),
    ("rgw_cls_obj_check_mtime", again::<object::CheckMtimeOp>),
    ("rgw_cls_obj_complete_op", again::<change::CompleteOp>),
    ("rgw_cls_obj_prepare_op", again::<change::PrepareOp>),
    ("rgw_cls_obj_remove_op", again::<object::RemoveOp>),
    ("rgw_cls_obj_store_pg_ver_op", again::<object::StorePgVerOp>),
    ("rgw_cls_read_olh_log_op", again::<olh::LogOp>),
    ("rgw_cls_read_olh_log_ret", again::<olh::LogReply>),
    ("rgw_cls_tag_timeout_op", again::<check::TagTimeoutOp>),
    ("rgw_cls_trim_olh_log_op", again::<olh::LogOp>),
    ("rgw_cls_unlink_instance_op", again::<unlink::UnlinkOp>),
    ("rgw_cls_usage_log_add_op", again::<usage::AddOp>),
    ("rgw_cls_usage_log_read_op", again::<usage::ReadOp>),
    ("rgw_cls_usage_log_read_ret", again::<usage::ReadReply>),
    ("rgw_cls_usage_log_trim_op", again::<usage::TrimOp>),
    ("rgw_obj_index_key", again::<keys::ObjKey>),
    ("rgw_usage_data", again::<usage::Usage>),
    ("rgw_usage_log_entry", again::<usage::Record>),
    ("rgw_usage_log_info", again::<usage::Records>),
    ("rgw_user_bucket", again::<usage::UserBucket>),
];

/// Takes a value of that type of Ceph's apart and puts it together again; None for types that are not these classes'. For tests that have samples.
pub fn encoded_again(name: &str, bytes: &Bytes) -> Option<Result<Bytes, DencError>> {
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, again)| again(bytes))
}
