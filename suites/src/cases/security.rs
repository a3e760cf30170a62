//! Who may do what: keys, capabilities, modes of the wire.

use super::Case;
use crate::clients::Release::{self, Pacific, Reef, Tentacle};
use crate::cluster::Cluster;
use anyhow::{Result, ensure};

pub const CASES: &[Case] = &[
    Case { name: "keys_are_checked", needs: &[Pacific], run: keys },
    Case { name: "caps_are_enforced", needs: &[Pacific], run: caps },
    Case { name: "newer_keys_20.2", needs: &[Pacific, Tentacle], run: newer_keys },
    Case { name: "secure_mode_16.2", needs: &[Pacific], run: || secure(Pacific) },
    Case { name: "secure_mode_18.2", needs: &[Reef], run: || secure(Reef) },
    Case { name: "secure_mode_20.2", needs: &[Tentacle], run: || secure(Tentacle) },
];

/// Makes a user and gives the arguments by which a client is that user.
fn user(c: &Cluster, name: &str, caps: &str) -> Result<String> {
    let keyring = c.dir.join(format!("{name}.keyring"));
    c.must(Pacific, &format!("ceph auth get-or-create client.{name} {caps} -o {}", keyring.display()))?;
    Ok(format!("--id {name} --keyring {}", keyring.display()))
}

fn keys() -> Result<()> {
    let c = Cluster::start("keys", &[])?;
    c.must(Pacific, "ceph osd pool create p 8")?;
    let good = user(&c, "good", "mon 'allow r' osd 'allow rwx pool=p'")?;
    c.must(Pacific, &format!("rados {good} -p p create o"))?;
    // A key that no user has, a key that another has, a user that does not exist, a user without caps.
    let wrong = c.dir.join("wrong.keyring");
    std::fs::write(&wrong, "[client.good]\n\tkey = AQBAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAA==\n")?;
    let refused = |line: &str| -> Result<()> {
        let out = c.client(Pacific, line)?;
        ensure!(!out.ok(), "`{line}` went through");
        Ok(())
    };
    refused(&format!("rados --id good --keyring {} -p p ls --client_mount_timeout 3", wrong.display()))?;
    let key = c.must(Pacific, "ceph auth get-key client.good")?;
    std::fs::write(&wrong, format!("[client.admin]\n\tkey = {key}\n"))?;
    refused(&format!("rados --id admin --keyring {} -p p ls --client_mount_timeout 3", wrong.display()))?;
    std::fs::write(&wrong, format!("[client.nosuch]\n\tkey = {key}\n"))?;
    refused(&format!("rados --id nosuch --keyring {} -p p ls --client_mount_timeout 3", wrong.display()))?;
    // A user that was removed is out.
    c.must(Pacific, "ceph auth rm client.good")?;
    refused(&format!("rados {good} -p p ls --client_mount_timeout 3"))?;
    c.must(Pacific, "ceph -s")?;
    c.stop()
}

/// What stock answers, by exit code (see the errno in the client's text).
fn caps() -> Result<()> {
    let c = Cluster::start("caps", &[])?;
    for pool in ["t1", "t2", "rbd"] {
        c.must(Pacific, &format!("ceph osd pool create {pool} 8"))?;
    }
    c.must(Pacific, "rbd pool init rbd")?;
    c.must(Pacific, "rbd create --size 16M img")?;
    for (pool, ns) in [("t1", ""), ("t2", ""), ("t1", "a"), ("t1", "b")] {
        c.must(Pacific, &format!("rados -p {pool} -N '{ns}' put ok_o /etc/hostname"))?;
        c.must(Pacific, &format!("rados -p {pool} -N '{ns}' put other /etc/hostname"))?;
    }
    let reader = user(&c, "reader", "mon 'allow r' osd 'allow r pool=t1'")?;
    let spaced = user(&c, "spaced", "mon 'allow r' osd 'allow rw pool=t1 namespace=a'")?;
    let prefixed = user(&c, "prefixed", "mon 'allow r' osd 'allow rw object_prefix ok_'")?;
    let rbd = user(&c, "rbd", "mon 'profile rbd' osd 'profile rbd pool=rbd'")?;
    let rbd_ro = user(&c, "rbdro", "mon 'profile rbd' osd 'profile rbd-read-only pool=rbd'")?;
    let monly = user(&c, "monly", "mon 'allow r'")?;
    // (as whom, command, allowed)
    let get = |pool: &str, o: &str| format!("rados -p {pool} get {o} /dev/null");
    let put = |pool: &str, o: &str| format!("rados -p {pool} put {o} /etc/hostname");
    let rows: Vec<(&str, String, bool)> = vec![
        (&reader, get("t1", "ok_o"), true),
        (&reader, put("t1", "ok_o"), false),
        (&reader, get("t2", "ok_o"), false),
        (&reader, "rados -p t1 -N a get ok_o /dev/null".into(), true),
        (&reader, "rados -p t1 ls".into(), true),
        (&reader, "rados -p t1 rm ok_o".into(), false),
        (&spaced, "rados -p t1 -N a put x /etc/hostname".into(), true),
        (&spaced, "rados -p t1 -N b put x /etc/hostname".into(), false),
        (&spaced, put("t1", "x"), false),
        (&spaced, "rados -p t1 -N b get ok_o /dev/null".into(), false),
        (&prefixed, put("t1", "ok_o"), true),
        (&prefixed, put("t2", "ok_new"), true),
        (&prefixed, put("t1", "other"), false),
        (&prefixed, get("t1", "other"), false),
        (&rbd, "rbd info img".into(), true),
        (&rbd, "rbd bench --io-type write --io-size 4K --io-total 16K img".into(), true),
        (&rbd, get("t1", "ok_o"), false),
        (&rbd, "ceph osd blocklist add 192.168.9.9:0/1 10".into(), true),
        (&rbd, "ceph osd pool create nope 8".into(), false),
        (&rbd_ro, "rbd info img".into(), true),
        (&rbd_ro, "rbd export img - --no-progress".into(), true),
        (&rbd_ro, "rbd rm img --no-progress".into(), false),
        (&rbd_ro, "rbd create --size 1M img2".into(), false),
        (&monly, get("t1", "ok_o"), false),
        (&monly, "ceph osd dump".into(), true),
        (&monly, "ceph osd pool rm t1 t1 --yes-i-really-really-mean-it".into(), false),
        (&monly, "ceph auth ls".into(), false),
        (&monly, "ceph config-key get x".into(), false),
        (&monly, "ceph osd set noout".into(), false),
        (&monly, "ceph tell osd.0 config set debug_osd 1".into(), false),
    ];
    for (who, line, allowed) in rows {
        let (program, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let out = c.client(Pacific, &format!("{program} {who} {rest}"))?;
        ensure!(
            out.ok() == allowed,
            "`{line}` as `{who}` ended with {}, {}: {}",
            out.code,
            if allowed { "it is allowed" } else { "it is forbidden" },
            out.stderr
        );
    }
    let bad = c.client(Pacific, "ceph auth get-or-create client.bad osd 'allow nonsense'")?;
    ensure!(bad.code == 22, "capabilities that don't parse: {bad:?}");
    ensure!(!c.must(Pacific, "ceph auth ls")?.contains("client.bad"), "a user with capabilities that don't parse was stored");
    c.stop()
}

/// Keys of type `aes256k`: one user among others of `aes`, and a cluster that makes no others.
fn newer_keys() -> Result<()> {
    let write = |c: &Cluster, release: Release, who: &str, mode: &str| -> Result<()> {
        c.must(release, &format!("rados {who} --ms_client_mode {mode} --ms_mon_client_mode {mode} -p p bench 1 write -b 4096 -t 4"))?;
        c.must(release, &format!("rados {who} --ms_client_mode {mode} -p p setxattr o name value"))?;
        c.must(release, &format!("ceph {who} -s")).map(drop)
    };
    let make = |c: &Cluster, release: Release, name: &str, kind: &str| -> Result<String> {
        let keyring = c.dir.join(format!("{name}.keyring"));
        let caps = "mon 'allow r' osd 'allow rwx pool=p'";
        c.must(release, &format!("ceph auth get-or-create client.{name} {caps} --key-type {kind} -o {}", keyring.display()))?;
        let key = std::fs::read_to_string(&keyring)?;
        let head = if kind == "aes" { "key = AQ" } else { "key = Ag" };
        ensure!(key.contains(head), "a key of type {kind}: {key}");
        Ok(format!("--id {name} --keyring {}", keyring.display()))
    };
    let c = Cluster::start("newer-keys", &[])?;
    c.must(Pacific, "ceph osd pool create p 8")?;
    for (maker, name) in [(Tentacle, "new"), (Pacific, "newtoo")] {
        let who = make(&c, maker, name, "aes256k")?;
        write(&c, Tentacle, &who, "secure")?;
        write(&c, Tentacle, &who, "crc")?;
        // An older client does not know the type, and says so.
        ensure!(!c.client(Pacific, &format!("rados {who} -p p ls --client_mount_timeout 3"))?.ok(), "16.2 with a key of type aes256k");
    }
    c.must_fail(Tentacle, "ceph auth get-or-create client.odd mon 'allow r' --key-type nosuch", 22)?;
    let who = make(&c, Tentacle, "turned", "aes")?;
    write(&c, Pacific, &who, "crc")?;
    c.must(Tentacle, &format!("ceph auth rotate client.turned --key-type aes256k -o {}/turned.keyring", c.dir.display()))?;
    write(&c, Tentacle, &who, "crc")?;
    c.stop()?;

    let c = Cluster::start("newest-keys", &["--key-type", "aes256k"])?;
    c.must(Tentacle, "ceph osd pool create p 8")?;
    ensure!(!c.must(Tentacle, "ceph auth ls")?.contains("key: AQ"), "every key is of type aes256k");
    write(&c, Tentacle, "", "secure")?;
    // A client of before, with a key of before, at OSDs whose tickets are sealed with the newer type.
    let who = make(&c, Tentacle, "old", "aes")?;
    write(&c, Pacific, &who, "secure")?;
    write(&c, Pacific, &who, "crc")?;
    c.stop()
}

fn secure(release: Release) -> Result<()> {
    let c = Cluster::start(&format!("secure-{}", release.version()), &[])?;
    let modes = "--ms_client_mode secure --ms_service_mode secure --ms_cluster_mode secure --ms_mon_client_mode secure";
    c.must(release, &format!("ceph {modes} osd pool create p 8"))?;
    let data: Vec<u8> = (0..3_000_001_u32).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect();
    std::fs::write(c.dir.join("in"), &data)?;
    c.must(release, &format!("rados {modes} -p p put o {}/in", c.dir.display()))?;
    c.must(release, &format!("rados {modes} -p p get o {}/out", c.dir.display()))?;
    ensure!(std::fs::read(c.dir.join("out"))? == data, "secure mode changed the data");
    c.must(release, &format!("rados {modes} -p p bench 1 write -b 4096 -t 16 --no-cleanup"))?;
    c.must(release, &format!("rados {modes} -p p bench 1 seq -t 16"))?;
    // crc mode, as asked.
    let crc = "--ms_client_mode crc --ms_mon_client_mode crc";
    c.must(release, &format!("rados {crc} -p p get o {}/out", c.dir.display()))?;
    c.stop()?;
    demanded(release, &[])?;
    demanded(release, &["--processes"])
}

/// A cluster that demands encryption takes a client with Ceph's defaults, and at no daemon one that insists on crc.
fn demanded(release: Release, form: &[&str]) -> Result<()> {
    let mut args = vec!["--secure", "--osds", "2"];
    args.extend(form);
    let c = Cluster::start(&format!("demanded-{}-{}", release.version(), form.len()), &args)?;
    c.must(release, "ceph osd pool create p 8")?;
    c.must(release, "rados -p p bench 1 write -b 4096 -t 4 --no-cleanup")?;
    c.must(release, "ceph pg stat")?;
    for crc in ["--ms_mon_client_mode crc", "--ms_client_mode crc"] {
        let out = c.client(release, &format!("rados {crc} -p p create o --client_mount_timeout 3 --rados_osd_op_timeout 3"))?;
        ensure!(!out.ok(), "a client with {crc} was served: {out:?}");
    }
    let conf = std::fs::read_to_string(c.dir.join("ceph.conf"))?;
    ensure!(conf.contains("ms_service_mode = secure"), "ceph.conf says what is demanded: {conf}");
    c.stop()
}
