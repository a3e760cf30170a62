//! What to do about an error that a user can cause by hand, where the error itself can't know it: one line below it.

use client::ClientError;
use std::io::{Error, ErrorKind};

/// The next step, if there is one to name.
pub fn of(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        let client = cause.downcast_ref::<ClientError>().and_then(of_client);
        let store = cause.downcast_ref::<disk::OpenError>().and_then(of_store);
        let study = cause
            .downcast_ref::<lab::study::StudyError>()
            .map(|_| "mend that line; `humboldt lab show depths` prints a whole study to compare with".to_string());
        client.or(store).or(study).or_else(|| cause.downcast_ref::<Error>().and_then(of_io))
    })
}

/// Says the next step on standard error, below what was said of the error.
pub fn print(error: &anyhow::Error) {
    if let Some(next) = of(error) {
        say::eprintln!("  {next}");
    }
}

fn of_client(error: &ClientError) -> Option<String> {
    Some(match error {
        ClientError::NoConf(_) => "give the cluster's ceph.conf with -c (--conf), or start a cluster here: humboldt up".into(),
        ClientError::NoKey { name, .. } => {
            format!("name its keyring with -k or in ceph.conf (keyring = FILE); on the cluster, `ceph auth get {name}` prints it")
        }
        ClientError::Timeout { .. } => {
            "start the cluster (`humboldt up` starts one here), or give the ceph.conf of one that runs with -c (--conf)".into()
        }
        ClientError::Refused { name, .. } => format!("the cluster does not know {name} with this key: compare with `ceph auth get {name}`"),
        ClientError::NoMode(_) => {
            "give ms_client_mode and ms_mon_client_mode of ceph.conf both modes, `secure` the first, or leave both options out".into()
        }
        ClientError::NoPool(name) => format!("`ceph osd pool create {name} 32` makes it; without --pool a pool of the bench's own is used"),
        _ => return None,
    })
}

fn of_store(error: &disk::OpenError) -> Option<String> {
    Some(match error {
        disk::OpenError::InUse(_) => "stop the OSD that has it open first".into(),
        disk::OpenError::Ring(_) => {
            "allow io_uring: sysctl kernel.io_uring_disabled=0, or a seccomp profile of the container that has it (podman and docker: \
             --security-opt seccomp=unconfined); for tests, `--store mem` needs none"
                .into()
        }
        disk::OpenError::Io { cause, .. } if cause.kind() == ErrorKind::NotFound => {
            "name a block device that is attached, or a file in a folder that is there".into()
        }
        disk::OpenError::Io { cause, .. } => return of_io(cause),
        _ => return None,
    })
}

fn of_io(error: &Error) -> Option<String> {
    Some(match error.kind() {
        ErrorKind::AddrInUse => {
            "another process listens there, perhaps a cluster that runs already: stop it, or give another --port (0: any)".into()
        }
        ErrorKind::AddrNotAvailable => {
            "no interface of this machine has that address (`ip address` lists them): give one with --listen".into()
        }
        ErrorKind::PermissionDenied => "run it as the user that owns the file, folder, volume or device, or give another one".into(),
        ErrorKind::IsADirectory => "that is a folder: name a file or a block device".into(),
        ErrorKind::ReadOnlyFilesystem => "it is mounted read-only: mount it for writing, or give another folder".into(),
        ErrorKind::StorageFull => "make room on that file system, then try again: nothing is lost".into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn advice_is_found_below_any_context() {
        let of = |e: anyhow::Error| of(&Err::<(), _>(e).context("doing something").unwrap_err()).unwrap_or_default();
        assert!(of(ClientError::NoPool("p".into()).into()).contains("pool create p"));
        assert!(of(Error::from(ErrorKind::AddrInUse).into()).contains("--port"));
        assert!(of(disk::OpenError::InUse("x".into()).into()).contains("stop the OSD"));
        assert!(of(anyhow::anyhow!("something else")).is_empty());
    }
}
