//! The keys of an S3 user: read from the command line or a file, or random and kept. Absent: signatures, which [`super::sign`] makes.

use anyhow::{Context, Result, ensure};
use std::fmt;
use std::path::Path;

/// Bounds of MinIO, which compose files were written for; radosgw takes any.
const ACCESS_KEY_MIN: usize = 3;
const SECRET_MIN: usize = 8;
/// Longer ones than any client sends.
const KEY_MAX: usize = 128;
/// Lengths of Amazon's.
const ACCESS_KEY_MADE: usize = 20;
const SECRET_MADE: usize = 40;
/// A file in the format of Amazon's tools: `AWS_SHARED_CREDENTIALS_FILE` may name it.
pub const FILE: &str = "s3.credentials";

#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub access_key: String,
    pub secret: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, ...)", self.access_key)
    }
}

impl Credentials {
    /// Reads `ACCESS-KEY:SECRET`, or `@FILE` with that as its first line. An error names no secret.
    pub fn given(text: &str) -> Result<Self> {
        let Some(path) = text.strip_prefix('@') else { return Self::parse(text) };
        let text = std::fs::read_to_string(path).with_context(|| format!("--s3-user @{path}"))?;
        Self::parse(text.lines().next().unwrap_or_default().trim_end()).with_context(|| format!("the first line of {path}"))
    }

    fn parse(text: &str) -> Result<Self> {
        let (access_key, secret) = text.split_once(':').context("the S3 user's keys are ACCESS-KEY:SECRET, with a colon between them")?;
        Self::new(access_key, secret)
    }

    /// Keys within their bounds.
    pub fn new(access_key: &str, secret: &str) -> Result<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        ensure!(
            (ACCESS_KEY_MIN..=KEY_MAX).contains(&access_key.len()) && access_key.chars().all(is_plain),
            "the S3 access key has {ACCESS_KEY_MIN} to {KEY_MAX} letters, digits, `-`, `_` and `.`: give another one"
        );
        ensure!(
            (SECRET_MIN..=KEY_MAX).contains(&secret.len()) && secret.chars().all(|c| c.is_ascii_graphic()),
            "the S3 secret has {SECRET_MIN} to {KEY_MAX} printable characters without spaces: this one has {}",
            secret.chars().count()
        );
        Ok(Self { access_key: access_key.into(), secret: secret.into() })
    }

    /// The keys that the cluster's folder has; new ones, if it has none.
    pub fn kept(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        let shown = || path.display().to_string();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let made = Self { access_key: of_chance(ACCESS_KEY_MADE)?, secret: of_chance(SECRET_MADE)? };
                disk::update_file(&path, made.file().as_bytes(), 0o600).with_context(shown)?;
                return Ok(made);
            }
            Err(e) => return Err(e).with_context(shown),
        };
        let value = |name: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once('='));
            pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_string())
        };
        let (Some(access_key), Some(secret)) = (value("aws_access_key_id"), value("aws_secret_access_key")) else {
            anyhow::bail!("{} has no aws_access_key_id and aws_secret_access_key: remove it for new keys, or give --s3-user", shown());
        };
        Self::parse(&format!("{access_key}:{secret}")).with_context(shown)
    }

    fn file(&self) -> String {
        format!("[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n", self.access_key, self.secret)
    }
}

/// Letters and digits of chance, each as likely as the others.
fn of_chance(len: usize) -> Result<String> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let bound = 256 - 256 % LETTERS.len();
    let mut text = String::new();
    while text.len() < len {
        let mut byte = [0];
        aws_lc_rs::rand::fill(&mut byte).ok().context("the system has no random bytes")?;
        if usize::from(byte[0]) < bound {
            text.push(char::from(LETTERS[usize::from(byte[0]) % LETTERS.len()]));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_held_to_their_bounds() {
        let keys = Credentials::given("minioadmin:mini:admin").unwrap();
        assert_eq!((keys.access_key.as_str(), keys.secret.as_str()), ("minioadmin", "mini:admin"));
        for (wrong, says) in [("admin", "colon"), ("ab:12345678", "access key"), ("abc:1234567", "has 7"), ("a b:12345678", "access key")] {
            let error = format!("{:#}", Credentials::given(wrong).unwrap_err());
            assert!(error.contains(says) && !error.contains("1234567"), "{wrong}: {error}");
        }
        assert!(format!("{keys:?}").contains("minioadmin") && !format!("{keys:?}").contains("mini:"));
    }

    #[test]
    fn keys_of_chance_are_kept() {
        let dir = std::env::temp_dir().join(format!("humboldt-credentials-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let made = Credentials::kept(&dir).unwrap();
        assert_eq!((made.access_key.len(), made.secret.len()), (ACCESS_KEY_MADE, SECRET_MADE));
        assert_eq!(Credentials::kept(&dir).unwrap(), made, "the second time they are read");
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(dir.join(FILE)).unwrap().permissions());
        assert_eq!(mode & 0o077, 0, "no other user reads them");
        let file = dir.join("given");
        std::fs::write(&file, "abc:12345678\nmore\n").unwrap();
        assert_eq!(Credentials::given(&format!("@{}", file.display())).unwrap().secret, "12345678");
        std::fs::write(dir.join(FILE), "[default]\n").unwrap();
        assert!(format!("{:#}", Credentials::kept(&dir).unwrap_err()).contains("--s3-user"));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
