//! What is where on the devices, and the units that everything is counted in.
//!
//! ```text
//! data   | label, 1 chunk | chunk | chunk | …                  a chunk is 64 KiB: 16 blocks of 4 KiB
//! wal    | label, 1 block | record | record | … |              a ring of records, each whole blocks
//! meta   | superblock A | superblock B | leaf | leaf | index … |
//!
//! record | header 64 B, metadata … | image | image | … | rest of the metadata |
//! leaf   | header 24 B, offsets, rows … |                      sorted rows: 4 KiB of objects', 8 KiB of others, or what one row needs
//! index  | header 32 B, for each leaf: first key, id, place, filter … | blocks of leaves | changes since | changes since | …
//! ```
//! - A **place** is the number of a block on the data device. A chunk of an object is at most one place: a whole chunk, or for the tail of an
//!   object some neighbouring blocks (slots) of a chunk that objects share.
//! - A **superblock** names the store (uuid), its version, the index of one checkpoint, and where in the ring the records behind that
//!   checkpoint begin. The two slots are written in turn; the one with the higher generation is the store.
//! - All crcs are crc32c seeded with [`crc_seed`] of the store's uuid, so that pages of another store are no pages of this one; those of data
//!   blocks are not, since they move with the blocks.
//!
//! - A page of metadata (a leaf, a piece of the index) lies on the meta device, or, when that is full, in chunks that the data device lends:
//!   numbers of blocks from [`ON_DATA`] on are those of the data device. A page may lie in several pieces.
//!
//! The version of all this is [`VERSION`]. A store of one since [`OLDEST`] is opened (labels keep theirs); of another, it is refused.
//! A store of version 7 to 10 stays as it is, and readable by the program that wrote it, until it is finalized; an older one is of
//! version 7 from its opening on.
//!
//! | version | has |
//! |---|---|
//! | 2 | rows of a group's log in a short form beside those of version 1: `pg_row` |
//! | 3 | metadata on the data device, pages in pieces (`HIX3`, an index that says so), rows beside damaged leaves |
//! | 4 | changes beside records (`spill`), omaps that stand on layers (`layers`) |
//! | 5 | a list of the index's pieces where a superblock has no room for them all |
//! | 6 | blocks that were damaged when a part of them was written ([`SPOILED`]) |
//! | 7 | ranges of an object's blocks that nothing was written to (`holes`) |
//! | 8 | cells of an object in several places (`onode`) |
//! | 9 | large attributes in cells behind an object's data (`attr_cells`) |
//! | 10 | an index with the changes of checkpoints behind it (`meta::parts`) |
//! | 11 | the blocks that leaves have, with the index (`meta::blocks`) |

use bytes::Bytes;
use disk::Dev;
use store::ReadData;

/// Counts changes of the layout.
pub const VERSION: u32 = 11;
/// The version of a store that was older, was opened and is not finalized: all that this program writes into it is of that version.
pub const UNFINALIZED: u32 = 7;
/// Stores since this version have cells in several places.
pub const WITH_PLACES: u32 = 8;
/// Stores since this version have large attributes in cells.
pub const WITH_ATTR_CELLS: u32 = 9;
/// From this version on, checkpoints may write of the index what they changed.
pub const WITH_INDEX_PARTS: u32 = 10;
/// From this version on, an index says which blocks leaves have.
pub const WITH_INDEX_BLOCKS: u32 = 11;
/// The oldest version that this program reads.
pub const OLDEST: u32 = 1;

pub const BLOCK: u64 = 4096;
pub const CHUNK_BLOCKS: u64 = 16;
pub const CHUNK: u64 = CHUNK_BLOCKS * BLOCK;

/// Roles of the devices of the set, by index.
pub const DATA: Dev = Dev(0);
pub const WAL: Dev = Dev(1);
pub const META: Dev = Dev(2);

/// Blocks of the wal device in front of the ring.
pub const WAL_FIRST: u64 = 1;
/// Blocks of the meta device for the superblocks.
pub const META_FIRST: u64 = 2;

/// Blocks of metadata with numbers from this on lie on the data device.
pub const ON_DATA: u64 = 1 << 40;

/// The device and the block on it of a block of metadata.
pub fn meta_place(block: u64) -> (Dev, u64) {
    if block < ON_DATA { (META, block) } else { (DATA, block - ON_DATA) }
}

/// Sizes below these make no store.
pub const DATA_MIN: u64 = 1 << 20;
pub const WAL_MIN: u64 = if cfg!(test) { 1 << 20 } else { 4 << 20 };
pub const META_MIN: u64 = if cfg!(test) { 32 << 10 } else { 1 << 20 };

/// Offsets in an object end here: no client gets near, and numbers of chunks stay small. Behind it are the cells of large attributes.
pub const OBJECT_MAX: u64 = 1 << 47;
/// Bytes behind that which each large attribute has for itself, and how many there may be.
pub const ATTR_ROOM: u64 = 16 << 20;
pub const ATTRS_MAX: u64 = 4096;
/// No object has a cell from this one on.
pub const CELLS_END: u64 = (OBJECT_MAX + ATTR_ROOM * ATTRS_MAX) / CHUNK;

// Blocks of a chunk are told by the bits of a u16, and objects end with a chunk.
const _: () = assert!(CHUNK_BLOCKS == u16::BITS as u64 && OBJECT_MAX % CHUNK == 0 && ATTR_ROOM % CHUNK == 0);
const _: () = assert!(DATA_MIN >= 2 * CHUNK && WAL_MIN > WAL_FIRST * BLOCK && META_MIN > META_FIRST * BLOCK);

/// The seed of the crcs of a store's own pages.
pub fn crc_seed(uuid: &[u8; 16]) -> u32 {
    base::crc32c(u32::MAX, uuid)
}

/// In place of a block's crc: it was damaged when a part of it was written, and is until all of it is. No block has it.
pub const SPOILED: u32 = 0x0bad_b10c;
/// What a block has whose crc would be [`SPOILED`].
const STAND_IN: u32 = SPOILED + 1;

/// The crc of a block of data.
pub fn block_crc(block: &[u8]) -> u32 {
    debug_assert_eq!(block.len() as u64, BLOCK);
    match base::crc32c(u32::MAX, block) {
        SPOILED => STAND_IN,
        crc => crc,
    }
}
/// A block with its crc, for a caller that needs one of the same kind; one that may be a stand-in is of no use.
pub fn checked(block: Bytes, crc: u32) -> ReadData {
    if crc == STAND_IN { block.into() } else { ReadData::checked(block, crc) }
}
