//! Capabilities: which texts are accepted, as recorded from a stock monitor, and what they allow, as tables.

use cephx::caps::{ClassCall, MgrCap, MgrRequest, MonCap, MonRequest, OsdCap, OsdRequest, Perm, check};
use std::collections::BTreeMap;
use types::{AddrType, EntityAddr, EntityText};

#[test]
fn accepts_what_stock_accepts() {
    let mut wrong = Vec::new();
    for line in include_str!("../../../fixtures/cephx/caps-accepted.txt").lines().filter(|l| !l.starts_with('#')) {
        let (rest, verdict) = line.rsplit_once('|').unwrap();
        let (service, text) = rest.split_once('|').unwrap();
        let text = text.replace("\\t", "\t").replace("\\n", "\n");
        if check(service, &text).is_ok() != (verdict == "ok") {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "stock differs: {wrong:#?}");
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}
fn addr(s: &str) -> EntityAddr {
    EntityAddr::parse(s, AddrType::MSGR2).unwrap()
}

/// `pool/namespace/object rw [class.method:rw]`, a class in capitals is not listed.
fn osd(cap: &str, request: &str) -> bool {
    let mut words = request.split(' ');
    let place: Vec<&str> = words.next().unwrap().split('/').collect();
    let need = words.next().unwrap();
    let calls: Vec<(String, bool)> = words.map(|w| (w.to_lowercase(), w.to_lowercase() == w)).collect();
    let classes: Vec<ClassCall<'_>> = calls
        .iter()
        .map(|(call, listed)| {
            let (call, rw) = call.split_once(':').unwrap();
            let (class, method) = call.split_once('.').unwrap();
            ClassCall { class, method, read: rw.contains('r'), write: rw.contains('w'), listed: *listed }
        })
        .collect();
    let applications = BTreeMap::from([("cephfs".to_string(), map(&[("data", "a")])), ("rbd".to_string(), map(&[]))]);
    OsdCap::parse(cap).unwrap().allows(&OsdRequest {
        pool: place[0],
        namespace: place[1].as_bytes(),
        applications: &applications,
        object: place[2].as_bytes(),
        read: need.contains('r'),
        write: need.contains('w'),
        classes: &classes,
        addr: &addr("10.1.2.3:0/7"),
    })
}

#[test]
fn what_osd_capabilities_allow() {
    let table: &[(&str, &[&str], &[&str])] = &[
        ("allow *", &["p//o rw", "p//o - FOO.bar:rw"], &[]),
        ("allow r", &["p//o r", "p/n/o r"], &["p//o w", "p//o rw", "p//o - rbd.x:r"]),
        ("allow rw", &["p//o rw"], &["p//o - rbd.x:r"]),
        ("allow rwx", &["p//o rw rbd.x:rw lock.y:w"], &["p//o - FOO.x:r"]),
        ("allow r pool=p", &["p//o r", "p/n/o r"], &["q//o r"]),
        ("allow rw pool=p namespace=a", &["p/a/o rw"], &["p//o r", "p/b/o r", "p/ab/o r"]),
        ("allow rw pool=p namespace=\"\"", &["p//o rw"], &["p/a/o r"]),
        ("allow rw pool=p namespace=a*", &["p/a/o rw", "p/ab/o rw"], &["p//o r", "p/b/o r"]),
        ("allow rw namespace=\"*\"", &["p//o rw", "p/b/o rw"], &[]),
        ("allow rw object_prefix ok_", &["p//ok_1 rw"], &["p//no r", "p//xok_ r"]),
        ("allow r pool=p, allow w pool=p", &["p//o r", "p//o w"], &["p//o rw"]),
        ("allow class rbd", &["p//o - rbd.x:rw"], &["p//o r", "p//o - lock.x:r", "p//o r rbd.x:r"]),
        ("allow class rbd get", &["p//o - rbd.get:rw"], &["p//o - rbd.set:w"]),
        ("allow class FOO, allow class foo", &["p//o - FOO.x:rw"], &[]),
        ("allow class rbd, allow class lock", &["p//o - rbd.x:rw lock.y:w"], &["p//o - rbd.x:rw log.y:w"]),
        ("allow class-read", &["p//o - rbd.x:r"], &["p//o - rbd.x:w", "p//o - rbd.x:rw", "p//o r"]),
        ("allow class-read, allow class-write", &["p//o - rbd.x:r", "p//o - rbd.x:w", "p//o - rbd.x:r rbd.y:w"], &["p//o - rbd.x:rw"]),
        ("allow rw tag cephfs data=a", &["p//o rw"], &[]),
        ("allow rw tag cephfs *=a", &["p//o rw"], &[]),
        ("allow rw tag cephfs data=*", &["p//o rw"], &[]),
        ("allow rw tag rbd *=*", &["p//o rw"], &[]),
        ("allow rw tag cephfs data=b", &[], &["p//o r"]),
        ("allow rw tag cephfs metadata=*", &[], &["p//o r"]),
        ("allow rw tag rgw *=*", &[], &["p//o r"]),
        ("allow rw namespace=n tag cephfs data=a", &["p/n/o rw"], &["p//o r"]),
        ("allow rw network 10.0.0.0/8", &["p//o rw"], &[]),
        ("allow * network 11.0.0.0/8", &[], &["p//o r"]),
        ("allow rw network face", &[], &["p//o r"]),
        ("profile read-only", &["p//o r"], &["p//o w"]),
        ("profile nonsense", &[], &["p//o r"]),
        (
            "profile rbd pool=p",
            &[
                "p//o rw",
                "p//rbd_header.1 rw rbd.x:rw",
                "p/n/o rw",
                "q//rbd_info r",
                "q//rbd_children - rbd.x:r",
                "q//rbd_mirroring - rbd.x:r",
            ],
            &["q//o r", "q//rbd_info w", "q//rbd_children - rbd.x:w", "q//rbd_children r"],
        ),
        ("profile rbd pool=p namespace=n", &["p/n/o rw", "p//rbd_info - rbd.metadata_list:r"], &["p//o r", "p//o - rbd.metadata_list:r"]),
        (
            "profile rbd-read-only pool=p",
            &["p//o r", "p//o r rbd.x:r", "p//rbd_header.1 - rbd.child_attach:w", "p//rbd_header.1 - rbd.child_detach:rw"],
            &["p//o w", "p//o - rbd.x:w", "p//o - rbd.child_attach:w", "q//o r"],
        ),
    ];
    for (cap, yes, no) in table {
        for request in *yes {
            assert!(osd(cap, request), "{cap} allows {request}");
        }
        for request in *no {
            assert!(!osd(cap, request), "{cap} denies {request}");
        }
    }
    // Everything is asked for with the place it is asked from.
    let here = addr("10.1.2.3:0/7");
    for (cap, all) in [
        ("allow *", true),
        ("allow r, allow * network 10.0.0.0/8", true),
        ("allow * network 11.0.0.0/8", false),
        ("allow * pool=p", false),
        ("allow rwx", false),
    ] {
        assert_eq!(OsdCap::parse(cap).unwrap().allows_all(&here), all, "{cap}");
    }
    assert!(!OsdCap::default().allows_all(&here));
}

/// `service r`, or `service rw command k=v,k=v`.
fn mon(cap: &str, request: &str) -> bool {
    let mut parts = request.splitn(3, ' ');
    let (service, need, rest) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap_or(""));
    let (command, args) = rest.split_once(" | ").unwrap_or((rest, ""));
    let args = args.split(',').filter_map(|kv| kv.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect();
    MonCap::parse(cap).unwrap().allows(&MonRequest {
        entity: &EntityText::parse("osd.3").unwrap(),
        service,
        command,
        args: &args,
        need: Perm::needed(need.contains('r'), need.contains('w'), need.contains('x')),
        addr: &addr("10.1.2.3:0/7"),
    })
}

/// Each capability allows its first requests and not its second.
fn hold(table: &[(&str, &[&str], &[&str])]) {
    for (cap, yes, no) in table {
        for request in *yes {
            assert!(mon(cap, request), "{cap} allows {request}");
        }
        for request in *no {
            assert!(!mon(cap, request), "{cap} denies {request}");
        }
    }
}

#[test]
fn what_bootstrap_keys_may_make() {
    hold(&[
        (
            "profile bootstrap-mgr",
            &["auth rwx auth get-or-create | entity=mgr.x,caps_mon=allow profile mgr"],
            &[
                "auth rwx auth get-or-create | entity=mgr.x,caps_mon=allow *",
                "auth rwx auth get-or-create | entity=osd.0,caps_mon=allow profile mgr",
                "auth rwx auth get-or-create | entity=mgr.x,caps_mon=allow profile mgr,caps_osd=allow rw",
                "auth rwx auth get-or-create | entity=mgr.x,caps_mon=allow profile mgr,caps_mgr=allow *",
            ],
        ),
        (
            "profile bootstrap-mds",
            &["auth rwx auth get-or-create | entity=mds.a,caps_mon=allow profile mds,caps_osd=allow rwx,caps_mds=allow"],
            &["auth rwx auth get-or-create | entity=mds.a,caps_mon=allow profile mds,caps_osd=allow rwx,caps_mds=allow,caps_mgr=allow *"],
        ),
        (
            "profile bootstrap-rgw",
            &["auth rwx auth get-or-create | entity=client.rgw.a,caps_mon=allow rw,caps_osd=allow rwx"],
            &[
                "auth rwx auth get-or-create | entity=client.rgw.a,caps_mon=allow rw,caps_osd=allow rwx,caps_mgr=allow *",
                "auth rwx auth get-or-create | entity=client.rgw.a,caps_mon=allow rw,caps_osd=allow *",
            ],
        ),
        (
            "profile bootstrap-rbd",
            &[
                "auth rwx auth get-or-create | entity=client.a,caps_mon=profile rbd,caps_osd=profile rbd",
                "auth rwx auth get-or-create | entity=client.a,caps_mon=profile rbd,caps_osd=profile rbd pool='a b' namespace=n; profile rbd-read-only",
                "auth rwx auth get-or-create | entity=client.a,caps_mon=profile rbd,caps_osd=profile rbd,caps_mgr=profile rbd pool=x",
            ],
            &[
                "auth rwx auth get-or-create | entity=client.a,caps_mon=profile rbd",
                "auth rwx auth get-or-create | entity=client.a,caps_osd=profile rbd",
                "auth rwx auth get-or-create | entity=client.a,caps_mon=profile rbd,caps_osd=profile rbd pool x; allow *",
                "auth rwx auth get-or-create | entity=client.a,caps_mon=profile rbd,caps_osd=profile read-write",
                "auth rwx auth get-or-create | entity=client.a,caps_mon=profile rbd,caps_osd=profile rbd,caps_mgr=allow *",
                "auth rwx auth get-or-create | entity=client.a,caps_mon=profile rbd,caps_osd=profile rbd,caps_mds=allow *",
            ],
        ),
    ]);
}

#[test]
fn what_monitor_capabilities_allow() {
    let table: &[(&str, &[&str], &[&str])] = &[
        ("allow *", &["osd rwx", "config-key rw config-key get", "auth rwx"], &[]),
        ("allow r", &["osd r osd tree", "mon r"], &["osd rw osd pool rm", "auth rx auth ls", "config-key r config-key get", "osd w"]),
        ("allow rwx", &["osd rw osd pool rm", "auth rx auth ls"], &["config-key r config-key get"]),
        ("allow r, allow w", &["osd rw"], &["osd rwx"]),
        ("allow service osd rw", &["osd rw"], &["mon r", "osd rx"]),
        ("allow service config-key r", &["config-key r"], &["config-key w"]),
        ("allow command \"osd tree\"", &["osd r osd tree", "osd rwx osd tree"], &["osd r osd dump", "osd r"]),
        (
            "allow command \"x\" with a=b c prefix d",
            &["osd r x | a=b,c=dd", "osd r x | a=b,c=d,e=f"],
            &["osd r x | a=b", "osd r x | a=c,c=d"],
        ),
        ("allow command \"x\" with a regex \"[0-9]+\"", &["osd r x | a=42"], &["osd r x | a=42x", "osd r x | a="]),
        ("allow command \"x\" with a regex \"[0-9\"", &[], &["osd r x | a=4"]),
        ("allow r network 10.0.0.0/8", &["osd r"], &[]),
        ("allow * network 11.0.0.0/8", &[], &["osd r"]),
        (
            "profile osd",
            &[
                "osd rwx",
                "mon r",
                "pg rw",
                "log w",
                "config-key rw config-key get | key=daemon-private/osd.3/x",
                "config rw config set | name=osd_mclock_max_capacity_iops_ssd",
                "config rw config rm | name=osd_max_backfills",
            ],
            &[
                "auth r",
                "mon w",
                "config-key r config-key get | key=daemon-private/osd.4/x",
                "config rw config set | name=osd_max_backfills",
            ],
        ),
        (
            "profile rbd",
            &["mon r", "osd r", "pg r", "osd rw osd blocklist | blocklistop=add,addr=10.0.0.1:0/77"],
            &[
                "osd rw osd pool create | pool=x",
                "osd rw osd blocklist | blocklistop=rm,addr=10.0.0.1:0/77",
                "osd rw osd blocklist | blocklistop=add,addr=10.0.0.1:0",
                // A host, and networks.
                "osd rw osd blocklist | blocklistop=add,addr=10.0.0.1:0/0",
                "osd rw osd blocklist | blocklistop=add,addr=0.0.0.0/0,range=range",
                "osd rw osd blocklist | blocklistop=add,addr=10.0.0.0/8,range=range",
                "osd rw osd blocklist | blocklistop=add,addr=10.0.0.1:0/77,range=range",
                "mgr r",
            ],
        ),
        ("profile rbd-mirror", &["config-key r config-key get | key=rbd/mirror/x"], &["config-key r config-key get | key=x"]),
        ("profile simple-rados-client", &["mon r", "osd r"], &["osd rw osd blocklist | blocklistop=add,addr=1.2.3.4:0/1"]),
        ("profile bootstrap-osd", &["osd rw osd new", "mon r mon getmap"], &["osd rw osd rm"]),
        ("profile mgr", &["auth rwx", "config-key rw", "osd rw", "mon r smart"], &["osd rwx"]),
        ("profile role-definer", &["auth rwx", "mon r"], &["osd r"]),
        ("profile nonsense", &[], &["mon r"]),
    ];
    hold(table);
    // Everything is asked for with the place it is asked from.
    let here = addr("10.1.2.3:0/7");
    for (cap, all) in [("allow *", true), ("allow r", false), ("allow * network 10.0.0.0/8", true), ("allow * network 11.0.0.0/8", false)] {
        assert_eq!(MonCap::parse(cap).unwrap().is_allow_all(&here), all, "{cap}");
        assert_eq!(MgrCap::parse(cap).unwrap().is_allow_all(&here), all, "{cap}");
    }
    for (cap, any) in
        [("allow x", true), ("profile osd", true), ("allow r network 10.0.0.0/8", true), ("allow * network 11.0.0.0/8", false)]
    {
        assert_eq!(MgrCap::parse(cap).unwrap().grants_any(&here), any, "{cap}");
    }
    assert!(!MgrCap::default().grants_any(&here));
    assert!(!MonCap::default().is_allow_all(&here));
}

#[test]
fn what_manager_capabilities_allow() {
    let ask = |cap: &str, service: &str, module: &str, command: &str, args: &[(&str, &str)], need| {
        let req = MgrRequest { service, module, command, args: &map(args), need, addr: &addr("10.1.2.3:0/7") };
        MgrCap::parse(cap).unwrap().allows(&req)
    };
    assert!(ask("allow *", "mgr", "", "x", &[], Perm::RWX));
    assert!(ask("allow r", "pg", "", "pg dump", &[], Perm::R));
    assert!(!ask("allow r", "pg", "", "pg repair", &[], Perm::RW));
    assert!(ask("allow service pg rw", "pg", "", "pg repair", &[], Perm::RW));
    assert!(!ask("allow service pg rw", "osd", "", "x", &[], Perm::R));
    assert!(ask("profile rbd pool=a", "mgr", "rbd_support", "rbd task add", &[], Perm::RW));
    assert!(ask("profile rbd pool=a", "mgr", "rbd_support", "", &[("pool", "a")], Perm::R));
    assert!(!ask("profile rbd pool=a", "mgr", "rbd_support", "", &[("pool", "b")], Perm::R));
    assert!(!ask("profile rbd-read-only", "mgr", "rbd_support", "rbd task add", &[], Perm::RW));
    assert!(ask("allow command \"pg dump\"", "pg", "", "pg dump", &[], Perm::R));
    assert!(!ask("profile osd", "pg", "", "pg dump", &[], Perm::R));
    assert!(ask("profile crash", "mgr", "crash", "crash post", &[], Perm::RW));
}

#[test]
fn a_text_that_cannot_be_read_allows_nothing() {
    let info = cephx::AuthCapsInfo::from_text("allow * bla");
    assert_eq!(OsdCap::from_info(&info), OsdCap::default());
    assert_eq!(MonCap::from_info(&info), MonCap::default());
    assert_eq!(MgrCap::from_info(&info), MgrCap::default());
    assert_eq!(check("osd", "allow * bla").unwrap_err().to_string(), "osd capability parse failed, stopped at 'bla' of 'allow * bla'");
}

/// The users of upstream's `permissions.sh` and who of them may make snapshots of their own, as stock 18.2's monitor decides.
#[test]
fn who_may_make_snapshots() {
    let addr = addr("127.0.0.1:0");
    for (cap, images, volumes) in [
        ("", false, false),
        ("allow r", false, false),
        ("allow w", true, true),
        ("allow w pool=images", true, false),
        ("allow w pool=images namespace=foo", true, false),
        ("allow w namespace=foo", true, true),
        ("allow w tag fooapp *=*", false, false),
        ("profile rbd", true, true),
        ("profile rbd pool=images", true, false),
        ("profile rbd pool=images namespace=foo", true, false),
        ("profile rbd namespace=foo", true, true),
        ("allow w network 10.0.0.0/8", false, false),
    ] {
        let parsed = cephx::caps::OsdCap::parse(cap).unwrap_or_default();
        assert_eq!((parsed.writes_into("images", &addr), parsed.writes_into("volumes", &addr)), (images, volumes), "{cap}");
    }
}
