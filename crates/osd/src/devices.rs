//! The block devices under an OSD: their names, the ids that managers know them by, and what they say of their health.
//!
//! Holds no decision: what is asked comes from `osd-core`. Files have no device of their own, as with Ceph. Source of the facts: Ceph 18.2
//! `src/common/blkdev.cc` (what an id is made of, what is asked of `smartctl`), `src/osd/OSD.cc` (what is answered), and
//! systemd's database of devices (`/run/udev/data/bMAJOR:MINOR`, lines `E:NAME=VALUE`).

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use types::errno::EINVAL;

/// What a program may say.
const OUTPUT_MAX: u64 = 100 << 10;
/// Bits of `smartctl`'s exit status that say it could not do its work; the others tell of the device.
const SMARTCTL_FAILED: i32 = 1 | 2;
/// Layers of logical devices.
const DEPTH_MAX: usize = 8;

/// The name in `/dev` of the block device that this is, or that the file lies on, for people. File systems without a device of their own have none.
pub fn below(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    let number = if meta.file_type().is_block_device() { meta.rdev() } else { meta.dev() };
    let entry = format!("/sys/dev/block/{}:{}", number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xfff_ff00);
    Some(fs::canonicalize(entry).ok()?.file_name()?.to_string_lossy().into_owned())
}

/// Where the system tells of devices: `/`, or a folder in tests.
#[derive(Debug, Clone)]
pub struct Machine(pub PathBuf);

impl Machine {
    pub fn this() -> Self {
        Self("/".into())
    }
    fn text(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.0.join(path)).ok()?.trim().to_string()).filter(|t| !t.is_empty())
    }

    /// The physical devices of files and devices, by their names in `/dev`.
    pub fn below<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        for path in paths {
            let Ok(real) = path.canonicalize() else { continue };
            let is_device = fs::metadata(&real).is_ok_and(|m| m.file_type().is_block_device());
            if let Some(name) = real.file_name().and_then(|n| n.to_str()).filter(|_| is_device) {
                self.physical(name, DEPTH_MAX, &mut out);
            }
        }
        out
    }
    /// The physical devices of the device of this name.
    pub fn physical_below(&self, name: &str) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        self.physical(name, DEPTH_MAX, &mut out);
        out
    }
    /// A text that the kernel has of a device, such as `queue/rotational`.
    pub fn about(&self, dev: &str, what: &str) -> Option<String> {
        self.text(&format!("sys/class/block/{dev}/{what}"))
    }
    /// What a partition is of, what a logical device lies on.
    fn physical(&self, name: &str, depth: usize, out: &mut BTreeSet<String>) {
        let sys = self.0.join("sys/class/block").join(name);
        if name.starts_with("dm-") && depth > 0 {
            for slave in fs::read_dir(sys.join("slaves")).into_iter().flatten().flatten() {
                self.physical(&slave.file_name().to_string_lossy(), depth - 1, out);
            }
        } else if sys.join("partition").exists()
            && let Some(disk) = sys.canonicalize().ok().as_deref().and_then(Path::parent).and_then(Path::file_name)
        {
            out.insert(disk.to_string_lossy().into_owned());
        } else {
            out.insert(name.into());
        }
    }

    fn properties(&self, dev: &str) -> BTreeMap<String, String> {
        let number = self.text(&format!("sys/class/block/{dev}/dev")).unwrap_or_default();
        let data = self.text(&format!("run/udev/data/b{number}")).unwrap_or_default();
        let pairs = data.lines().filter_map(|l| l.strip_prefix("E:")?.split_once('='));
        pairs.filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }
    /// Model and serial number in one word; None for a device that has no number.
    pub fn id(&self, dev: &str) -> Option<String> {
        let p = self.properties(dev);
        let get = |name: &str| p.get(name).cloned();
        let model = match get("ID_MODEL") {
            // A volume's label; the device's own name is in the other one.
            Some(m) if m.starts_with("LVM PV ") => get("ID_MODEL_ENC").map(|enc| decoded(&enc)),
            other => other,
        };
        let id = match (get("ID_VENDOR"), model, get("ID_SCSI_SERIAL"), get("ID_SERIAL_SHORT"), get("ID_SERIAL")) {
            (Some(vendor), Some(model), Some(serial), ..) => format!("{vendor}_{model}_{serial}"),
            (_, Some(model), _, Some(serial), _) => format!("{model}_{serial}"),
            (.., Some(serial)) if serial.starts_with("MTFD") => format!("Micron_{serial}"),
            (.., Some(serial)) => serial,
            _ => {
                let own = |what: &str| self.text(&format!("sys/class/block/{dev}/device/{what}"));
                format!("{}_{}", own("model")?, own("serial")?)
            }
        };
        Some(id.replace(' ', "_"))
    }
    /// A name that stays with the slot.
    fn path(&self, dev: &str) -> Option<String> {
        let mut links: Vec<_> = fs::read_dir(self.0.join("dev/disk/by-path")).ok()?.flatten().collect();
        links.sort_by_key(|l| l.file_name());
        let to = |l: &fs::DirEntry| fs::read_link(l.path()).is_ok_and(|to| to.file_name() == Some(dev.as_ref()));
        links.iter().find(|l| to(l)).map(|l| format!("/dev/disk/by-path/{}", l.file_name().to_string_lossy()))
    }
    fn vendor(&self, dev: &str) -> Option<String> {
        let p = self.properties(dev);
        let first = |m: &String| m.split(' ').next().unwrap_or_default().to_lowercase();
        let own = |what: &str| self.text(&format!("sys/class/block/{dev}/device/{what}"));
        p.get("ID_VENDOR").map(|v| v.to_lowercase()).or_else(|| p.get("ID_MODEL").map(first)).or_else(|| own("vendor"))
    }

    /// `devices`, `device_ids` and `device_paths` of an OSD's metadata.
    pub fn metadata(&self, devices: &BTreeSet<String>) -> [(&'static str, String); 3] {
        let list = |of: &dyn Fn(&str) -> Option<String>| {
            devices.iter().filter_map(|d| Some(format!("{d}={}", of(d)?))).collect::<Vec<_>>().join(",")
        };
        let names = devices.iter().cloned().collect::<Vec<_>>().join(",");
        [("devices", names), ("device_ids", list(&|d| self.id(d))), ("device_paths", list(&|d| self.path(d)))]
    }
    /// The answer to `list_devices`.
    pub fn list(&self, devices: &BTreeSet<String>) -> Value {
        devices.iter().map(|d| json!({ "device": format!("/dev/{d}"), "device_id": self.id(d).unwrap_or_default() })).collect()
    }
    /// The answer to `smart`: what each device says of itself, by its id. Without `only` all that have one. Waits for programs.
    pub fn smart(&self, devices: &BTreeSet<String>, only: &str, timeout_s: u64) -> Value {
        let ids = devices.iter().filter_map(|d| Some((d, self.id(d)?))).filter(|(_, id)| only.is_empty() || id == only);
        Value::Object(ids.map(|(d, id)| (id, self.health(d, timeout_s))).collect())
    }
    fn health(&self, dev: &str, timeout_s: u64) -> Value {
        let at = format!("/dev/{dev}");
        let mut all = match run("smartctl", &["-x", "--json=o", &at], timeout_s, SMARTCTL_FAILED) {
            Ok(said) => match serde_json::from_str(&said) {
                Ok(Value::Object(all)) => all,
                _ => object(json!({ "error": "smartctl returned invalid JSON", "dev": at, "output": said })),
            },
            Err(why) => object(json!({ "error": "smartctl failed", "dev": at, "smartctl_error_code": -EINVAL, "smartctl_output": why })),
        };
        let Some(vendor) = self.vendor(dev) else {
            all.insert("nvme_vendor".into(), json!("unknown"));
            return Value::Object(all);
        };
        let key = |end: &str| format!("nvme_smart_health_information_add_log{end}");
        match run("nvme", &[&vendor, "smart-log-add", "--json", &at], timeout_s, !0) {
            Ok(said) => match serde_json::from_str::<Value>(&said) {
                Ok(log) => drop(all.insert(key(""), log)),
                Err(_) => drop(all.insert(key("_error"), json!(format!("bad json output: {said}")))),
            },
            Err(why) => {
                all.insert(key("_error_code"), json!(-EINVAL));
                all.insert(key("_error"), json!(why));
            }
        }
        all.insert("nvme_vendor".into(), json!(vendor));
        Value::Object(all)
    }
}

fn object(v: Value) -> Map<String, Value> {
    let Value::Object(o) = v else { unreachable!("written as an object") };
    o
}

/// What udev writes for blanks, undone, and runs of them made one.
fn decoded(enc: &str) -> String {
    enc.replace("\\x20", " ").split(' ').filter(|w| !w.is_empty()).collect::<Vec<_>>().join("_")
}

/// What a program says, or why it said nothing: it could not be run, took too long, or ended with one of the bits of `bad`.
fn run(program: &str, args: &[&str], timeout_s: u64, bad: i32) -> Result<String, String> {
    // Devices answer to root. `timeout` ends what hangs on a broken one, with 124, and with 127 where there is no such program.
    let root = fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    let mut cmd = Command::new("timeout");
    cmd.args(["-k", "1", &timeout_s.max(1).to_string()])
        .args((!root).then_some(["sudo", "-n"]).into_iter().flatten())
        .arg(program)
        .args(args);
    let mut child = cmd
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("error spawning {program}: {e}"))?;
    let mut said = Vec::new();
    let read = child.stdout.take().expect("it is piped").take(OUTPUT_MAX).read_to_end(&mut said);
    let status = child.wait().map_err(|e| e.to_string())?;
    read.map_err(|e| format!("failed read {program} output: {e}"))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    match status.code() {
        Some(124) => Err(format!("{program} returned an error (124): stderr:\n{program}: timed out ({timeout_s} sec)\nstdout:\n{said}")),
        Some(code) if code & bad == 0 => Ok(said),
        Some(127) => {
            Err(format!("{program} returned an error (127): stderr:\n{program}: exec failed: (2) No such file or directory\nstdout:\n"))
        }
        code => {
            let code = code.map_or("signal".to_string(), |c| c.to_string());
            Err(format!("{program} returned an error ({code}): stderr:\n{program}: exit status: {code}\nstdout:\n{said}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_the_names_that_managers_know() {
        let root = std::env::temp_dir().join(format!("humboldt-devices-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let write = |path: &str, text: &str| {
            let at = root.join(path);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, text).unwrap();
        };
        let udev = |dev: &str, number: &str, text: &str| {
            write(&format!("sys/class/block/{dev}/dev"), &format!("{number}\n"));
            write(&format!("run/udev/data/b{number}"), text);
        };
        udev("sda", "8:0", "S:x\nE:ID_VENDOR=SEAGATE\nE:ID_MODEL=ST 4000\nE:ID_SCSI_SERIAL=Z1\nE:ID_SERIAL=gibberish\n");
        udev("nvme0n1", "259:0", "E:ID_MODEL=Pro Disk\nE:ID_SERIAL_SHORT=S2\nE:ID_SERIAL=Pro_Disk_S2\n");
        udev("sdb", "8:16", "E:ID_SERIAL=MTFDDAK\n");
        udev("sdc", "8:32", "E:ID_MODEL=LVM PV abc on /dev/sdc\nE:ID_MODEL_ENC=Real\\x20\\x20Name\\x20\nE:ID_SERIAL_SHORT=S4\n");
        udev("vda", "253:0", "E:ID_PATH=pci\n");
        write("sys/class/block/vdb/device/model", "Virtual one \n");
        write("sys/class/block/vdb/device/serial", "S6\n");
        write("sys/class/block/dm-0/slaves/sda", "");
        write("sys/class/block/dm-0/slaves/dm-1/x", "");
        write("sys/class/block/dm-1/slaves/sdb", "");
        write("sys/devices/pci/sdc/sdc1/partition", "1");
        std::os::unix::fs::symlink(root.join("sys/devices/pci/sdc/sdc1"), root.join("sys/class/block/sdc1")).unwrap();
        fs::create_dir_all(root.join("dev/disk/by-path")).unwrap();
        std::os::unix::fs::symlink("../../sda", root.join("dev/disk/by-path/pci-1")).unwrap();
        let m = Machine(root.clone());
        let ids = ["sda", "nvme0n1", "sdb", "sdc", "vda", "vdb", "none"].map(|d| m.id(d));
        let wanted = ["SEAGATE_ST_4000_Z1", "Pro_Disk_S2", "Micron_MTFDDAK", "Real_Name_S4", "", "Virtual_one_S6", ""];
        assert_eq!(ids.map(Option::unwrap_or_default), wanted);
        let physical = |name: &str| {
            let mut out = BTreeSet::new();
            m.physical(name, DEPTH_MAX, &mut out);
            out.into_iter().collect::<Vec<_>>()
        };
        assert_eq!([physical("dm-0"), physical("sdc1"), physical("vda")], [vec!["sda", "sdb"], vec!["sdc"], vec!["vda"]]);
        let two = BTreeSet::from(["sda".to_string(), "vda".to_string()]);
        let about = m.metadata(&two).map(|(_, v)| v);
        assert_eq!(about, ["sda,vda", "sda=SEAGATE_ST_4000_Z1", "sda=/dev/disk/by-path/pci-1"]);
        assert_eq!(m.list(&two)[1], json!({ "device": "/dev/vda", "device_id": "" }));
        assert_eq!(m.vendor("sda").as_deref(), Some("seagate"));
        // Nobody has a device of this name: whatever is installed, the device's place says that it could not be asked.
        assert_eq!(m.smart(&two, "another", 5), json!({}));
        udev("no-such-device", "9:9", "E:ID_SERIAL=N9\n");
        let told = m.smart(&BTreeSet::from(["no-such-device".to_string()]), "N9", 5);
        let told = &told["N9"];
        assert_eq!(
            (&told["error"], &told["smartctl_error_code"], &told["nvme_vendor"]),
            (&json!("smartctl failed"), &json!(-22), &json!("unknown"))
        );
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_program_is_believed_by_how_it_ends() {
        let sh = |line: &str, bad| run("sh", &["-c", line], 2, bad);
        assert_eq!(sh("echo {}; exit 64", SMARTCTL_FAILED).unwrap(), "{}\n");
        assert_eq!(
            sh("echo no; exit 2", SMARTCTL_FAILED).unwrap_err(),
            "sh returned an error (2): stderr:\nsh: exit status: 2\nstdout:\nno\n"
        );
        assert!(run("humboldt-no-such-program", &[], 2, SMARTCTL_FAILED).unwrap_err().contains("No such file or directory"));
        assert!(run("sleep", &["10"], 1, SMARTCTL_FAILED).unwrap_err().contains("timed out (1 sec)"));
    }
}
