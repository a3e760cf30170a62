//! Base64 as keyrings have it: the standard alphabet with padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let symbol = ALPHABET[(word >> (18 - 6 * i) & 63) as usize];
            out.push(if i > chunk.len() { '=' } else { symbol as char });
        }
    }
    out
}

/// None if a character is foreign or the length is wrong. White space is skipped.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let symbols: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    if !symbols.len().is_multiple_of(4) {
        return None;
    }
    let body = match &symbols[..] {
        [body @ .., b'=', b'='] | [body @ .., b'='] => body,
        body => body,
    };
    let mut out = Vec::with_capacity(body.len() / 4 * 3 + 2);
    for chunk in body.chunks(4) {
        let mut word = 0u32;
        for symbol in chunk {
            word = word << 6 | ALPHABET.iter().position(|c| c == symbol)? as u32;
        }
        word <<= 6 * (4 - chunk.len());
        out.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_ways() {
        for text in ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "AQBMcgFrreoHDhAAxoRONpKVSS1kpAX+v6Sd9Q=="] {
            assert_eq!(super::encode(&super::decode(text).unwrap()), text);
        }
        assert_eq!(super::decode("Zm9"), None);
        assert_eq!(super::decode("Zm9*"), None);
    }
}
