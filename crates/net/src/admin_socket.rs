//! The admin socket: a Unix socket for commands to a daemon of this machine (`ceph daemon osd.0 ...`).
//!
//! One request a connection: a JSON object that ends in a zero byte, at most 64 KiB of it; the answer is its length, four bytes big-endian,
//! and its bytes. Before 2013 requests had four bytes, of which only the question for the protocol's version is still asked.
//!
//! Source of the facts: Ceph 18.2 `src/common/admin_socket.cc`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use types::errno;

/// Bytes of a request.
const REQUEST_MAX: usize = 64 << 10;
/// How long a client may take over its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Requests at a time; more wait to be accepted.
const OPEN_MAX: usize = 64;

/// A command's result: a negative errno or 0, a line, and output.
pub type Answer = (i32, String, Vec<u8>);

/// Commands on their way through a daemon: each is given out under a number and answered by it.
pub struct AdminSocket {
    path: PathBuf,
    waiting: RefCell<HashMap<u64, oneshot::Sender<Answer>>>,
    next: RefCell<u64>,
    ask: Box<dyn Fn(u64, String)>,
}

impl AdminSocket {
    /// Listens at `path`, in the place of a socket that a former process left there. `ask` gets each command's number and JSON text; the
    /// daemon answers by [`AdminSocket::answer`].
    pub fn listen(path: &Path, ask: impl Fn(u64, String) + 'static) -> std::io::Result<Rc<Self>> {
        if let Err(e) = std::fs::remove_file(path)
            && e.kind() != std::io::ErrorKind::NotFound
        {
            return Err(e);
        }
        let listener = bind_closed(path)?;
        let socket = Rc::new(Self { path: path.to_path_buf(), waiting: RefCell::default(), next: RefCell::new(0), ask: Box::new(ask) });
        tokio::task::spawn_local(accept(listener, Rc::downgrade(&socket)));
        Ok(socket)
    }

    /// Gives a command's result to the client that asked.
    pub fn answer(&self, id: u64, answer: Answer) {
        if let Some(to) = self.waiting.borrow_mut().remove(&id) {
            // They may have gone.
            let _ = to.send(answer);
        }
    }

    async fn run(&self, command: String) -> Answer {
        let (tx, rx) = oneshot::channel();
        let id = *self.next.borrow();
        *self.next.borrow_mut() += 1;
        self.waiting.borrow_mut().insert(id, tx);
        (self.ask)(id, command);
        rx.await.unwrap_or((-errno::ECANCELED, "the daemon is ending".into(), Vec::new()))
    }
}

/// Longest path of a socket: what the kernel takes, less what its folder of the first moment adds.
pub const PATH_MAX: usize = 107 - PRIVATE.len();
/// Behind the path, while the socket has not got its mode yet.
const PRIVATE: &str = ".new/s";

/// What may connect may do everything: the socket is made in a folder of ours alone, and comes to its place with its mode.
fn bind_closed(path: &Path) -> std::io::Result<UnixListener> {
    let inside = PathBuf::from(format!("{}{PRIVATE}", path.display()));
    let folder = inside.parent().expect("a name below a folder");
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    std::fs::DirBuilder::new().mode(0o700).create(folder)?;
    let bound = UnixListener::bind(&inside).and_then(|listener| {
        std::fs::set_permissions(&inside, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&inside, path)?;
        Ok(listener)
    });
    std::fs::remove_dir_all(folder)?;
    bound
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn accept(listener: UnixListener, socket: std::rc::Weak<AdminSocket>) {
    let room = std::sync::Arc::new(tokio::sync::Semaphore::new(OPEN_MAX));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: others will be closed.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Some(socket) = socket.upgrade() else { return };
        tokio::task::spawn_local(async move {
            let _ = serve(stream, &socket).await;
            drop(place);
        });
    }
}

async fn serve(mut stream: UnixStream, socket: &AdminSocket) -> std::io::Result<()> {
    let Ok(request) = tokio::time::timeout(PATIENCE, read_request(&mut stream)).await else { return Ok(()) };
    let output = match request? {
        None => return Ok(()),
        Some(request) if request.is_empty() => b"2".to_vec(),
        Some(request) => answer_bytes(socket.run(request).await),
    };
    stream.write_all(&(output.len() as u32).to_be_bytes()).await?;
    stream.write_all(&output).await
}

/// The request's text; an empty one is the old question for the version; `None` if it is none.
async fn read_request(stream: &mut UnixStream) -> std::io::Result<Option<String>> {
    let mut buf = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let n = stream.read(&mut piece).await?;
        buf.extend_from_slice(&piece[..n]);
        if buf.first().is_some_and(|c| *c != b'{') {
            return Ok(if buf.len() >= 4 && buf[..4] == [0, 0, 0, 0] { Some(String::new()) } else { None });
        }
        if let Some(end) = buf.iter().position(|c| *c == 0) {
            return Ok(String::from_utf8(buf[..end].to_vec()).ok());
        }
        if n == 0 || buf.len() > REQUEST_MAX {
            return Ok(None);
        }
    }
}

/// What the client prints: an error's name first, then what there is to say, then the output.
fn answer_bytes((result, status, output): Answer) -> Vec<u8> {
    if result >= 0 {
        return if output.is_empty() { status.into_bytes() } else { output };
    }
    let mut text = format!("ERROR: ({}) {}\n{status}\n", -result, error_text(-result)).into_bytes();
    text.extend(output);
    text
}

/// An errno in the C library's words.
fn error_text(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(path: &Path, bytes: &[u8]) -> Vec<u8> {
        let mut stream = UnixStream::connect(path).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut out = Vec::new();
        stream.read_to_end(&mut out).await.unwrap();
        out
    }
    fn framed(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
    }

    #[test]
    fn commands_are_answered_one_a_connection() {
        let dir = std::env::temp_dir().join(format!("humboldt-asok-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("a.asok");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let asked: Rc<RefCell<Vec<(u64, String)>>> = Rc::default();
            let seen = asked.clone();
            let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel();
            let socket = AdminSocket::listen(&path, move |id, text| {
                seen.borrow_mut().push((id, text));
                tx.send(id).unwrap();
            })
            .unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "the folder of the first moment is gone");
            let answering = socket.clone();
            tokio::task::spawn_local(async move {
                while let Some(id) = rx.recv().await {
                    let answer =
                        if id == 0 { (0, String::new(), b"{}\n".to_vec()) } else { (-errno::EINVAL, "no such thing".into(), Vec::new()) };
                    answering.answer(id, answer);
                }
            });
            assert_eq!(ask(&path, b"{\"prefix\":\"version\"}\0").await, framed("{}\n"));
            assert_eq!(ask(&path, b"{}\0").await, framed("ERROR: (22) Invalid argument\nno such thing\n"));
            assert_eq!(ask(&path, &[0, 0, 0, 0]).await, framed("2"));
            assert_eq!(ask(&path, b"what?").await, b"");
            assert_eq!(*asked.borrow(), [(0, "{\"prefix\":\"version\"}".to_string()), (1, "{}".to_string())]);
        });
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
