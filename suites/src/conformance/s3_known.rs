//! Tests of s3-tests that fail on a stock cluster as on ours, each group with its reason.

use crate::clients::Release;

/// Tests beyond that selection that fail, on a stock 18.2 cluster too: their names without `test_`, and why.
const OF_REEF: &[(&str, &str)] = &[
    (
        "assume_role_with_web_identity assume_role_with_web_identity_for_all_values assume_role_with_web_identity_for_all_values_deny \
         assume_role_with_web_identity_resource_tag assume_role_with_web_identity_resource_tag_copy_obj \
         assume_role_with_web_identity_resource_tag_deny assume_role_with_web_identity_resource_tag_princ_tag \
         assume_role_with_web_identity_role_resource_tag assume_role_with_web_identity_tag_keys_role_policy \
         assume_role_with_web_identity_tag_keys_trust_policy assume_role_with_web_identity_with_azp \
         assume_role_with_web_identity_with_principal_tag assume_role_with_web_identity_with_request_tag \
         assume_role_with_web_identity_with_sub assume_role_with_web_identity_wrong_resource_tag_deny \
         session_policy_bucket_policy_deny session_policy_bucket_policy_role_arn session_policy_bucket_policy_session_arn \
         session_policy_check_different_op_permissions session_policy_check_on_different_buckets session_policy_check_on_same_bucket \
         session_policy_check_put_obj_denial session_policy_check_with_deny_effect session_policy_check_with_deny_on_same_op \
         session_policy_copy_object session_policy_no_bucket_role_policy swapping_role_policy_and_session_policy",
        "needs an identity provider; fails on stock 18.2 too",
    ),
    (
        "bucket_policy_put_obj_s3_noenc sse_s3_default_method_head sse_s3_default_multipart_upload \
         sse_s3_default_post_object_authenticated_request sse_s3_default_upload_1b sse_s3_default_upload_1kb sse_s3_default_upload_1mb \
         sse_s3_default_upload_8mb sse_s3_encrypted_upload_1b sse_s3_encrypted_upload_1kb sse_s3_encrypted_upload_1mb \
         sse_s3_encrypted_upload_8mb",
        "needs a server of keys for SSE-S3; fails on stock 18.2 too",
    ),
    ("assume_role_creds_expiry", "waits for 15 minutes, longer than a test may take; fails on stock 18.2 too"),
    (
        "bucket_create_bad_authorization_empty bucket_create_bad_authorization_invalid_aws2 bucket_create_bad_authorization_none \
         bucket_create_bad_date_none_aws2 bucket_policy_different_tenant bucket_policy_put_obj_request_obj_tag \
         bucket_policy_set_condition_operator_end_with_IfExists bucketv2_policy_different_tenant copy_object_ifnonematch_good \
         get_deleted_user_policy get_user_policy_invalid_policy_name logging_toggle object_create_amz_date_and_no_date \
         object_create_bad_authorization_empty object_create_bad_authorization_incorrect_aws2 \
         object_create_bad_authorization_invalid_aws2 object_create_bad_authorization_none \
         object_create_bad_contentlength_mismatch_below_aws2 object_create_bad_contentlength_none object_create_bad_date_none_aws2 \
         object_create_date_and_amz_date object_read_unreadable object_set_get_unicode_metadata put_user_policy_invalid_element",
        "upstream marks it as failing on radosgw; fails on stock 18.2 too",
    ),
];

/// The reason, if that test of the release's branch fails on stock.
pub fn fails_on_stock(release: Release, test: &str) -> Option<&'static str> {
    let name = test.strip_prefix("test_")?;
    let list = if release == Release::Tentacle { OF_TENTACLE } else { OF_REEF };
    list.iter().find(|(names, _)| names.split(' ').any(|n| n == name)).map(|(_, why)| *why)
}

/// True for what 20.2 leaves of a bucket's logs when the bucket is removed: the note that one was begun, and its object. On stock, too.
pub fn is_log(name: &str) -> bool {
    let name = name.trim_start();
    name.starts_with("logging.") || name.contains("__shadow_") && name.contains("log/")
}

/// The same of the branch for 20.2, on a gateway of 20.2 before stock OSDs.
const OF_TENTACLE: &[(&str, &str)] = &[
    (
        "bucket_logging_bucket_acl_required bucket_logging_bucket_auth_type bucket_logging_copy_objects \
         bucket_logging_copy_objects_bucket bucket_logging_copy_objects_bucket_versioned bucket_logging_copy_objects_versioned \
         bucket_logging_delete_objects bucket_logging_delete_objects_versioned bucket_logging_get_objects \
         bucket_logging_get_objects_versioned bucket_logging_head_objects bucket_logging_head_objects_versioned \
         bucket_logging_mpu_copy bucket_logging_mpu_copy_versioned bucket_logging_mpu_s bucket_logging_mpu_versioned_s \
         bucket_logging_multi_delete bucket_logging_multi_delete_versioned bucket_logging_multiple_prefixes \
         bucket_logging_object_acl_required bucket_logging_partitioned_key bucket_logging_permission_change_s \
         bucket_logging_put_concurrency bucket_logging_put_objects bucket_logging_put_objects_versioned bucket_logging_simple_key \
         bucket_logging_single_prefix put_bucket_logging_account_s put_bucket_logging_policy_wildcard_objects \
         put_bucket_logging_tenant_s",
        "waits for logs that roll by an extension of boto3's that radosgw's own has; fails on stock 20.2 too",
    ),
    ("multipart_sse_c_get_part", "completes the upload without the key that 20.2 asks for there; fails on stock 20.2 too"),
];
