//! The studies that come with the program.

/// Names and files.
pub const ALL: &[(&str, &str)] = &[
    ("caches", include_str!("../../studies/caches.toml")),
    ("copies", include_str!("../../studies/copies.toml")),
    ("depths", include_str!("../../studies/depths.toml")),
    ("first-look", include_str!("../../studies/first-look.toml")),
    ("humboldt-block", include_str!("../../studies/humboldt-block.toml")),
    ("humboldt-mem", include_str!("../../studies/humboldt-mem.toml")),
    ("lasting", include_str!("../../studies/lasting.toml")),
    ("placement", include_str!("../../studies/placement.toml")),
    ("recovery", include_str!("../../studies/recovery.toml")),
    ("releases", include_str!("../../studies/releases.toml")),
    ("stores", include_str!("../../studies/stores.toml")),
    ("vm", include_str!("../../studies/vm.toml")),
];

/// A study's text by its name.
pub fn find(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}
