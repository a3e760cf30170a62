//! Upstream's s3-tests against a stock radosgw of 18.2 on our OSDs.
//!
//! The tests are a checkout that is given (`--s3-tests DIR`: repository `ceph/s3-tests`, branch `ceph-reef`); what they need of Python is installed
//! into a folder of its own. Which of them run is upstream's own choice for each of its runs. At the end everything is removed, and nothing may be left.

use super::gtest::Verdict;
use super::kept::{Files, names};
use super::program::Outcome;
use super::runs::Runs;
use super::server::Server;
use super::{Manner, Run};
use crate::clients::{CACHE, Release, reef_radosgw};
use crate::gateway::{Gateway, admin, objects_of_data};
use crate::run::{Output, quietly, run, until};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub const NAME: &str = "s3";

/// The suite of all tests, also of those that upstream's own runs leave out.
pub const WHOLE_NAME: &str = "s3-whole";

/// What upstream's own runs leave out (`qa/tasks/s3tests.py` of 18.2).
const SELECTION: &str = "not fails_on_rgw and not lifecycle_expiration and not test_of_sts and not webidentity_test and not fails_with_subdomain \
                         and not sse_s3";
/// Tests beyond that selection that fail, on a stock 18.2 cluster too: their names without `test_`, and why.
const FAIL_ON_STOCK: [(&str, &str); 4] = [
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

fn fails_on_stock(test: &str) -> Option<&'static str> {
    let name = test.strip_prefix("test_")?;
    FAIL_ON_STOCK.iter().find(|(names, _)| names.split(' ').any(|n| n == name)).map(|(_, why)| *why)
}

/// Its requirements, as they were when that branch was cut.
const PACKAGES: &[&str] = &[
    "PyYAML",
    "boto",
    "boto3<1.25",
    "botocore<1.28",
    "munch",
    "gevent",
    "isodate",
    "requests",
    "pytz",
    "httplib2",
    "lxml",
    "pytest<9",
    "pytest-timeout",
    "setuptools",
];
const LIMIT: Duration = Duration::from_secs(3600);
/// For one test; those of lifecycles sleep up to 70 s.
const TEST_S: u32 = 180;
/// Objects `test1/a` and `test1/b` of a test of lifecycles.
const LEFT_BY_LIFECYCLES: usize = 2;
const GONE: Duration = Duration::from_secs(60);

/// One user of the tests, as their sample configuration has it.
struct User {
    section: &'static str,
    tenant: &'static str,
    id: &'static str,
    name: &'static str,
    email: &'static str,
    access: &'static str,
    secret: &'static str,
    caps: &'static str,
}

const ALT: &str = "56789abcdef0123456789abcdef0123456789abcdef0123456789abcdef01234";
const TENANTED: &str = "9876543210abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const IAM: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

const USERS: [User; 4] = [
    User {
        section: "s3 main",
        tenant: "",
        id: "testid",
        name: "M. Tester",
        email: "tester@ceph.com",
        access: "0555b35654ad1656d804",
        secret: "h7GhxuBLTrlhVUyxSPUKUV8r/2EI4ngqJxD7iBdBYLhwluN30JaT3Q==",
        caps: "",
    },
    User {
        section: "s3 alt",
        tenant: "",
        id: ALT,
        name: "john.doe",
        email: "john.doe@example.com",
        access: "NOPQRSTUVWXYZABCDEFG",
        secret: "nopqrstuvwxyzabcdefghijklmnabcdefghijklm",
        caps: "",
    },
    User {
        section: "s3 tenant",
        tenant: "testx",
        id: TENANTED,
        name: "tenanteduser",
        email: "tenanteduser@example.com",
        access: "HIJKLMNOPQRSTUVWXYZA",
        secret: "opqrstuvwxyzabcdefghijklmnopqrstuvwxyzab",
        caps: "roles=*",
    },
    User {
        section: "iam",
        tenant: "",
        id: IAM,
        name: "youruseridhere",
        email: "s3@example.com",
        access: "ABCDEFGHIJKLMNOPQRST",
        secret: "abcdefghijklmnopqrstuvwxyzabcdefghijklmn",
        caps: "user-policy=*;roles=*",
    },
];

/// What upstream's runs set for their gateways.
const OPTIONS: &[&str] = &[
    "--rgw-crypt-require-ssl=false",
    "--rgw-crypt-s3-kms-backend=testing",
    "--rgw-crypt-s3-kms-encryption-keys=testkey-1=YmluCmJvb3N0CmJvb3N0LWJ1aWxkCmNlcGguY29uZgo= testkey-2=aWIKTWFrZWZpbGUKbWFuCm91dApzcmMKVGVzdGluZwo=",
    "--rgw-s3-auth-use-sts=true",
    "--rgw-sts-key=abcdefghijklmnop",
    "--rgw-lc-debug-interval=10",
    "--rgw-enable-static-website=true",
    "--rgw-max-attr-name-len=64",
    "--rgw-max-attrs-num-in-req=90",
    "--rgw-max-attr-size=16384",
];

/// Users, and storage classes of which one compresses, as the tests expect them.
fn prepare(conf: &Path) -> Result<()> {
    for u in &USERS {
        let tenant = if u.tenant.is_empty() { String::new() } else { format!("--tenant={} ", u.tenant) };
        let who = format!("{tenant}--uid={}", u.id);
        admin(
            conf,
            &format!(
                "user create {who} '--display-name={}' --email={} --access-key={} --secret-key={}",
                u.name, u.email, u.access, u.secret
            ),
        )?;
        if !u.caps.is_empty() {
            admin(conf, &format!("caps add {who} --caps={}", u.caps))?;
        }
    }
    for class in ["LUKEWARM", "FROZEN"] {
        let which = format!("--placement-id default-placement --storage-class {class}");
        admin(conf, &format!("zonegroup placement add --rgw-zonegroup default {which}"))?;
        admin(conf, &format!("zone placement add --rgw-zone default {which} --data-pool default.rgw.buckets.data --compression zlib"))?;
    }
    Ok(())
}

/// The tests' configuration.
fn config(port: u16) -> String {
    let mut text = format!(
        "[DEFAULT]\nhost = localhost\nport = {port}\nis_secure = False\nssl_verify = False\n[fixtures]\nbucket prefix = humboldt-{{random}}-\n"
    );
    for u in &USERS {
        let (id, name) = match u.tenant {
            "" => (u.id.to_string(), u.name.to_string()),
            tenant => (u.id.to_string(), format!("{tenant}${}", u.name)),
        };
        text += &format!(
            "[{}]\ndisplay_name = {name}\nuser_id = {id}\nemail = {}\naccess_key = {}\nsecret_key = {}\n",
            u.section, u.email, u.access, u.secret
        );
        if u.section == "s3 main" {
            text += "api_name = default\nkms_keyid = testkey-1\nstorage_classes = LUKEWARM, FROZEN\nlc_debug_interval = 10\n";
        }
    }
    // Read at the start by all; used by tests that are not selected.
    text + "[webidentity]\ntoken=x\naud=x\nsub=x\nazp=x\nuser_token=x\nthumbprint=x\nKC_REALM=x\n"
}

/// Python with what the tests need.
fn python() -> Result<PathBuf> {
    let venv = Path::new(CACHE).join("s3-tests");
    let pytest = venv.join("bin/pytest");
    if !pytest.exists() {
        println!("installing what s3-tests need");
        quietly(Command::new("python3").args(["-m", "venv"]).arg(&venv)).context("python3 -m venv (package python3-venv)")?;
        quietly(Command::new(venv.join("bin/pip")).args(["install", "-q"]).args(PACKAGES))?;
    }
    Ok(pytest)
}

/// How each test that ran ended, by what pytest said of it; and, of those that failed, why.
fn read(out: &str) -> Vec<(String, Verdict)> {
    let name = |path: &str| path.rsplit("::").next().unwrap_or(path).to_string();
    let mut found: Vec<(String, Verdict)> = Vec::new();
    for line in out.lines() {
        if let Some(rest) = ["FAILED ", "ERROR "].iter().find_map(|w| line.strip_prefix(w)).filter(|r| r.contains("::")) {
            // The summary at the end has the reasons.
            let (path, why) = rest.split_once(" - ").unwrap_or((rest, "failed"));
            match found.iter_mut().find(|(n, _)| *n == name(path)) {
                Some((_, verdict)) => *verdict = Verdict::Failed(why.into()),
                None => found.push((name(path), Verdict::Failed(why.into()))),
            }
            continue;
        }
        let mut words = line.split(' ');
        let (Some(path), Some(word)) = (words.next().filter(|p| p.contains(".py::")), words.next()) else { continue };
        let verdict = match word {
            "PASSED" => Verdict::Passed,
            "SKIPPED" => Verdict::Skipped,
            "FAILED" | "ERROR" => Verdict::Failed("failed".into()),
            _ => continue,
        };
        found.push((name(path), verdict));
    }
    found
}

/// With `whole`, all tests that there are.
fn tests(server: &Server, gateway: &Gateway, checkout: &Path, whole: bool) -> Result<Outcome> {
    let mut runs = Runs::new("s3-tests");
    let pytest = python()?;
    let conf = server.dir().join("s3tests.conf");
    std::fs::write(&conf, config(gateway.port))?;
    let mut cmd = Command::new(pytest);
    cmd.current_dir(checkout).env("S3TEST_CONF", &conf).env("PYTHONDONTWRITEBYTECODE", "1");
    cmd.args(["-v", "-rfE", "-p", "no:warnings", "-p", "no:cacheprovider", "s3tests_boto3"]);
    if !whole {
        cmd.args(["-m", SELECTION]);
    }
    cmd.arg(format!("--timeout={TEST_S}"));
    let out = run(&mut cmd, LIMIT)?;
    let found = read(&out.stdout);
    ensure!(found.len() > 1, "s3-tests ran nothing; pytest ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
    ensure!(out.code < 2, "pytest ended with {}:\n{}{}", out.code, last(&out), out.stderr);
    if whole {
        let known = found.iter().filter_map(|(name, _)| Some((name.clone(), fails_on_stock(name)?)));
        runs.outcome.expected = known.collect();
        runs.outcome.must_fail = runs.outcome.expected.keys().cloned().collect();
    }
    if found.iter().any(|(name, verdict)| matches!(verdict, Verdict::Failed(_)) && !runs.outcome.expected.contains_key(name)) {
        println!("    s3-tests failed; kept in {}", names(&Files::new("s3-tests")?.keep("pytest", &out)?));
    }
    runs.outcome.cases = found.into_iter().collect();
    Ok(runs.end())
}

fn last(out: &Output) -> String {
    let lines: Vec<&str> = out.stdout.lines().rev().take(30).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// Removes what the tests left, and looks whether it is gone.
fn nothing_left(conf: &Path, whole: bool) -> Result<Outcome> {
    let mut runs = Runs::new("radosgw-admin");
    let started = Instant::now();
    let buckets: Vec<String> = serde_json::from_str(&admin(conf, "metadata list bucket")?).context("metadata list bucket")?;
    for bucket in &buckets {
        // `TENANT/BUCKET` of those that belong to one.
        let (tenant, name) = bucket.split_once('/').map_or((String::new(), bucket.as_str()), |(t, b)| (format!("--tenant={t} "), b));
        admin(conf, &format!("bucket rm {tenant}--bucket={name} --purge-objects"))?;
    }
    let mut left = 0;
    until(GONE, || {
        let gone = admin(conf, "gc process --include-all").and_then(|_| objects_of_data(conf));
        left = gone.unwrap_or(usize::MAX);
        left == 0
    });
    let against = (left > 0).then(|| format!("{left} objects are left in the data pool"));
    let nothing = Output { code: 0, stdout: String::new(), stderr: String::new() };
    let case = "everything removed, gc process --include-all: the data pool is empty".to_string();
    if whole && left == LEFT_BY_LIFECYCLES {
        runs.outcome.expected.insert(case.clone(), "a test of lifecycles leaves two objects; on stock 18.2 too");
    }
    runs.add(case, started.elapsed(), against, &nothing);
    Ok(runs.end())
}

/// All of it against one cluster.
pub fn s3(manner: Manner, checkout: &Path, whole: bool) -> Result<Run> {
    ensure!(
        checkout.join("s3tests_boto3").is_dir(),
        "{} is no checkout of ceph/s3-tests (branch ceph-reef): it has no s3tests_boto3",
        checkout.display()
    );
    reef_radosgw()?;
    let started = Instant::now();
    let mut server = Server::start(&format!("conformance-{NAME}-{}", std::process::id()), manner, false)?;
    let gateway = Gateway::start(server.conf(), OPTIONS)?;
    prepare(server.conf())?;
    // It has read its zone before the storage classes came.
    let gateway = gateway.kill_and_restart()?;
    let outcomes = vec![tests(&server, &gateway, checkout, whole)?, nothing_left(server.conf(), whole)?];
    server.stands("s3-tests")?;
    drop(gateway);
    server.stop()?;
    Ok(Run { section: manner.section(if whole { WHOLE_NAME } else { NAME }, Release::Reef), outcomes, took: started.elapsed() })
}

#[cfg(test)]
mod tests_of_reading {
    use super::*;

    #[test]
    fn what_pytest_says_is_read() {
        let out = "\
s3tests_boto3/functional/test_s3.py::test_a PASSED                       [  0%]
s3tests_boto3/functional/test_s3.py::test_b FAILED                       [  1%]
s3tests_boto3/functional/test_iam.py::test_c SKIPPED (no cloud)          [  2%]
s3tests_boto3/functional/test_iam.py::test_d[x-1] PASSED                 [  3%]
=========================== short test summary info ============================
FAILED s3tests_boto3/functional/test_s3.py::test_b - botocore.exceptions.ClientError: 500
ERROR s3tests_boto3/functional/test_s3.py::test_e - RuntimeError: no
1 failed, 2 passed, 1 skipped, 107 deselected in 12.3s
";
        let found = read(out);
        let of = |name: &str| found.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        assert_eq!(found.len(), 5);
        assert_eq!(of("test_a"), Some(Verdict::Passed));
        assert_eq!(of("test_b"), Some(Verdict::Failed("botocore.exceptions.ClientError: 500".into())));
        assert_eq!(of("test_c"), Some(Verdict::Skipped));
        assert_eq!(of("test_d[x-1]"), Some(Verdict::Passed));
        assert_eq!(of("test_e"), Some(Verdict::Failed("RuntimeError: no".into())));
    }
}
