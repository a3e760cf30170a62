//! Wrong ways to call the program: each ends with an error that names the next step.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A folder for this test, and a cluster in it.
struct World {
    dir: PathBuf,
    up: Child,
    port: String,
}

impl World {
    fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("humboldt-wrong-ways-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let mut up = humboldt(&dir, "up --dir d --port 0 --size 64M").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(up.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("ready in"), "{line}");
        let port = line.split("127.0.0.1:").nth(1).unwrap().split(',').next().unwrap().to_string();
        for (name, text) in [
            ("junk", "no export\n"),
            ("small", ""),
            ("names.conf", "[global]\nmon host = ceph-a.example\nfsid = 5b27a4ab-6299-4c38-85fd-bc2212d51bd9\n"),
            ("devnull", ""),
            ("bad.conf", "[global\n"),
            ("study.toml", "title = \"half a study\"\n"),
            ("nomon.conf", "[global]\nfsid = 5b27a4ab-6299-4c38-85fd-bc2212d51bd9\n"),
            ("dead.conf", "[global]\nmon host = [v2:127.0.0.1:1]\nfsid = 5b27a4ab-6299-4c38-85fd-bc2212d51bd9\n"),
        ] {
            std::fs::write(dir.join(name), text).unwrap();
        }
        std::fs::File::create(dir.join("large")).and_then(|file| file.set_len(2 << 30)).unwrap();
        Self { dir, up, port }
    }
    /// What it says, on standard error; it must fail.
    fn says(&self, line: &str) -> String {
        let out = humboldt(&self.dir, &line.replace("PORT", &self.port)).stdout(Stdio::piped()).output().unwrap();
        assert!(!out.status.success(), "`{line}` succeeds");
        String::from_utf8(out.stderr).unwrap()
    }
    fn stop(&mut self) {
        self.up.kill().unwrap();
        self.up.wait().unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.up.kill();
        let _ = self.up.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn humboldt(dir: &Path, line: &str) -> Command {
    let mut cmd = Command::new(env!("CARGO_BIN_EXE_humboldt"));
    cmd.args(line.split(' ')).current_dir(dir).env_remove("CEPH_CONF").stdin(Stdio::null()).stderr(Stdio::piped());
    cmd
}

/// A command line, and what its error must name: the next step.
const BESIDE_A_CLUSTER: &[(&str, &str)] = &[
    ("up --dir d", "stop that one, or give another --dir"),
    ("up --dir e --port PORT", "give another --port"),
    ("up --dir e --port PORT --processes", "give another --port"),
    ("up --dir e --port 0 --http 127.0.0.1:PORT", "give another --http"),
    ("up --dir e --port 0 --health 127.0.0.1:PORT", "give another --health"),
    ("mon --dir e --port PORT", "give another --port"),
    ("up --dir e --port 0 --s3 --bucket No", "a bucket's name has"),
    ("up --dir e --port 0 --s3 --s3-user user:short", "printable characters"),
    ("up --dir e --port 0 --s3 --s3-cert junk --s3-key junk", "give a file in PEM"),
    ("up --dir e --port 0 --s3 --s3-cert none.pem --s3-key junk", "--s3-cert none.pem"),
    ("up --dir e --port 0 --listen 192.0.2.9", "give one with --listen"),
    ("up --dir e --port 0 --listen 0.0.0.0 --auth none", "--allow-insecure-network"),
    ("up --dir e --port 0 --listen 0.0.0.0 --auth none --processes", "--allow-insecure-network"),
    ("mon --dir e --port 0 --listen 192.0.2.9 --auth none", "--auth cephx"),
    ("up --dir e --port 0 --auth none --secure", "--secure encrypts with the keys of cephx"),
    ("up --dir e --port 0 --auth none --secure --processes", "--secure encrypts with the keys of cephx"),
    ("up --dir e --port 0 --data junk --data ./junk", "name it once, with --osds-per-device"),
    ("up --dir e --port 0 --data f --data ./g", "are the same device"),
    ("up --dir e --port 0 --osds-per-device 2", "--data"),
    ("up --dir e --port 0 --data . --osds-per-device 0", "a number from 1 to 64, or auto"),
    ("up --dir e --port 0 --data /dev/no-such-device --osds-per-device 2", "attach the device, or leave it out"),
    ("up --dir e --port 0 --data no/such --osds-per-device 2", "mount or make it first"),
    ("up --dir e --port 0 --data small --osds-per-device 2", "name a larger device"),
    ("up --dir e --port 0 --data large --osds-per-device 9", "give --osds-per-device 8 or less"),
    ("up --dir e --port 0 --data large --osds-per-device 2 --osds 3", "leave --osds out"),
    ("up --dir d --data large --osds-per-device 2 --port 0", "name those that it has, too"),
    ("up --dir e --port 0 --http 0.0.0.0:0 --http-token fifteen-letters", "at least 16 characters"),
    ("up --dir e --osds 0", "1..=64"),
    ("up --dir e --size 5X", "K, M, G or T"),
    ("up --dir e --memory much", "K, M, G or T"),
    ("up --dir e --memory-limit lots", "K, M, G or T"),
    ("up --dir e --port 0 --memory-limit 64M", "give 80M or more"),
    ("up --dir e --port 0 --osds 3 --memory-limit 100M --processes", "give 272M or more"),
    ("up --dir e --port 0 --memory-limit 512M --memory 1G", "or a higher limit"),
    ("osd --id 3 --conf dead.conf --osd-data x3 --store mem --memory-limit 10M", "give 80M or more"),
    ("up --dir e --port 0 --store mem --size 1G", "start without --store mem"),
    ("up --dir e --port 0 --store mem --memory 1K", "16 MiB or more"),
    ("up --dir e --port 0 --osds 2 --data devnull", "start fewer OSDs"),
    ("up --dir e --auth maybe", "possible values: cephx, none"),
    ("bench write -c /none", "give the cluster's ceph.conf with -c"),
    ("bench write -c bad.conf", "bad.conf: ceph.conf line 1"),
    ("bench write -c d/ceph.conf -p nopool", "ceph osd pool create nopool"),
    ("bench read -c d/ceph.conf", "possible values: write, seq, rand"),
    ("bench write -c d/ceph.conf -b 0", "give --block and --depth above 0"),
    ("bench write -c d/ceph.conf -n client.nobody", "ceph auth get client.nobody"),
    ("osd --id 3", "give --conf"),
    ("osd --id 3 --conf nomon.conf", "mon host = [v2:"),
    ("osd --id 3 --conf dead.conf --osd-data x3", "make it with --mkfs"),
    ("osd --id 3 --conf dead.conf --osd-data x3 --store mem", "give --keyring"),
    ("osd --id 0 --conf d/ceph.conf", "name the right one with --osd-data"),
    ("osd --id 0 --conf d/ceph.conf --register --osd-data gone", "name the right one with --osd-data"),
    ("osd replace 7 --dir d", "`humboldt up --osds N` makes more"),
    ("osd replace 0 --dir nowhere", "give the cluster's folder with --dir"),
    ("osd", "--id"),
    ("osd --id 3 --conf dead.conf --mkfs --osd-uuid nope --osd-data x3", "uuidgen"),
    ("store --dir d/osd.0 stat", "stop the OSD"),
    ("store --dir nowhere stat", "such as humboldt-data/osd.0"),
    ("store stat", "--dir <DIR>"),
    ("restore-mon --dir nowhere", "give the cluster's folder with --dir"),
    ("frobnicate", "--help"),
    ("up --dir junk --port 0", "a place for a folder is wanted"),
    ("up --dir f --port 0 --size 0", "give a larger size"),
    ("up --dir g --port 0 --data nowhere/x", "a file in a folder that is there"),
    ("up --dir g --port 0 --data d", "name a block device, or another folder"),
    ("mon --dir d", "stop that one, or give another --dir"),
    ("bench write -c names.conf", "mon host = [v2:"),
    ("bench write -c d/ceph.conf -b 4X", "K, M, G or T"),
    ("ceph -c /none -s", "give the cluster's ceph.conf with -c"),
    ("ceph -c d/ceph.conf -n client.nobody -s", "ceph auth get client.nobody"),
    ("rados -c d/ceph.conf -n client.nobody lspools", "ceph auth get client.nobody"),
    ("rados -c d/ceph.conf -p p bench x write", "bench SECONDS write|seq|rand"),
    ("rados -c d/ceph.conf -p p bench 1 write", "ceph osd pool create p"),
    ("rados -c d/ceph.conf -p nopool ls", "humboldt ceph osd pool create nopool 32"),
    ("rados -c d/ceph.conf ls", "humboldt rados lspools"),
    ("rados -c d/ceph.conf -p p put o x", "osd pool create p 32"),
    ("rados -c d/ceph.conf put o x", "name a pool with -p"),
    ("rados -c d/ceph.conf -k none.keyring lspools", "no key for client.admin in none.keyring"),
    ("rados -c dead.conf --connect-timeout 4 lspools", "give the ceph.conf of one that runs"),
    ("ceph -c dead.conf --connect-timeout 4 -s", "waiting for the monitors at 127.0.0.1:1"),
    ("ceph -c d/ceph.conf tell osd.9 version", "`ceph osd tree` lists"),
    ("ceph -c d/ceph.conf tell osd.x version", "name one as osd.0"),
    ("ceph -c d/ceph.conf tell mon.z version", "`ceph mon dump` lists"),
    ("ceph -c d/ceph.conf tell 9.0 query", "`ceph pg ls` lists"),
    ("ceph -c d/ceph.conf osd pool create ec 8 8 erasure", "Error ENOTSUP: pools with erasure codes"),
    ("ceph -c d/ceph.conf osd pool get nopool size", "`ceph osd pool ls` names"),
    ("ceph -c d/ceph.conf config set osd no_such_option 1", "`ceph config ls` lists"),
    ("ceph -c d/ceph.conf config set osd osd_max_backfills many", "`ceph config help OPTION`"),
    ("ceph -c d/ceph.conf auth get client.nobody", "`ceph auth ls` lists"),
    ("ceph -c d/ceph.conf osd find 9", "`ceph osd tree` lists"),
    ("ceph -c d/ceph.conf osd frobnicate", "closest matches"),
    ("ceph -c d/ceph.conf daemon osd.7 version", "give its socket's path"),
    ("ceph -c d/ceph.conf -f csv -s", "choose from json"),
    ("lab check study.toml", "humboldt lab show depths"),
    ("lab check nowhere.toml", "the studies are"),
    ("lab show nosuch", "the studies are"),
    ("lab report nowhere", "humboldt lab run --out"),
    ("lab plan nosuch", "the studies are"),
];

const BESIDE_A_STOPPED_ONE: &[(&str, &str)] = &[
    ("osd replace 0 --dir d", "start it first"),
    ("up --dir d --port 0 --auth none", "start it with --auth cephx"),
    ("up --dir d --port 0 --data /dev/null", "start without --data"),
    ("up --dir d --port 0 --store mem", "start without --store"),
    ("store --dir d/osd.0 dump nothing", "humboldt store list"),
    ("store --dir d/osd.0 grow --size 1M", "a store becomes larger only"),
    ("store --dir d/osd.0 import junk", "export"),
    ("store --dir d/osd.0 import cut", "nothing was imported"),
    ("store --dir d/osd.0 list nothing", "--help"),
    ("store --dir d/osd.0 log 9.0", "`list` shows collections"),
    ("store --dir d/osd.0 export nowhere/x", "make it first"),
    ("store --dir d/osd.0 export junk", "give another name"),
    ("restore-mon --dir d", "nothing is to be restored"),
];

#[test]
fn an_error_names_the_next_step() {
    let mut world = World::new();
    for (line, next) in BESIDE_A_CLUSTER {
        let said = world.says(line);
        assert!(said.contains(next), "`humboldt {line}` says\n{said}and not: {next}");
    }
    for made in ["nowhere", "e", "f", "g", "x3"] {
        assert!(!world.dir.join(made).exists(), "`{made}` was made, and no command that named it succeeded");
    }
    // The OSD that runs was not replaced by one that was started by mistake.
    let map = humboldt(&world.dir, "ceph -c d/ceph.conf health").stdout(Stdio::piped()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&map.stdout).trim(), "HEALTH_OK");
    world.stop();
    let export = humboldt(&world.dir, "store --dir d/osd.0 export whole").output().unwrap();
    assert!(export.status.success(), "{export:?}");
    let whole = std::fs::read(world.dir.join("whole")).unwrap();
    std::fs::write(world.dir.join("cut"), &whole[..whole.len() - 5]).unwrap();
    for (line, next) in BESIDE_A_STOPPED_ONE {
        let said = world.says(line);
        assert!(said.contains(next), "`humboldt {line}` says\n{said}and not: {next}");
    }
    // A cause is said once.
    let said = world.says("store --dir d/osd.0 import none");
    assert_eq!(said.matches("No such file").count(), 1, "{said}");
}
