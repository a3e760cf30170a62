//! Before anything starts: is there memory and disk for a plan, and is nothing lost that lies on its devices? An error names the place in
//! the study that asks for too much.

use super::{Plan, Setup};
use crate::run::Options;
use crate::study::file::Device;
use crate::study::{Study, StudyError};
use crate::target::{Kind, device};
use crate::value::{parse_size, show_size};
use crate::{sample, sys};
use anyhow::Result;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What stock's and our stores make in a folder where no device is named, by experience with short loads: sparse files count as they fill.
const PLAIN_BYTES: u64 = 1 << 30;

/// The study's devices, with those marked that `--may-destroy` names.
pub fn devices(study: &Study, may_destroy: &[PathBuf]) -> Vec<Device> {
    let named = |d: &Device| d.path.as_ref().is_some_and(|p| may_destroy.iter().any(|m| m == Path::new(p)));
    study.devices.iter().map(|d| d.get_ref()).map(|d| Device { may_destroy: named(d), ..d.clone() }).collect()
}

/// What there is: bytes of memory, and of disk below the folders that are asked for.
pub struct There {
    pub memory: u64,
    pub disk: u64,
}

/// How large a device is to be; bytes.
fn bytes(device: &Device) -> u64 {
    device.size.as_deref().and_then(|s| parse_size(s).ok()).unwrap_or(0)
}

/// Bytes of disk that the plan's targets take at most, and the device that takes most of it.
pub fn disk_bytes(study: &Study, plan: &Plan) -> u64 {
    let of_disk = |d: &&Device| matches!(d.kind.as_str(), "loop" | "file");
    let of = |setup: &Setup| -> u64 {
        let named: u64 = study.devices.iter().map(|d| d.get_ref()).filter(|d| setup.uses(&d.name)).filter(of_disk).map(bytes).sum();
        let keeps = matches!(setup.kind, Kind::Humboldt | Kind::Ceph | Kind::Glusterfs) && setup.store != "mem";
        named + if keeps && setup.data.is_none() { PLAIN_BYTES * u64::from(setup.osds.max(setup.replicas)) } else { 0 }
    };
    plan.setups().into_iter().map(of).sum()
}

/// What stands in the way, and where in the study.
pub fn lacks(study: &Study, plan: &Plan, there: &There) -> Option<(Range<usize>, String)> {
    let span = |setup: &Setup| study.targets.iter().find(|t| t.get_ref().name == setup.target).map_or(0..0, |t| t.span());
    if let Some(most) = plan.largest().filter(|s| s.memory_bytes() > there.memory) {
        let (wants, has) = (most.memory_bytes() >> 20, there.memory >> 20);
        return Some((span(most), format!("{} takes {wants} MiB of memory, and {has} MiB are there", most.show())));
    }
    let ram: Vec<_> = study.devices.iter().filter(|d| d.get_ref().kind == "ram").map(|d| (d, bytes(d.get_ref()))).collect();
    let of_ram = |used: &dyn Fn(&str) -> bool| -> u64 { ram.iter().filter(|(d, _)| used(&d.get_ref().name)).map(|(_, size)| size).sum() };
    let any_uses = |name: &str| plan.setups().into_iter().any(|s| s.uses(name));
    for (device, size) in ram.iter().filter(|(d, _)| any_uses(&d.get_ref().name)) {
        let name = &device.get_ref().name;
        // All that is in memory while the device is.
        let wants = if plan.all_up {
            plan.memory_bytes() + of_ram(&any_uses)
        } else {
            let at_once = |setup: &Setup| setup.memory_bytes() + of_ram(&|device| setup.uses(device));
            plan.setups().into_iter().filter(|s| s.uses(name)).map(at_once).max().unwrap_or(0)
        };
        if wants > there.memory {
            let (size, beside, has) = (show_size(*size), (wants - size) >> 20, there.memory >> 20);
            return Some((device.span(), format!("device {name} takes {size} of memory beside {beside} MiB, and {has} MiB are there")));
        }
    }
    let wants = disk_bytes(study, plan);
    (wants > there.disk).then(|| {
        let at = study.devices.first().map_or_else(|| study.name.span(), |d| d.span());
        (
            at,
            format!(
                "the targets take {} MiB of disk, and {} MiB are there: make devices smaller, or name another --scratch",
                wants >> 20,
                there.disk >> 20
            ),
        )
    })
}

/// All of it, on this machine.
pub fn check(study: &Study, text: &str, plan: &Plan, options: &Options) -> Result<()> {
    let wrong = |(span, message): (Range<usize>, String)| StudyError::at(&options.file, text, span, message);
    let base = options.scratch.as_deref().unwrap_or(&options.out);
    let existing = base.ancestors().find(|p| p.exists() && !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let there = There { memory: sample::memory().0, disk: sys::room(existing).unwrap_or(u64::MAX) };
    if let Some(lack) = lacks(study, plan, &there) {
        return Err(wrong(lack).into());
    }
    for (device, given) in devices(study, &options.may_destroy).iter().zip(&study.devices) {
        let used = plan.setups().into_iter().any(|s| s.uses(&device.name));
        if let Some(path) = device.path.as_ref().filter(|_| device.kind == "path" && used && !device.may_destroy)
            && let Err(e) = device::refuse_if_in_use(Path::new(path))
        {
            return Err(wrong((given.span(), format!("{e:#}"))).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Machine;
    use crate::value::Filter;

    const STUDY: &str = "lab = 1\nname = \"t\"\n[[device]]\nname = \"disk\"\nkind = \"loop\"\nsize = \"4 GiB\"\n[[device]]\nname = \"log\"\nkind = \"ram\"\n\
        size = \"2 GiB\"\n[[target]]\nname = \"a\"\nkind = \"humboldt\"\nmemory = \"1 GiB\"\ndata = \"disk\"\nwal = \"log\"\n[[load]]\ntool = \"humboldt bench\"\n";

    #[test]
    fn too_little_memory_or_disk_is_an_error_with_its_place() {
        let study = Study::parse("t", STUDY).unwrap();
        let machine = Machine::with_everything();
        let plan = Plan::new(&study, true, &Filter::default(), &machine);
        let says = |memory: u64, disk: u64| {
            lacks(&study, &plan, &There { memory, disk }).map(|(span, message)| StudyError::at("t", STUDY, span, message).to_string())
        };
        assert_eq!(says(4 << 30, 8 << 30), None);
        let beside = says(3 << 30, 8 << 30);
        assert!(
            beside
                .as_ref()
                .is_some_and(|e| e.starts_with("t:7:1: device log takes 2 GiB of memory beside 1124 MiB, and 3072 MiB are there")),
            "{beside:?}"
        );
        assert!(
            says(1 << 30, 8 << 30).is_some_and(|e| e.starts_with("t:11:1: a takes 1124 MiB of memory")),
            "{:?}",
            says(1 << 30, 8 << 30)
        );
        assert!(
            says(3 << 29, 8 << 30).is_some_and(|e| e.starts_with("t:7:1: device log takes 2 GiB of memory")),
            "{:?}",
            says(3 << 29, 8 << 30)
        );
        assert!(
            says(4 << 30, 1 << 30).is_some_and(|e| e.starts_with("t:3:1: the targets take 4096 MiB of disk")),
            "{:?}",
            says(4 << 30, 1 << 30)
        );
    }
}
