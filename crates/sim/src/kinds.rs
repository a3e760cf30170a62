//! Kinds of faults, in one table: a row is a name in plans, and a kind that [`crate::faults`] has an arm for.
//!
//! The order counts: seeds draw which of the first `DRAWN` they have. A new row stands behind all others, and plans draw it apart.

/// How often something happens while there are faults: once in so many virtual milliseconds; 0: never.
pub type EveryMs = u64;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $kind:ident,)*) => {
        /// A kind of fault whose time has come.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fault {
            $($kind,)*
            /// The end of two of them.
            UnpauseFlag,
            Unflag,
        }

        /// How often each kind comes in a plan.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Every {
            $($(#[$doc])* pub $name: EveryMs,)*
        }

        impl Every {
            /// The kinds by name: what `--shrink` takes away one at a time.
            pub fn faults(&mut self) -> [(&'static str, Fault, &mut EveryMs); [$(stringify!($name)),*].len()] {
                [$((stringify!($name), Fault::$kind, &mut self.$name)),*]
            }
        }
    };
}

kinds! {
    kill_osd: KillOsd,
    kill_mon: KillMon,
    kill_client: KillClient,
    cut: Cut,
    /// Links that carry nothing for a while, one way or both.
    partition: Partition,
    /// An OSD that does nothing for a while and then goes on.
    pause_osd: PauseOsd,
    osd_down_command: OsdDownCommand,
    pg_num_changes: PgNum,
    pause_flag: PauseFlag,
    /// An OSD is taken out of placement, and comes in again.
    out_in: OutIn,
    /// The pool gets another number of copies.
    size_changes: Size,
    /// An OSD reaches neither the others nor the monitor, while clients reach it, one of which does not hear of newer maps.
    isolate: Isolate,
    /// An OSD's clock on the wall jumps.
    clock_jumps: ClockJump,
    /// One of noup, nodown, noout, noin is set for a while.
    flags: Flag,
    reweight: Reweight,
    affinity: Affinity,
    upmap: Upmap,
    pg_temp: PgTemp,
    min_size_changes: MinSize,
    make_snap: MakeSnap,
    remove_snap: RemoveSnap,
    /// Another pool is made or removed.
    other_pools: OtherPool,
    /// A write or a flush of an OSD's device fails.
    disk_errors: DiskError,
    /// Something that lies on one OSD's device changes, or can't be read: never on two OSDs in a run.
    rot: Rot,
    /// An OSD's device is slow for a while.
    slow_disk: SlowDisk,
    /// A group is scrubbed or repaired.
    scrubs: Scrub,
    /// A primary is cut off or stopped and loses its group, while one client knows no other and reads there.
    fence: Fence,
    /// An operator wants a group recovered or filled before others, or no longer.
    force: Force,
    /// An OSD is added; one is emptied while all is clean; one is lost with its device.
    add_osd: AddOsd,
    empty_osd: EmptyOsd,
    lose_osd: LoseOsd,
    /// An OSD is put out and stays away for minutes.
    long_away: LongAway,
    /// An address of nobody is blocklisted for a while.
    blocklist: Blocklist,
    /// An OSD's store vanishes, while it runs or with it; two OSDs find each other's stores at their starts.
    vanish_store: VanishStore,
    swap_stores: SwapStores,
    /// A client shuts out another one that writes.
    bar: Bar,
    /// A client or an OSD hears of no map until the monitor has trimmed what it needs.
    gap: Gap,
    /// All members of a group are exchanged, and the old ones die at the next acknowledgement.
    exchange: Exchange,
}
