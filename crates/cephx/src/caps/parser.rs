//! The pieces that the three grammars share. A piece that does not match leaves the position where it was.

use super::{CapError, Constraint, Network, Perm};
use std::collections::BTreeMap;

pub(super) struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }
    pub fn at_end(&self) -> bool {
        self.at == self.text.len()
    }
    pub fn error(&self, what: &'static str) -> CapError {
        CapError::Syntax { what, rest: self.rest().into(), text: self.text.into() }
    }
    /// Tries `f`; on None the position is what it was.
    pub fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let at = self.at;
        let out = f(self);
        if out.is_none() {
            self.at = at;
        }
        out
    }
    pub fn lit(&mut self, word: &str) -> Option<()> {
        self.rest().starts_with(word).then(|| self.at += word.len())
    }
    /// One or more characters that `f` accepts.
    fn many(&mut self, f: impl Fn(u8) -> bool) -> Option<&'a str> {
        let rest = self.rest();
        let n = rest.bytes().take_while(|c| f(*c)).count();
        (n > 0).then(|| {
            self.at += n;
            &rest[..n]
        })
    }
    pub fn spaces(&mut self) -> Option<()> {
        self.many(|c| matches!(c, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)).map(drop)
    }
    pub fn skip_spaces(&mut self) {
        self.spaces();
    }
    pub fn word(&mut self) -> Option<String> {
        self.many(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'/' | b'-')).map(String::from)
    }
    fn quoted(&mut self, may_be_empty: bool) -> Option<String> {
        let rest = self.rest();
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let body = rest[1..].split_once(quote)?.0;
        if body.is_empty() && !may_be_empty {
            return None;
        }
        self.at += body.len() + 2;
        Some(body.into())
    }
    /// A word, or something in quotes that is not empty.
    pub fn string(&mut self) -> Option<String> {
        self.quoted(false).or_else(|| self.word())
    }
    /// A word, or something in quotes.
    pub fn string_or_empty(&mut self) -> Option<String> {
        self.quoted(true).or_else(|| self.word())
    }
    /// `=` or white space.
    pub fn equals_or_spaces(&mut self) -> Option<()> {
        self.lit("=").or_else(|| self.spaces())
    }
    /// White space and a word that is expected.
    pub fn spaced(&mut self, word: &str) -> Option<()> {
        self.attempt(|p| {
            p.spaces()?;
            p.lit(word)
        })
    }
    /// Optional: ` network ADDRESS/LENGTH`.
    pub fn network(&mut self) -> Option<Network> {
        self.attempt(|p| {
            p.spaced("network")?;
            p.spaces()?;
            let text = p.many(|c| c.is_ascii_hexdigit() || matches!(c, b'/' | b'.' | b':' | b'[' | b']'))?;
            Some(Network::new(text))
        })
    }
    /// `*`, `all`, or some of `rwx` in that order.
    pub fn rwx(&mut self) -> Option<Perm> {
        if self.lit("*").or_else(|| self.lit("all")).is_some() {
            return Some(Perm::ANY);
        }
        let mut perm = Perm::NONE;
        for (letter, bit) in [("r", Perm::R), ("w", Perm::W), ("x", Perm::X)] {
            if self.lit(letter).is_some() {
                perm |= bit;
            }
        }
        (!perm.is_none()).then_some(perm)
    }
    /// `k=v`, `k prefix v`, `k regex v`, one or more. `loose`: white space may stand around `=`.
    pub fn constraints(&mut self, loose: bool) -> Option<BTreeMap<String, Constraint>> {
        let mut out = BTreeMap::new();
        let (key, value) = self.constraint(loose)?;
        out.insert(key, value);
        while let Some((key, value)) = self.attempt(|p| {
            p.spaces()?;
            p.constraint(loose)
        }) {
            out.entry(key).or_insert(value);
        }
        Some(out)
    }
    fn constraint(&mut self, loose: bool) -> Option<(String, Constraint)> {
        self.attempt(|p| {
            let key = p.string()?;
            let equal = p.attempt(|p| {
                if loose {
                    p.skip_spaces();
                }
                p.lit("=")?;
                if loose {
                    p.skip_spaces();
                }
                p.string()
            });
            if let Some(value) = equal {
                return Some((key, Constraint::Equal(value)));
            }
            let mut worded = |word| {
                p.attempt(|p| {
                    p.spaced(word)?;
                    p.spaces()?;
                    p.string()
                })
            };
            if let Some(value) = worded("prefix") {
                return Some((key, Constraint::Prefix(value)));
            }
            worded("regex").map(|value| (key, Constraint::Regex(value)))
        })
    }
    /// `,` or `;` between grants, with blanks around.
    pub fn separator(&mut self) -> Option<()> {
        self.attempt(|p| {
            while p.lit(" ").is_some() {}
            p.lit(";").or_else(|| p.lit(","))?;
            while p.lit(" ").is_some() {}
            Some(())
        })
    }
    /// Grants with separators between, up to the end of the text.
    pub fn grants<T>(&mut self, what: &'static str, mut grant: impl FnMut(&mut Self) -> Option<T>) -> Result<Vec<T>, CapError> {
        let mut out = vec![self.attempt(&mut grant).ok_or_else(|| self.error(what))?];
        while let Some(more) = self.attempt(|p| {
            p.separator()?;
            grant(p)
        }) {
            out.push(more);
        }
        if self.at_end() { Ok(out) } else { Err(self.error(what)) }
    }
}
