//! Upstream's s3-tests against a stock radosgw on our OSDs.
//!
//! The tests are a checkout that is given (`--s3-tests DIR`: repository `ceph/s3-tests`, branch `ceph-reef`, for 20.2 `ceph-tentacle`); what they need
//! of Python is installed into a folder of its own. Which of them run is upstream's own choice for each of its runs. At the end everything is removed, and nothing may be left.

use super::gtest::Verdict;
use super::program::Outcome;
use super::runs::Runs;
use super::s3_known::{fails_on_stock, is_log};
use super::s3_runs::Tests;
use super::server::Server;
use super::{Manner, Run, settle};
use crate::clients::{CACHE, Release, radosgw};
use crate::gateway::{Gateway, admin_of, names_of_data};
use crate::run::{Output, quietly, until};
use crate::stock::free_ports;
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
/// What differs between the branches.
struct Branch {
    name: &'static str,
    /// The folder of its tests.
    tests: &'static str,
    /// Where what it needs of Python is installed.
    venv: &'static str,
    /// Its requirements, as they were when it was cut.
    packages: &'static [&'static str],
    /// What it reads of the configuration beside what both read.
    config: &'static str,
}

const OF_REEF: Branch =
    Branch { name: "ceph-reef", tests: "s3tests_boto3", venv: "s3-tests", packages: &["boto", "boto3<1.25", "botocore<1.28"], config: "" };
const OF_TENTACLE: Branch = Branch {
    name: "ceph-tentacle",
    tests: "s3tests",
    venv: "s3-tests-20.2",
    packages: &["boto3", "botocore"],
    config: "[iam root]\naccess_key = AAAAAAAAAAAAAAAAAAaa\nsecret_key = aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n\
             user_id = RGW11111111111111111\nemail = account1@ceph.com\n\
             [iam alt root]\naccess_key = BBBBBBBBBBBBBBBBBBbb\nsecret_key = bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n\
             user_id = RGW22222222222222222\nemail = account2@ceph.com\n",
};
/// Accounts of 20.2 and their root users, as that configuration has them: id, email, access key, secret key.
const ACCOUNTS: [[&str; 4]; 2] = [
    ["RGW11111111111111111", "account1@ceph.com", "AAAAAAAAAAAAAAAAAAaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"],
    ["RGW22222222222222222", "account2@ceph.com", "BBBBBBBBBBBBBBBBBBbb", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"],
];
/// Needed by each branch.
const PACKAGES: &[&str] =
    &["PyYAML", "munch", "gevent", "isodate", "requests", "pytz", "httplib2", "lxml", "pytest<9", "pytest-timeout", "setuptools"];

fn branch(release: Release) -> &'static Branch {
    if release == Release::Tentacle { &OF_TENTACLE } else { &OF_REEF }
}

/// Objects `test1/a` and `test1/b` of a test of lifecycles.
const LEFT_BY_LIFECYCLES: usize = 2;
/// Tools that remove buckets at a time.
const REMOVERS: usize = 3;
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
fn prepare(release: Release, conf: &Path) -> Result<()> {
    let admin = |line: &str| admin_of(release, conf, line);
    for u in &USERS {
        let tenant = if u.tenant.is_empty() { String::new() } else { format!("--tenant={} ", u.tenant) };
        let who = format!("{tenant}--uid={}", u.id);
        admin(&format!(
            "user create {who} '--display-name={}' --email={} --access-key={} --secret-key={}",
            u.name, u.email, u.access, u.secret
        ))?;
        if !u.caps.is_empty() {
            admin(&format!("caps add {who} --caps={}", u.caps))?;
        }
    }
    for class in ["LUKEWARM", "FROZEN"] {
        let which = format!("--placement-id default-placement --storage-class {class}");
        admin(&format!("zonegroup placement add --rgw-zonegroup default {which}"))?;
        admin(&format!("zone placement add --rgw-zone default {which} --data-pool default.rgw.buckets.data --compression zlib"))?;
    }
    for [id, email, access, secret] in ACCOUNTS.iter().filter(|_| release == Release::Tentacle) {
        admin(&format!("account create --account-id={id} --account-name={id} --email={email}"))?;
        admin(&format!(
            "user create --account-id={id} --account-root --uid=root-{id} --display-name=root --access-key={access} --secret-key={secret}"
        ))?;
    }
    Ok(())
}

/// The tests' configuration.
fn config(branch: &Branch, port: u16) -> String {
    let mut text = format!(
        "[DEFAULT]\nhost = localhost\nport = {port}\nis_secure = False\nssl_verify = False\n[fixtures]\nbucket prefix = humboldt-{{random}}-\n"
    );
    text += branch.config;
    for u in &USERS {
        let (id, name) = match u.tenant {
            "" => (u.id.to_string(), u.name.to_string()),
            tenant => (u.id.to_string(), format!("{tenant}${}", u.name)),
        };
        text += &format!(
            "[{}]\ndisplay_name = {name}\nuser_id = {id}\ntenant = {}\nemail = {}\naccess_key = {}\nsecret_key = {}\n",
            u.section, u.tenant, u.email, u.access, u.secret
        );
        if u.section == "s3 main" {
            text += "api_name = default\nkms_keyid = testkey-1\nstorage_classes = LUKEWARM, FROZEN\nlc_debug_interval = 10\n";
        }
    }
    // Read at the start by all; used by tests that are not selected.
    text + "[webidentity]\ntoken=x\naud=x\nsub=x\nazp=x\nuser_token=x\nthumbprint=x\nKC_REALM=x\n"
}

/// Python with what the tests need.
fn python(branch: &Branch) -> Result<PathBuf> {
    let venv = Path::new(CACHE).join(branch.venv);
    let pytest = venv.join("bin/pytest");
    if !pytest.exists() {
        println!("installing what s3-tests need");
        quietly(Command::new("python3").args(["-m", "venv"]).arg(&venv)).context("python3 -m venv (package python3-venv)")?;
        quietly(Command::new(venv.join("bin/pip")).args(["install", "-q"]).args(PACKAGES).args(branch.packages))?;
    }
    Ok(pytest)
}

/// With `whole`, all tests that there are.
fn tests(release: Release, server: &Server, gateway: &Gateway, checkout: &Path, whole: bool) -> Result<Outcome> {
    let (mut runs, branch) = (Runs::new("s3-tests"), branch(release));
    let pytest = python(branch)?;
    let conf = server.dir().join("s3tests.conf");
    std::fs::write(&conf, config(branch, gateway.port))?;
    let select: &[&str] = if whole { &[] } else { &["-m", SELECTION] };
    let all = Tests { pytest: &pytest, checkout, conf: &conf, folder: branch.tests, select };
    let known = |name: &str| fails_on_stock(release, name).filter(|_| whole || release == Release::Tentacle);
    let (mut found, kept) = all.run(|name| known(name).is_some())?;
    runs.outcome.expected = found.iter().filter_map(|(name, _)| Some((name.clone(), known(name)?))).collect();
    runs.outcome.must_fail = runs.outcome.expected.keys().cloned().collect();
    let failed = |(name, verdict): &(String, Verdict)| matches!(verdict, Verdict::Failed(_)).then(|| name.clone());
    let failed: Vec<String> = found.iter().filter_map(failed).filter(|name| known(name).is_none()).collect();
    for name in all.alone(&failed)? {
        let verdict = found.iter_mut().find(|(ended, _)| *ended == name).map(|(_, verdict)| std::mem::replace(verdict, Verdict::Passed));
        let Some(Verdict::Failed(complaint)) = verdict else { continue };
        settle::note("s3-tests", &name, &complaint, &kept);
        runs.outcome.unsettled.insert(name, complaint);
    }
    runs.outcome.cases = found.into_iter().collect();
    Ok(runs.end())
}

/// Removes what the tests left, and looks whether it is gone.
fn nothing_left(release: Release, conf: &Path, whole: bool) -> Result<Outcome> {
    let mut runs = Runs::new("radosgw-admin");
    let admin = |line: &str| admin_of(release, conf, line);
    let started = Instant::now();
    let buckets: Vec<String> = serde_json::from_str(&admin("metadata list bucket")?).context("metadata list bucket")?;
    println!("    {} buckets to remove", buckets.len());
    let remove = |bucket: &String| {
        // `TENANT/BUCKET` of those that belong to one.
        let (tenant, name) = bucket.split_once('/').map_or((String::new(), bucket.as_str()), |(t, b)| (format!("--tenant={t} "), b));
        admin(&format!("bucket rm {tenant}--bucket={name} --purge-objects")).map(drop)
    };
    // A tool's start takes longer than its work.
    let share = buckets.len().div_ceil(REMOVERS).max(1);
    std::thread::scope(|scope| {
        let removing: Vec<_> = buckets.chunks(share).map(|some| scope.spawn(|| some.iter().try_for_each(remove))).collect();
        removing.into_iter().try_for_each(|one| one.join().expect("it returns its errors"))
    })?;
    let mut last = Ok(Vec::new());
    until(GONE, || {
        last = admin("gc process --include-all").and_then(|_| names_of_data(conf));
        if let Ok(names) = &mut last {
            names.retain(|name| release != Release::Tentacle || !is_log(name));
        }
        last.as_ref().is_ok_and(Vec::is_empty)
    });
    let names = last?;
    let left = names.len();
    let some = || names.iter().take(3).map(|name| name.trim()).collect::<Vec<_>>().join(", ");
    let against = (left > 0).then(|| format!("{left} objects are left in the data pool, of them {}", some()));
    let nothing = Output { code: 0, stdout: String::new(), stderr: String::new() };
    let case = "everything removed, gc process --include-all: the data pool is empty".to_string();
    if whole && left == LEFT_BY_LIFECYCLES {
        runs.outcome.expected.insert(case.clone(), "a test of lifecycles leaves two objects; on stock 18.2 too");
    }
    runs.add(case, started.elapsed(), against, &nothing);
    Ok(runs.end())
}

/// All of it against one cluster.
pub fn s3(release: Release, manner: Manner, checkout: &Path, whole: bool) -> Result<Run> {
    let branch = branch(release);
    ensure!(
        checkout.join(branch.tests).is_dir(),
        "{} is no checkout of ceph/s3-tests (branch {}): it has no {}",
        checkout.display(),
        branch.name,
        branch.tests
    );
    radosgw(release)?;
    let started = Instant::now();
    let mut server = Server::start(&format!("conformance-{NAME}-{}", std::process::id()), manner, None)?;
    let [port] = free_ports()?;
    let gateway = Gateway::start_of(release, server.conf(), port, OPTIONS)?;
    prepare(release, server.conf())?;
    // It has read its zone before the storage classes came.
    let gateway = gateway.kill_and_restart()?;
    let outcomes = vec![tests(release, &server, &gateway, checkout, whole)?, nothing_left(release, server.conf(), whole)?];
    server.stands("s3-tests")?;
    drop(gateway);
    server.stop()?;
    Ok(Run { section: manner.section(if whole { WHOLE_NAME } else { NAME }, release), outcomes, took: started.elapsed() })
}
