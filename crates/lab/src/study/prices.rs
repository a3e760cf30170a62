//! What hardware costs: a study's own figures, or an item of the list that is shipped (`studies/prices.toml`).

use super::file::Price;
use serde::Deserialize;
use std::sync::LazyLock;

const SHIPPED: &str = include_str!("../../studies/prices.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    item: Vec<Item>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    name: String,
    price: f64,
    usable: String,
    watts: Option<f64>,
    source: String,
}

static LIST: LazyLock<List> = LazyLock::new(|| toml::from_str(SHIPPED).expect("a test reads it"));

/// A price with nothing left open.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    pub price: f64,
    /// As data sheets have it: powers of ten.
    pub terabytes: f64,
    pub watts: Option<f64>,
    pub source: String,
}

/// `2 TB`, `500 GB`: disks are sold by powers of ten.
fn terabytes(text: &str) -> Result<f64, String> {
    let (number, unit) = text.trim().split_once(' ').ok_or_else(|| format!("usable = {text}: a number and GB or TB are wanted"))?;
    let number: f64 = number.parse().ok().filter(|n| *n > 0.0).ok_or_else(|| format!("usable = {text}: a number above 0 is wanted"))?;
    match unit.trim() {
        "TB" => Ok(number),
        "GB" => Ok(number / 1000.0),
        other => Err(format!("usable = {text}: {other} is no unit of disks: GB or TB is wanted")),
    }
}

impl Price {
    pub fn settle(&self) -> Result<Settled, String> {
        let item = match &self.item {
            None => None,
            Some(name) => {
                let names = || LIST.item.iter().map(|i| i.name.as_str()).collect::<Vec<_>>().join(", ");
                Some(LIST.item.iter().find(|i| i.name == *name).ok_or_else(|| format!("no item is called {name}; there are {}", names()))?)
            }
        };
        let missing = |what: &str| format!("a price needs an item, or {what}");
        let price = self.price.or(item.map(|i| i.price)).filter(|p| *p > 0.0).ok_or_else(|| missing("a price above 0"))?;
        let usable = self.usable.as_deref().or(item.map(|i| i.usable.as_str())).ok_or_else(|| missing("usable"))?;
        let source = self.source.as_deref().or(item.map(|i| i.source.as_str())).ok_or_else(|| missing("a source"))?;
        Ok(Settled { price, terabytes: terabytes(usable)?, watts: self.watts.or(item.and_then(|i| i.watts)), source: source.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_the_list_are_settled_and_others_refused() {
        let of = |item: &str| Price { target: "t".into(), item: Some(item.into()), currency: "USD".into(), ..Price::default() };
        for item in &LIST.item {
            let settled = of(&item.name).settle().unwrap();
            assert!(settled.price > 0.0 && settled.terabytes > 0.0 && !settled.source.is_empty());
        }
        assert_eq!(of("2 TB HDD").settle().map(|s| s.price / s.terabytes), Ok(60.0));
        assert!(of("3 TB HDD").settle().is_err_and(|e| e.contains("2 TB HDD")));
        assert!(Price { price: Some(1.0), source: Some("s".into()), usable: Some("2 TiB".into()), ..Price::default() }.settle().is_err());
        assert!(Price::default().settle().is_err());
    }
}
