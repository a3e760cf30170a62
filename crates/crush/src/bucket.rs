//! A bucket: an inner node of the tree, its items, and what its way of choosing needs to know of their weights.

/// How a bucket chooses among its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Alg {
    Uniform = 1,
    List = 2,
    Tree = 3,
    Straw = 4,
    Straw2 = 5,
}

impl Alg {
    pub fn from_u8(v: u8) -> Option<Self> {
        Some(match v {
            1 => Self::Uniform,
            2 => Self::List,
            3 => Self::Tree,
            4 => Self::Straw,
            5 => Self::Straw2,
            _ => return None,
        })
    }
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::List => "list",
            Self::Tree => "tree",
            Self::Straw => "straw",
            Self::Straw2 => "straw2",
        }
    }
}

/// The weights of a bucket's items (16.16 fixed point), in the form that its algorithm keeps. Vectors are as long as the items unless said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Weights {
    /// One weight for all.
    Uniform {
        item_weight: u32,
    },
    /// `sum_weights[i]` is the sum of `item_weights[..=i]`.
    List {
        item_weights: Vec<u32>,
        sum_weights: Vec<u32>,
    },
    /// A binary tree of sums; item `i` is node `2i + 1`. At most 255 nodes.
    Tree {
        node_weights: Vec<u32>,
    },
    /// `straws` are lengths made from the weights when the map was built.
    Straw {
        item_weights: Vec<u32>,
        straws: Vec<u32>,
    },
    Straw2 {
        item_weights: Vec<u32>,
    },
}

/// `crush_bucket`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Negative; bucket -1-i stands at place i of the map.
    pub id: i32,
    /// The level of the tree: a key of [`crate::CrushMap::type_names`], above 0.
    pub kind: u16,
    /// The hash function: 0 is rjenkins1, there is no other.
    pub hash: u8,
    /// Sum of the items' weights.
    pub weight: u32,
    /// Children: buckets below 0, devices (OSDs) from 0.
    pub items: Vec<i32>,
    pub weights: Weights,
}

impl Bucket {
    /// An empty straw2 bucket.
    pub fn straw2(id: i32, kind: u16) -> Self {
        Self { id, kind, hash: 0, weight: 0, items: Vec::new(), weights: Weights::Straw2 { item_weights: Vec::new() } }
    }
    pub fn alg(&self) -> Alg {
        match self.weights {
            Weights::Uniform { .. } => Alg::Uniform,
            Weights::List { .. } => Alg::List,
            Weights::Tree { .. } => Alg::Tree,
            Weights::Straw { .. } => Alg::Straw,
            Weights::Straw2 { .. } => Alg::Straw2,
        }
    }
    pub fn len(&self) -> usize {
        self.items.len()
    }
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    pub fn position(&self, item: i32) -> Option<usize> {
        self.items.iter().position(|i| *i == item)
    }
    /// The weight of the item at `pos`; 0 past the end.
    pub fn item_weight(&self, pos: usize) -> u32 {
        match &self.weights {
            Weights::Uniform { item_weight } => *item_weight,
            Weights::List { item_weights, .. } | Weights::Straw { item_weights, .. } | Weights::Straw2 { item_weights } => {
                item_weights.get(pos).copied().unwrap_or(0)
            }
            Weights::Tree { node_weights } => node_weights.get(2 * pos + 1).copied().unwrap_or(0),
        }
    }
    /// All items with their weights.
    pub fn weighted(&self) -> impl Iterator<Item = (i32, u32)> + '_ {
        self.items.iter().enumerate().map(|(pos, item)| (*item, self.item_weight(pos)))
    }

    /// Replaces the content, rebuilding what the algorithm derives from the weights.
    pub fn set_content(&mut self, content: &[(i32, u32)]) {
        let weights: Vec<u32> = content.iter().map(|(_, w)| *w).collect();
        self.items = content.iter().map(|(item, _)| *item).collect();
        self.weight = weights.iter().fold(0_u32, |sum, w| sum.saturating_add(*w));
        match &mut self.weights {
            Weights::Uniform { item_weight } => {
                *item_weight = weights.first().copied().unwrap_or(*item_weight);
                self.weight = (weights.len() as u32).saturating_mul(*item_weight);
            }
            Weights::List { item_weights, sum_weights } => {
                *sum_weights = weights
                    .iter()
                    .scan(0_u32, |sum, w| {
                        *sum = sum.saturating_add(*w);
                        Some(*sum)
                    })
                    .collect();
                *item_weights = weights;
            }
            Weights::Tree { node_weights } => *node_weights = tree_sums(&weights),
            Weights::Straw { item_weights, straws } => {
                *straws = straw_lengths(&weights);
                *item_weights = weights;
            }
            Weights::Straw2 { item_weights } => *item_weights = weights,
        }
    }
}

/// Nodes of the tree over `weights`: leaves at odd places, a node `n` at height h sums its children `n ± 2^(h-1)`.
fn tree_sums(weights: &[u32]) -> Vec<u32> {
    if weights.is_empty() {
        return Vec::new();
    }
    let mut nodes = vec![0_u32; 2 * weights.len().next_power_of_two()];
    for (i, weight) in weights.iter().enumerate() {
        nodes[2 * i + 1] = *weight;
    }
    let mut half = 1;
    while 2 * half < nodes.len() {
        for n in (2 * half..nodes.len()).step_by(4 * half) {
            nodes[n] = nodes[n - half].saturating_add(nodes[n + half]);
        }
        half *= 2;
    }
    nodes
}

/// Straw lengths (16.16) as `straw_calc_version` 1 makes them: items sorted by weight, each step up stretches the straws of the heavier ones
/// so that the chance to win fits the weights below.
fn straw_lengths(weights: &[u32]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|i| weights[*i]);
    let mut straws = vec![0_u32; weights.len()];
    let (mut straw, mut below, mut last) = (1.0_f64, 0.0_f64, 0.0_f64);
    let mut left = weights.len();
    for (at, &i) in order.iter().enumerate() {
        if weights[i] == 0 {
            left -= 1;
            continue;
        }
        straws[i] = (straw * 65536.0) as u32;
        let Some(&next) = order.get(at + 1) else { break };
        below += (f64::from(weights[i]) - last) * left as f64;
        left -= 1;
        let step = left as f64 * (f64::from(weights[next]) - f64::from(weights[i]));
        let chance_below = below / (below + step);
        straw *= (1.0 / chance_below).powf(1.0 / left as f64);
        last = f64::from(weights[i]);
    }
    straws
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_nodes_sum_their_children() {
        assert_eq!(tree_sums(&[1, 2, 4]), [0, 1, 3, 2, 7, 4, 4, 0]);
    }

    #[test]
    fn equal_weights_have_equal_straws() {
        assert_eq!(straw_lengths(&[0x10000, 0, 0x10000]), [0x10000, 0, 0x10000]);
    }
}
