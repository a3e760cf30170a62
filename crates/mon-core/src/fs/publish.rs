//! Giving out maps of file systems: to each what it may see, and to servers what concerns them.

use crate::Mon;
use crate::session::{ConnId, Sub};
use crate::subs::Served;
use denc::Denc;
use maps::mds_map::NO_FS;
use maps::{FsMap, FsMapUser, MdsMap};
use messages::{MFSMap, MFSMapUser, MMDSMap, Rest};
use std::borrow::Cow;
use types::EntityKind;

impl Mon {
    /// The map without file systems that a session may not see (`allow r fsname=NAME`).
    pub(crate) fn visible_fsmap(&self, conn: ConnId) -> Cow<'_, FsMap> {
        let map = self.fs.view();
        let Some(names) = self.sessions.get(&conn).and_then(|s| s.caps.fs_names()) else { return Cow::Borrowed(map) };
        let mut seen = map.clone();
        seen.filesystems.retain(|_, fs| names.contains(&fs.mds.fs_name.as_str()));
        let there: Vec<_> = seen.filesystems.keys().copied().collect();
        seen.roles.retain(|_, fscid| *fscid == NO_FS || there.contains(fscid));
        if !there.contains(&seen.legacy_client_fscid) {
            seen.legacy_client_fscid = NO_FS;
        }
        Cow::Owned(seen)
    }

    pub(crate) fn serve_fsmap(&mut self, conn: ConnId, what: &str, sub: Sub) -> Served {
        let map = self.visible_fsmap(conn);
        let epoch = map.epoch;
        if sub.next > u64::from(epoch) {
            return Served::Nothing;
        }
        if what == "fsmap" {
            let map = Rest(map.to_bytes(self.features(conn)));
            self.send(conn, 0, &MFSMap { epoch, map });
        } else {
            let map = Rest(FsMapUser::from(&*map).to_bytes(self.features(conn)));
            self.send(conn, 0, &MFSMapUser { epoch, map });
        }
        Served::Up(u64::from(epoch) + 1)
    }

    /// `mdsmap` for servers and for clients that name no file system, `mdsmap.ID` for those that do. One that is not there yet is waited for.
    pub(crate) fn serve_mdsmap(&mut self, conn: ConnId, what: &str, sub: Sub) -> Served {
        let Some(session) = self.sessions.get(&conn) else { return Served::Never };
        let map = self.visible_fsmap(conn);
        if sub.next > u64::from(map.epoch) {
            return Served::Nothing;
        }
        let found: Cow<'_, MdsMap> = if session.peer.entity.kind == EntityKind::MDS {
            let own = map.daemons().find(|i| i.addrs == session.peer.addrs);
            match own.and_then(|i| map.filesystem_of(i.gid)) {
                Some(fs) => Cow::Borrowed(&fs.mds),
                // A standby finds only itself; one that is unknown, nobody.
                None => Cow::Owned(MdsMap {
                    epoch: own.and_then(|i| map.standby_epochs.get(&i.gid).copied()).unwrap_or(map.epoch),
                    info: own.map(|i| (i.gid, i.clone())).into_iter().collect(),
                    ..MdsMap::default()
                }),
            }
        } else {
            let fscid = match what.strip_prefix("mdsmap.") {
                Some(id) => id.parse().unwrap_or(NO_FS),
                None => map.legacy_client_fscid,
            };
            let Some(fs) = map.filesystems.get(&fscid) else { return Served::Nothing };
            Cow::Borrowed(&fs.mds)
        };
        let epoch = found.epoch;
        if sub.next > u64::from(epoch) {
            return Served::Nothing;
        }
        let message = MMDSMap { fsid: self.options.fsid, epoch, map: found.to_bytes(self.features(conn)), ..MMDSMap::default() };
        self.send(conn, 0, &message);
        Served::Up(u64::from(epoch) + 1)
    }
}
