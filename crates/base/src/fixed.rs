//! Hash maps that name their hasher: the standard one hashes differently in each map, so whatever walks over it does something else each time.
//!
//! Holds names, no hasher. `clippy.toml` bans the standard names in cores.

#![allow(clippy::disallowed_types)] // the one place that names them

/// As the standard library's, without its default hasher.
pub type HashMap<K, V, S> = std::collections::HashMap<K, V, S>;
/// As the standard library's, without its default hasher.
pub type HashSet<T, S> = std::collections::HashSet<T, S>;
