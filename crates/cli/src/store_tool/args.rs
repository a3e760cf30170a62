//! The arguments of `humboldt store`.

use clap::Subcommand;
use std::path::PathBuf;

/// Look at, check, copy or damage the block store of an OSD that is not running.
#[derive(Debug, clap::Args)]
pub struct StoreArgs {
    /// The OSD's folder, with data, wal and meta.
    #[arg(long)]
    pub dir: PathBuf,
    #[command(subcommand)]
    pub action: StoreTool,
}

#[derive(Debug, Subcommand)]
pub enum StoreTool {
    /// Check that everything agrees: space that is leaked or used twice, shares, omap, groups' memory, counters. Changes nothing.
    Fsck {
        /// Read all data and compare them with their checksums, too.
        #[arg(long)]
        deep: bool,
    },
    /// Check, and rebuild what can be derived from the objects: free space, shares, counters. What damage has taken is left out and named.
    Repair {
        /// If a record of the log is damaged, end the log there: writes of the records behind it are lost, acknowledged or not. Says which.
        #[arg(long)]
        discard_log_from_damage: bool,
    },
    /// Room, use, and the state of the log.
    Stat,
    /// Make the store larger: it takes all of its devices, which may have become larger. A store never becomes smaller.
    Grow {
        /// Bytes of its file of data from now on (4G is 4294967296).
        #[arg(long, value_parser = crate::args::parse_size)]
        size: Option<u64>,
    },
    /// All objects: collection, size, name.
    List,
    /// One object: size, attributes, omap, extents.
    Dump {
        /// The name as `list` shows it, or a plain object's name.
        object: String,
    },
    /// One placement group: where its log stands, duplicates, entries, missing objects.
    Log {
        /// Such as 2.1f.
        group: String,
    },
    /// Copy everything into a file (`-`: standard output).
    Export {
        file: PathBuf,
        /// Go round what is damaged, name what is left out on standard error, and end with status 3 if anything is.
        #[arg(long)]
        skip_damaged: bool,
    },
    /// Put what was exported into this store; what has the same name is replaced.
    Import { file: PathBuf },
    /// Change an object behind the OSD's back: for tests of scrub and repair, on a copy.
    Damage {
        /// The name as `list` shows it, or a plain object's name.
        object: String,
        #[command(subcommand)]
        action: Action,
    },
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Other bytes at this offset, with a right checksum.
    Bytes {
        offset: u64,
        /// The bytes, as text.
        text: String,
    },
    /// Another size.
    Size { bytes: u64 },
    /// Another value of an attribute, or none.
    Attr { name: String, value: Option<String> },
    /// Another value of an omap key, or none.
    Omap { key: String, value: Option<String> },
    /// Another value of an attribute, as hexadecimal digits: for records (`_`, `snapset`), as `dump` shows them.
    RawAttr { name: String, hex: String },
    /// The object is gone.
    Remove,
    /// A clone that no head names: a copy of the object at this snapshot, with a record of its own.
    ExtraClone { snap: u64 },
}
