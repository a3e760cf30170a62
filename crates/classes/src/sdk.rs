//! Class `sdk`: writes an object in every way that a class can, and reads it back; clients' tests call it.
//!
//! Source of the names, texts and errnos: Ceph 18.2 `src/cls/sdk/cls_sdk.cc`.

use crate::registry::{Class, Method};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{done, errno};
use bytes::Bytes;
use denc::ByteStr;
use types::errno::EIO;

pub static CLASS: Class =
    Class { name: "sdk", families: &[&[Method::writes("test_coverage_write", write), Method::writes("test_coverage_replay", replay)]] };

const TEXT: Bytes = Bytes::from_static(b"test");
/// Of the attribute and of the omap key.
const NAME: &[u8] = b"foo";

fn write(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    obj.create(false)?;
    obj.stat()?;
    obj.write(0, TEXT)?;
    obj.stat()?;
    obj.setxattr(NAME, TEXT)?;
    obj.omap_set(vec![(ByteStr::from(NAME), TEXT)])?;
    done()
}

/// EIO unless data, attribute and value are equally long; then the object goes.
fn replay(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    let (size, _) = obj.stat()?;
    for found in [obj.read(0, size)?, obj.getxattr(NAME)?, obj.omap_val(NAME)?] {
        if found.len() as u64 != size {
            return errno(EIO);
        }
    }
    obj.remove()?;
    done()
}
