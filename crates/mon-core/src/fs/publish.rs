//! Giving out maps of file systems: to each what it may see, and to servers what concerns them.

use crate::Mon;
use crate::session::{ConnId, Session, Sub};
use crate::subs::Served;
use bytes::Bytes;
use denc::Denc;
use maps::mds_map::NO_FS;
use maps::{FsMap, FsMapUser, MdsMap};
use messages::{MFSMap, MFSMapUser, MMDSMap, Rest};
use std::borrow::Cow;
use types::{EntityKind, Epoch};

/// A map, of now or of the past, without file systems that a session may not see.
pub(crate) fn visible<'a>(map: &'a FsMap, session: Option<&Session>) -> Cow<'a, FsMap> {
    let Some(names) = session.and_then(|s| s.caps.fs_names()) else { return Cow::Borrowed(map) };
    let mut seen = map.clone();
    seen.filesystems.retain(|_, fs| names.contains(&fs.mds.fs_name.as_str()));
    let there: Vec<_> = seen.filesystems.keys().copied().collect();
    seen.roles.retain(|_, fscid| *fscid == NO_FS || there.contains(fscid));
    if !there.contains(&seen.legacy_client_fscid) {
        seen.legacy_client_fscid = NO_FS;
    }
    Cow::Owned(seen)
}

impl Mon {
    /// The map without file systems that a session may not see (`allow r fsname=NAME`).
    pub(crate) fn visible_fsmap(&self, conn: ConnId) -> Cow<'_, FsMap> {
        visible(self.fs.view(), self.sessions.get(&conn))
    }

    pub(crate) fn serve_fsmap(&mut self, conn: ConnId, what: &str, sub: Sub) -> Served {
        let epoch = self.fs.map.epoch;
        if sub.next > u64::from(epoch) {
            return Served::Nothing;
        }
        let features = self.features(conn);
        if what == "fsmap" {
            let map = Rest(self.visible_fsmap(conn).to_bytes(features));
            self.send(conn, 0, &MFSMap { epoch, map });
        } else {
            let map = Rest(FsMapUser::from(&*self.visible_fsmap(conn)).to_bytes(features));
            self.send(conn, 0, &MFSMapUser { epoch, map });
        }
        Served::Up(u64::from(epoch) + 1)
    }

    /// `mdsmap` for servers and for clients that name no file system, `mdsmap.ID` for those that do. One that is not there yet is waited for.
    pub(crate) fn serve_mdsmap(&mut self, conn: ConnId, what: &str, sub: Sub) -> Served {
        let Some((epoch, map)) = self.mdsmap_for(conn, what, sub.next) else { return Served::Nothing };
        let message = MMDSMap { fsid: self.options.fsid, epoch, map, ..MMDSMap::default() };
        self.send(conn, 0, &message);
        Served::Up(u64::from(epoch) + 1)
    }

    /// The map that a session means by `what`, encoded, if it is there and not older than `from`.
    fn mdsmap_for(&self, conn: ConnId, what: &str, from: u64) -> Option<(Epoch, Bytes)> {
        let peer = &self.sessions.get(&conn)?.peer;
        let map = self.visible_fsmap(conn);
        let alone;
        let found = if peer.entity.kind == EntityKind::MDS {
            let own = map.daemons().find(|i| i.addrs == peer.addrs);
            match own.and_then(|i| map.filesystem_of(i.gid)) {
                Some(fs) => &fs.mds,
                None => {
                    // A standby finds only itself; one that is unknown, no server.
                    alone = MdsMap {
                        epoch: own.and_then(|i| map.standby_epochs.get(&i.gid).copied()).unwrap_or(map.epoch),
                        info: own.map(|i| (i.gid, i.clone())).into_iter().collect(),
                        ..MdsMap::default()
                    };
                    &alone
                }
            }
        } else {
            let fscid = match what.strip_prefix("mdsmap.") {
                Some(id) => id.parse().unwrap_or(NO_FS),
                None => map.legacy_client_fscid,
            };
            &map.filesystems.get(&fscid)?.mds
        };
        (from <= u64::from(found.epoch)).then(|| (found.epoch, found.to_bytes(peer.features)))
    }
}
