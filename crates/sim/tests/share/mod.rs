//! The share of a run: `HUMBOLDT_SHARE=k/n`, which a short `cargo xtask test` sets, asks for the k-th of n parts of what takes long. No test of its own.

/// Two numbers with a sign between them.
pub fn pair(text: &str, between: char) -> (u64, u64) {
    let (a, b) = text.split_once(between).expect("two numbers");
    (a.parse().expect("a number"), b.parse().expect("a number"))
}

/// The part and how many there are: all of it, unless a share is asked for.
pub fn asked() -> (u64, u64) {
    let (k, n) = std::env::var("HUMBOLDT_SHARE").map_or((1, 1), |text| pair(&text, '/'));
    assert!(0 < k && k <= n, "share {k} of {n}");
    (k, n)
}

/// Those of a list that belong to the share.
pub fn of<T>(list: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let (k, n) = asked();
    list.into_iter().enumerate().filter(move |(place, _)| *place as u64 % n == k - 1).map(|(_, it)| it)
}
