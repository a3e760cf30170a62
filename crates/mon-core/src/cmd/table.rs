//! Tables for people: columns with a heading and an alignment, as wide as their widest cell, two blanks between them. And figures.

/// Which side of its column a text stands at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}
use Side::{Left, Right};

/// A table being filled.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(String, Side, Side)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Columns with their headings; `<` in front of a heading puts heading and cells to the left, `>` to the right, none puts the
    /// heading left and the cells right.
    pub fn new(headings: &[&str]) -> Self {
        let column = |h: &&str| match (h.strip_prefix('<'), h.strip_prefix('>')) {
            (Some(h), _) => (h.to_string(), Left, Left),
            (_, Some(h)) => (h.to_string(), Right, Right),
            _ => (h.to_string(), Left, Right),
        };
        Self { columns: headings.iter().map(column).collect(), rows: Vec::new() }
    }
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
    /// Lines, each padded to the full width, the last ended too.
    pub fn text(&self) -> String {
        let width: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, (h, ..))| self.rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count()).max().unwrap_or(0).max(h.len()))
            .collect();
        let mut out = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = (&str, Side)>| {
            for (i, (text, side)) in cells.enumerate() {
                let w = width[i];
                out += if i == 0 { "" } else { "  " };
                out += &if side == Left { format!("{text:<w$}") } else { format!("{text:>w$}") };
            }
            out.push('\n');
        };
        line(&mut self.columns.iter().map(|(h, side, _)| (h.as_str(), *side)));
        for row in &self.rows {
            line(&mut self.columns.iter().enumerate().map(|(i, (_, _, side))| (row.get(i).map_or("", String::as_str), *side)));
        }
        out
    }
}

/// A number in steps of `step`: whole multiples without a fraction, others with as many digits as fit into `room` characters.
fn scaled(n: u64, step: u64, units: &[&str], room: usize) -> String {
    let (mut unit, mut multiple) = (0, 1u64);
    while unit + 1 < units.len() && n / multiple >= step {
        multiple *= step;
        unit += 1;
    }
    if n % multiple == 0 {
        return format!("{}{}", n / multiple, units[unit]);
    }
    let value = n as f64 / multiple as f64;
    let fits = (0..=2).rev().map(|digits| format!("{value:.digits$}{}", units[unit])).find(|t| t.len() <= room);
    fits.unwrap_or_else(|| format!("{value:.0}{}", units[unit]))
}
/// Bytes as people read them: `19 B`, `25 KiB`, `7.6 GiB`, `8 GiB`.
pub fn bytes_text(n: u64) -> String {
    scaled(n, 1024, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"], 7)
}
/// Counts as people read them: `2`, `12.35k`.
pub fn count_text(n: u64) -> String {
    scaled(n, 1000, &["", "k", "M", "G", "T", "P", "E"], 7)
}
/// A ratio in percent: at most two digits behind the point, none that are 0.
pub fn percent_text(ratio: f64) -> String {
    let pct = ratio * 100.0;
    if pct < 0.005 || !pct.is_finite() { "0".into() } else { format!("{pct:.2}") }
}
/// A weight (16.16 fixed point) with five digits.
pub fn weight_text(weight: u32) -> String {
    format!("{:.5}", f64::from(weight) / 65536.0)
}
/// OSDs as `[0,1]`.
pub fn osds_text(osds: &[i32]) -> String {
    let list: Vec<String> = osds.iter().map(|o| if *o == crush::ITEM_NONE { "NONE".into() } else { o.to_string() }).collect();
    format!("[{}]", list.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_few_digits() {
        let bytes = [0, 19, 1024, 25_695, 8 << 30, (8u64 << 30) - 25_695, 8_160_000_000].map(bytes_text);
        assert_eq!(bytes, ["0 B", "19 B", "1 KiB", "25 KiB", "8 GiB", "8.0 GiB", "7.6 GiB"]);
        assert_eq!([2, 999, 1000, 12_345].map(count_text), ["2", "999", "1k", "12.35k"]);
        assert_eq!([0.0, 0.00001, 0.5].map(percent_text), ["0", "0", "50.00"]);
    }

    #[test]
    fn columns_are_aligned() {
        let mut t = Table::new(&["<ID", ">SIZE", "N"]);
        t.row(vec!["a".into(), "1 GiB".into(), "100".into()]);
        assert_eq!(t.text(), "ID   SIZE  N  \na   1 GiB  100\n");
    }
}
