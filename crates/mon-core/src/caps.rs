//! What a session may do at its endpoint: one question for both kinds of capability.

use crate::auth::Endpoint;
use cephx::AuthCapsInfo;
use cephx::caps::{MgrCap, MgrRequest, MonCap, MonRequest, Perm};
use std::collections::BTreeMap;
use types::{EntityAddr, EntityText};

/// A session's capability: the monitor's or the manager's, by the endpoint it came to.
#[derive(Debug, Clone)]
pub enum Caps {
    Mon(MonCap),
    Mgr(MgrCap),
}

impl Caps {
    pub fn new(endpoint: Endpoint, info: &AuthCapsInfo) -> Self {
        match endpoint {
            Endpoint::Mon => Self::Mon(MonCap::from_info(info)),
            Endpoint::Mgr => Self::Mgr(MgrCap::from_info(info)),
        }
    }
    /// True if a message to `service` that is no command may have `need`.
    pub fn may(&self, entity: &EntityText, addr: &EntityAddr, service: &str, need: Perm) -> bool {
        self.may_command(entity, addr, service, "", &BTreeMap::new(), need)
    }
    pub fn may_command(
        &self,
        entity: &EntityText,
        addr: &EntityAddr,
        service: &str,
        command: &str,
        args: &BTreeMap<String, String>,
        need: Perm,
    ) -> bool {
        match self {
            Self::Mon(caps) => caps.allows(&MonRequest { entity, service, command, args, need, addr }),
            Self::Mgr(caps) => caps.allows(&MgrRequest { service, module: "", command, args, need, addr }),
        }
    }
    /// Names of the file systems that may be seen; none: all.
    pub fn fs_names(&self) -> Option<Vec<&str>> {
        match self {
            Self::Mon(caps) => caps.fs_names(),
            Self::Mgr(_) => None,
        }
    }
    /// True if a file system may be changed: it is the monitor's to say.
    pub fn may_change_fs(&self, entity: &EntityText, name: &str) -> bool {
        match self {
            Self::Mon(caps) => caps.allows_fs(entity, name, Perm::W),
            Self::Mgr(_) => false,
        }
    }
    /// True if commands that nobody knows may be asked for. The monitor says of those to anybody that it does not know them.
    pub fn may_ask_unknown(&self, addr: &EntityAddr) -> bool {
        match self {
            Self::Mon(_) => true,
            Self::Mgr(caps) => caps.grants_any(addr),
        }
    }
    pub fn is_allow_all(&self, addr: &EntityAddr) -> bool {
        match self {
            Self::Mon(caps) => caps.is_allow_all(addr),
            Self::Mgr(caps) => caps.is_allow_all(addr),
        }
    }
}

/// The letters of a command's table as a set.
pub fn perm(letters: &str) -> Perm {
    Perm::needed(letters.contains('r'), letters.contains('w'), letters.contains('x'))
}
