//! Flame graphs: stacks as boxes, each as wide as its share of the samples, standing on its caller. Names are read on hovering where they
//! don't fit (`<title>`): no script.

use crate::profile::Folded;
use maud::{Markup, html};
use std::collections::BTreeMap;

const WIDTH: f64 = 1000.0;
const ROW: f64 = 15.0;
/// Boxes that are narrower are left out.
const NARROWEST: f64 = 0.8;
const DEEPEST: usize = 60;
/// Width of a letter, about.
const LETTER: f64 = 6.2;

#[derive(Default)]
struct Node {
    samples: u64,
    children: BTreeMap<String, Node>,
}

struct Box<'a> {
    name: &'a str,
    samples: u64,
    x: f64,
    width: f64,
    depth: usize,
}

fn tree(folded: &Folded) -> Node {
    let mut root = Node::default();
    for (stack, n) in &folded.0 {
        let mut at = &mut root;
        at.samples += n;
        for frame in stack.split(';').take(DEEPEST) {
            at = at.children.entry(frame.to_string()).or_default();
            at.samples += n;
        }
    }
    root
}

fn lay<'a>(node: &'a Node, x: f64, depth: usize, scale: f64, out: &mut Vec<Box<'a>>) {
    let mut x = x;
    for (name, child) in &node.children {
        let width = child.samples as f64 * scale;
        if width >= NARROWEST {
            out.push(Box { name, samples: child.samples, x, width, depth });
            lay(child, x, depth + 1, scale, out);
        }
        x += width;
    }
}

/// One of eight warm tints, by the name: the same function has the same in every graph.
fn tint(name: &str) -> usize {
    name.bytes().fold(5381u32, |h, b| h.wrapping_mul(33) ^ u32::from(b)) as usize % 8
}

pub fn graph(folded: &Folded) -> Markup {
    let root = tree(folded);
    let mut boxes = Vec::new();
    lay(&root, 0.0, 0, WIDTH / root.samples.max(1) as f64, &mut boxes);
    let rows = boxes.iter().map(|b| b.depth + 1).max().unwrap_or(0);
    let height = rows as f64 * ROW;
    html! {
        svg.flame viewBox={ "0 0 " (WIDTH) " " (height) } width=(WIDTH) height=(height) role="img" {
            @for b in &boxes {
                @let y = height - (b.depth + 1) as f64 * ROW;
                g {
                    title { (b.name) ", " (b.samples) " of " (root.samples) }
                    rect class={ "f" (tint(b.name)) } x=(format!("{:.1}", b.x)) y=(y) width=(format!("{:.1}", (b.width - 0.4).max(0.3))) height=(ROW - 1.0) {}
                    @let letters = (b.width / LETTER) as usize;
                    @if letters >= 4 {
                        text x=(format!("{:.1}", b.x + 2.0)) y=(y + 11.0) { (b.name.chars().take(letters).collect::<String>()) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_as_wide_as_their_share_and_stand_on_their_caller() {
        let folded = Folded([("a;b".to_string(), 3), ("a;c".into(), 1)].into());
        let root = tree(&folded);
        let mut boxes = Vec::new();
        lay(&root, 0.0, 0, WIDTH / 4.0, &mut boxes);
        let of: Vec<_> = boxes.iter().map(|b| (b.name, b.x, b.width, b.depth)).collect();
        assert_eq!(of, [("a", 0.0, 1000.0, 0), ("b", 0.0, 750.0, 1), ("c", 750.0, 250.0, 1)]);
    }
}
