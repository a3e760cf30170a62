//! The one connection that the monitor dials: to the stock manager that is active, for commands that belong to it.

use crate::AuthMode;
use crate::run::Shared;
use bytes::Bytes;
use cephx::{Authorizer, Refusal, mode, none};
use mon_core::Endpoint;
use msgr::{AuthClient, AuthClients, AuthStart, ClientAuthenticated, ConMode, Policy};
use net::{Conn, Messenger};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use types::{EntityAddrVec, EntityKind, EntityText, errno};

/// The connection, if there is one.
#[derive(Default)]
pub struct ManagerLink(RefCell<Option<Conn>>);

impl ManagerLink {
    pub fn dial(&self, net: &Messenger, addrs: EntityAddrVec) {
        self.hang_up();
        self.0.replace(Some(net.connect(EntityKind::MGR, addrs, Policy::lossy_client())));
    }
    pub fn hang_up(&self) {
        if let Some(conn) = self.0.take() {
            conn.close();
        }
    }
    pub fn send(&self, message: messages::RawMessage) {
        if let Some(conn) = &*self.0.borrow() {
            conn.send(message);
        }
    }
    /// True if the connection is this one.
    pub fn is(&self, conn: &Conn) -> bool {
        self.0.borrow().as_ref() == Some(conn)
    }
    /// It was cut; true if it was this one.
    pub fn lost(&self, conn: &Conn) -> bool {
        let mine = self.is(conn);
        if mine {
            self.0.take();
        }
        mine
    }
}

/// Makes the monitor's tickets, one for each attempt.
pub struct ManagerAuth(pub Weak<Shared>);

impl AuthClients for ManagerAuth {
    fn exchange(&self, _: EntityKind) -> Box<dyn AuthClient> {
        Box::new(Attempt { shared: self.0.clone(), authorizer: None })
    }
}

struct Attempt {
    shared: Weak<Shared>,
    authorizer: Option<Authorizer>,
}

impl AuthClient for Attempt {
    fn start(&mut self) -> Result<AuthStart, i32> {
        let shared: Rc<Shared> = self.shared.upgrade().ok_or(errno::EACCES)?;
        match shared.auth {
            AuthMode::None => {
                let name = EntityText::new(EntityKind::MON, mon_core::NAME);
                Ok(AuthStart { method: mode::METHOD_NONE, modes: vec![ConMode::CRC], payload: none::authorizer(&name, 0) })
            }
            AuthMode::Cephx => {
                let authorizer = shared.manager_ticket().ok_or(errno::EACCES)?.map_err(errno_of)?;
                let payload = authorizer.payload.clone();
                self.authorizer = Some(authorizer);
                Ok(AuthStart { method: mode::METHOD_CEPHX, modes: shared.modes(Endpoint::Mon, EntityKind::MGR), payload })
            }
        }
    }
    fn reply_more(&mut self, payload: Bytes) -> Result<Bytes, i32> {
        let authorizer = self.authorizer.as_ref().ok_or(errno::EACCES)?;
        authorizer.answer(&payload, &mut net::auth_cephx::entropy()).map_err(errno_of)
    }
    fn done(&mut self, _: u64, _: ConMode, payload: Bytes) -> Result<ClientAuthenticated, i32> {
        let Some(authorizer) = &self.authorizer else { return Ok(ClientAuthenticated::default()) };
        let secrets = authorizer.verify(&payload).map_err(errno_of)?;
        Ok(ClientAuthenticated { session_key: secrets.session_key.secret.into(), connection_secret: secrets.connection_secret })
    }
}

fn errno_of(refusal: Refusal) -> i32 {
    refusal.errno()
}
