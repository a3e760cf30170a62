//! The guide's page of options is written from the table of what is heeded.

use options::{HEEDED, find};
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
# Configuration

This page is written from the code (`crates/options/src/heeded.rs`): it has every option that Humboldt heeds. Names, types and defaults are those of Ceph 18.2
unless a row says otherwise. A new cluster of `humboldt up`, which is one machine, sets some of them ([below](#what-a-new-cluster-sets)).

## Where options are set

In the cluster, for daemons and clients of all machines:

```console,run
$ humboldt up &
ready in 0.17 s: monitor at 127.0.0.1:3300, 1 OSD on disk, auth cephx; try: ceph -c humboldt-data/ceph.conf -s
page: http://127.0.0.1:9283/; metrics: http://127.0.0.1:9283/metrics
$ export CEPH_CONF=$PWD/humboldt-data/ceph.conf
$ ceph config set osd osd_op_complaint_time 10
$ ceph config get osd.0 osd_op_complaint_time
10.000000
$ ceph config set osd bluestore_cache_size 1G
bluestore_cache_size: Not heeded by Humboldt: it is kept and handed out, and changes nothing in Humboldt's own daemons.
$ ceph config help osd_memory_target
osd_memory_target - Heeded by osd. Bounds the OSD's memory: the block store's caches give way to stay below it.
  (size, basic)
  Default: 4294967296
  Can update at runtime: true
```

`global`, a kind of daemon (`osd`), one daemon (`osd.0`), and masks (`osd/class:ssd`, `osd/host:a`) work as in Ceph; the narrowest wins. `ceph tell osd.0 config set` changes
one running daemon until it ends. `ceph config dump` shows what was set, `ceph tell osd.0 config diff` what one daemon goes by.

In `ceph.conf`, for what must be known before a monitor can be asked, and for one machine: sections `[global]`, `[osd]`, `[osd.0]`. Blanks, `-` and `_` in names are the
same. A value that the cluster has wins over the file's.

On the command line: `humboldt up --help`, `humboldt osd --help`.

Sizes take K, M, G and T (powers of 1024); times are in seconds.

Every other option of Ceph's is accepted and kept, since scripts set them, and the answer says that nothing heeds it. Options of Ceph's own programs (`rbd_…`, `client_…`, `mds_…`,
`rgw_…`) are handed out to those.

## What a new cluster sets

`humboldt up` and `humboldt mon` write these into the configuration of a cluster that they make, in `global`; `ceph config dump` shows them, `ceph config rm global NAME`
takes one back.

| option | value | why |
|---|---|---|
| `osd_pool_default_size` | OSDs (devices, where OSDs [share these](devices.md#several-osds-on-each-of-several-devices)), 3 at most | A pool of more copies is never clean. |
| `osd_pool_default_min_size` | `1`, with one OSD | A pool whose size is raised later goes on with its one copy. |
| `mon_warn_on_pool_no_redundancy` | `false`, with one OSD | The warning would never end. |
| `osd_pool_default_pg_autoscale_mode` | `off` | The manager endpoint has no autoscaler. |
| `osd_crush_chooseleaf_type` | `0` | Copies lie on several OSDs of the one machine. |
| `mon_allow_pool_size_one` | `true` | OSDs that share a device gain nothing by copies; `--yes-i-really-mean-it` is asked for all the same. |
| `mon_max_pg_per_osd` | `1000` | Few OSDs have all pools. |
| `rbd_default_map_options` | `ms_mode=prefer-crc` | Kernels speak msgr1 unless told otherwise. |
| `osd_heartbeat_grace`, `osd_heartbeat_interval` | `7`, `1` | An OSD that hangs is down after 8 s, not 26. |

Pools can't be deleted before `ceph config set global mon_allow_pool_delete true`, as in Ceph. `--dev`, for tests and trials, sets that option and turns off the warning of pools with one copy.
";

fn page() -> String {
    let parts = [("OSDs", "osd", false), ("Monitor and manager endpoint", "mon", false), ("In ceph.conf only", "file", true)];
    let mut out = HEAD.to_string();
    for (title, part, in_file) in parts {
        let _ = write!(out, "\n## {title}\n\n| option | default | heeded by | effect |\n|---|---|---|---|\n");
        let own =
            |by: &str| by.ends_with("file") == in_file && (in_file || by.starts_with(part) || (part == "mon" && by.starts_with("mgr")));
        for row in HEEDED.iter().filter(|row| own(row.by)) {
            let default = find(row.name).map_or("", |o| o.default).replace('|', "\\|");
            // A long list of classes says nothing in a table.
            let default = if default.len() > 40 {
                "see `ceph config help`".into()
            } else if default.is_empty() {
                default
            } else {
                format!("`{default}`")
            };
            let by = row.by.replace(",file", "").replace("file", "humboldt").replace(',', ", ");
            let _ = writeln!(out, "| `{}` | {default} | {by} | {} |", row.name, row.effect);
        }
    }
    out
}

#[test]
fn the_page_of_options_is_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/configuration.md");
    let (now, there) = (page(), std::fs::read_to_string(&path).unwrap_or_default());
    if std::env::var_os("UPDATE_GUIDE").is_some() {
        std::fs::write(&path, &now).unwrap();
    } else {
        assert!(now == there, "docs/src/configuration.md is not what the code says: run UPDATE_GUIDE=1 cargo test -p options");
    }
}
