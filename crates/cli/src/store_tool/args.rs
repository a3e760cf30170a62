//! The arguments of `humboldt store`.

use clap::Subcommand;
use std::path::PathBuf;

/// Inspect, check, repair, export or import the store of an OSD that is not running.
#[derive(Debug, clap::Args)]
pub struct StoreArgs {
    /// The OSD's folder, such as humboldt-data/osd.0.
    #[arg(long)]
    pub dir: PathBuf,
    #[command(subcommand)]
    pub action: StoreTool,
}

#[derive(Debug, Subcommand)]
pub enum StoreTool {
    /// Check the store: space that is leaked or used twice, shared data, omap, logs of placement groups, counters. Changes nothing.
    Fsck {
        /// Also read all data, and compare them with their checksums.
        #[arg(long)]
        deep: bool,
    },
    /// Check, and rebuild what follows from the objects: free space, shared data, counters. Names what is damaged for good.
    Repair {
        /// If a record of the log is damaged, end the log there. The writes behind it are lost, acknowledged or not; they are named.
        #[arg(long)]
        discard_log_from_damage: bool,
    },
    /// Show size, use, and the state of the log.
    Stat,
    /// Make the store larger: it takes the whole of its devices, which may have grown. A store never becomes smaller.
    Grow {
        /// New size of its file of data, such as 32G.
        #[arg(long, value_parser = crate::args::parse_size)]
        size: Option<u64>,
    },
    /// Give all free room back: a device is told what it may forget (TRIM), a file gets holes. Says how many bytes that are.
    Trim,
    /// Bring a store of an older humboldt to this version: it fills better, and snapshots cost less. The older program can't open it
    /// any more.
    Finalize,
    /// List all objects: collection, size, name.
    List,
    /// Show one object: size, attributes, omap, extents.
    Dump {
        /// The name as `list` shows it, or a plain object's name.
        object: String,
    },
    /// Show what the store knows of a placement group: its log, duplicates, missing objects.
    Log {
        /// Such as 2.1f.
        group: String,
    },
    /// Copy everything into a file.
    Export {
        /// The file, which must not exist yet; `-` is standard output.
        file: PathBuf,
        /// Leave out what is damaged, and name it on standard error. The exit status is then 3.
        #[arg(long)]
        skip_damaged: bool,
    },
    /// Put what was exported into this store. Objects of the same name are replaced.
    Import {
        /// The file; `-` is standard input.
        file: PathBuf,
    },
    /// Change an object without the OSD's knowledge, to test scrub and repair.
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
