//! A cluster that demands encryption: monitor, manager endpoint and OSD take nobody who would talk in the clear, and say so.

mod hostile_peer;

use client::ClientError;
use hostile_peer::{Cluster, Evil, Recorder};
use mon::AuthMode;
use msgr::ConMode;
use types::{EntityKind, EntityText};

const DAEMONS: [EntityKind; 3] = [EntityKind::MON, EntityKind::MGR, EntityKind::OSD];

/// Where one with the administrator's key is let in that offers this mode. The tickets are got in a mode that the monitor takes.
fn entered(cluster: &Cluster, offers: ConMode) -> Vec<EntityKind> {
    let admin = Recorder::in_mode(EntityText::parse("client.admin").unwrap(), cluster.key("client.admin"), true);
    assert!(Evil::dial(cluster, EntityKind::MON, admin.live()).is_some(), "it logs in");
    admin.offer(offers);
    DAEMONS.into_iter().filter(|at| Evil::dial(cluster, *at, admin.live()).is_some()).collect()
}

#[test]
fn who_would_talk_in_the_clear_is_let_in_nowhere() {
    let cluster = Cluster::start_with(AuthMode::Cephx, true);
    assert_eq!(entered(&cluster, ConMode::CRC), []);
    assert_eq!(entered(&cluster, ConMode::SECURE), DAEMONS);
    // A client with Ceph's defaults finds by itself what is demanded; one that insists on crc hears why it can't.
    cluster.try_client("client.admin", &[]).unwrap();
    cluster.try_client("client.admin", &[("ms_client_mode", "crc secure"), ("ms_mon_client_mode", "crc secure")]).unwrap();
    for option in ["ms_mon_client_mode", "ms_client_mode"] {
        match cluster.try_client("client.admin", &[(option, "crc")]) {
            Err(ClientError::NoMode(why)) => assert!(why.contains("secure connections only, and crc was offered"), "{why}"),
            other => panic!("{option} = crc: {other:?}"),
        }
    }
    match cluster.try_client("client.admin", &[("ms_client_mode", "sekure")]) {
        Err(ClientError::Config(why)) => assert!(why.contains("`crc`, `secure` or both"), "{why}"),
        other => panic!("{other:?}"),
    }
    cluster.check("connections in the clear");
    cluster.stop();
}

/// The monitor and the manager endpoint go by a change at once: the demand is made, and taken back.
#[test]
fn what_the_configuration_demands_is_heeded_at_once_by_the_monitor() {
    let cluster = Cluster::start_with(AuthMode::Cephx, false);
    assert_eq!(entered(&cluster, ConMode::CRC), DAEMONS);
    let set = |who: &str, value: &str| {
        cluster.command(&format!(r#"{{"prefix": "config set", "who": "{who}", "name": "ms_mon_service_mode", "value": "{value}"}}"#));
    };
    set("mon", "secure");
    assert_eq!(entered(&cluster, ConMode::CRC), [EntityKind::MGR, EntityKind::OSD]);
    set("mgr", "secure");
    assert_eq!(entered(&cluster, ConMode::CRC), [EntityKind::OSD]);
    set("mon", "secure crc");
    set("mgr", "secure crc");
    assert_eq!(entered(&cluster, ConMode::CRC), DAEMONS);
    cluster.stop();
}
