//! What to do about a health check: one line that says what it means for the data, and the next step.

/// Codes and their lines.
const ADVICE: &[(&str, &str)] = &[
    (
        "OSD_DOWN",
        "The OSDs below do not answer. Start each OSD again, or look at its machine. Other copies, if there are any, serve the data meanwhile.",
    ),
    ("OSD_HOST_DOWN", "All OSDs of a machine are down: look at its power and its network first."),
    ("OSD_FULL", "Writes are refused until there is room. Delete data, add an OSD, or move data off the OSDs below."),
    ("OSD_NEARFULL", "The OSDs below are soon full, and writes will be refused. Add room or delete data now."),
    ("OSD_BACKFILLFULL", "No data is moved to the OSDs below. Add room before another OSD fails."),
    (
        "OSD_FLAGS",
        "Somebody keeps OSDs from being marked up, down, in or out. Take the flags back when the work is done: ceph osd unset-group.",
    ),
    ("OSDMAP_FLAGS", "A flag of the whole cluster is set, usually for maintenance. Take it back when that is done: ceph osd unset FLAG."),
    ("OSD_NO_DOWN_OUT_INTERVAL", "An OSD that stays down is never marked out, so its data is not copied elsewhere by itself."),
    ("TOO_FEW_OSDS", "New pools ask for more copies than there are OSDs. Add OSDs, or set osd_pool_default_size lower."),
    ("PG_AVAILABILITY", "Some data can be neither read nor written. Bring back the OSDs that are down."),
    ("PG_DEGRADED", "Some data has fewer copies than it should, and is served. It heals by itself once enough OSDs are up; see Recovery."),
    ("PG_DAMAGED", "A scrub found copies that differ or can't be read. Run ceph pg repair on the groups below, and check the disks."),
    ("OSD_SCRUB_ERRORS", "Scrubs found errors. Run ceph pg repair on the groups that are inconsistent."),
    ("OBJECT_UNFOUND", "The newest copy of some objects is on an OSD that is down. Bring it back before anything else."),
    ("OBJECT_MISPLACED", "Data is on its way to where it belongs. Nothing is lost; wait."),
    ("PG_RECOVERY_FULL", "An OSD has no room for copies that are to be made. Add room."),
    ("PG_BACKFILL_FULL", "An OSD has no room for data that is to be moved there. Add room."),
    ("PG_NOT_SCRUBBED", "Some groups were not compared for long. Scrubs may be switched off, or the machine may be too busy."),
    ("PG_NOT_DEEP_SCRUBBED", "Some groups were not read through for long, so rot would not be noticed. Let scrubs run."),
    ("POOL_FULL", "Writes to the pool are refused until there is room. Raise its quota, or delete data."),
    ("POOL_NEAR_FULL", "The pool is close to its quota."),
    ("POOL_NO_REDUNDANCY", "The pool keeps one copy: a failed disk loses its data. With more OSDs: ceph osd pool set POOL size 2."),
    ("POOL_APP_NOT_ENABLED", "Say what the pool is for, so that clients find it: ceph osd pool application enable POOL rbd."),
    ("POOL_SCRUB_FLAGS", "Scrubs of a pool are switched off, so rot would not be noticed."),
    ("POOL_PG_NUM_NOT_POWER_OF_TWO", "Groups of the pool differ in size. Set pg_num to a power of two when it suits."),
    (
        "SLOW_OPS",
        "Requests wait for longer than they may. Look at the OSDs named: a slow disk, a full queue, or a peer that does not answer.",
    ),
    ("MGR_DOWN", "No manager is active, so figures are not renewed. Data is served."),
    ("MON_DOWN", "A monitor is out of the quorum. Data is served while more than half of them are there."),
    ("MON_CLOCK_SKEW", "Clocks of monitors differ. Check their time service."),
    ("MDS_ALL_DOWN", "A file system has no metadata server: start one."),
    ("MDS_UP_LESS_THAN_MAX", "A file system has fewer metadata servers than it may have: start another."),
    ("FS_DEGRADED", "A file system is not fully served. Look at its metadata servers."),
    ("MDS_INSUFFICIENT_STANDBY", "No metadata server waits to take over: start another."),
    ("BLUESTORE_SPURIOUS_READ_ERRORS", "A store returned damaged data, which was noticed. Scrub deeply, and plan to replace the disk."),
    ("RECENT_CRASH", "A daemon crashed. See ceph crash ls; archive what you have read."),
    ("AUTH_INSECURE_GLOBAL_ID_RECLAIM", "Old clients reconnect in a way that others could copy. Update them."),
    (
        "AUTH_INSECURE_GLOBAL_ID_RECLAIM_ALLOWED",
        "Old clients may reconnect insecurely. Once all are updated: ceph config set mon auth_allow_insecure_global_id_reclaim false",
    ),
];

/// The line for a code; empty if there is none.
pub fn of(code: &str) -> &'static str {
    ADVICE.iter().find(|(c, _)| *c == code).map_or("", |(_, text)| text)
}
