//! Variables that users of MinIO and of Amazon's tools set already: the keys of an S3 user, and buckets to make at the start.
//!
//! Absent: the bounds of keys and names, which [`super::credentials`] and [`super::s3`] check.

use super::credentials::Credentials;
use anyhow::{Context, Result, bail};

/// Variables with an access key and its secret; the first pair that is set counts.
const KEYS: [(&str, &str); 2] = [("MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"), ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")];
/// Beside it, Amazon's pair is good for an hour and for Amazon alone.
const SESSION: &str = "AWS_SESSION_TOKEN";
/// Lists of buckets with commas between the names.
const BUCKETS: [&str; 2] = ["HUMBOLDT_BUCKETS", "MINIO_DEFAULT_BUCKETS"];

/// A variable of this process. An empty one counts as none: compose files pass on what their reader did not set.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The keys that the environment has, and the variable with their secret.
pub fn keys(variable: impl Fn(&str) -> Option<String>) -> Result<Option<(Credentials, &'static str)>> {
    let is_lasting = |pair: &&(&str, &str)| !pair.0.starts_with("AWS") || variable(SESSION).is_none();
    for &(name, of_secret) in KEYS.iter().filter(is_lasting) {
        match (variable(name), variable(of_secret)) {
            (None, None) => {}
            (Some(access_key), Some(secret)) => {
                let keys = Credentials::new(&access_key, &secret).with_context(|| format!("{name} and {of_secret}"))?;
                return Ok(Some((keys, of_secret)));
            }
            (access_key, _) => {
                let (set, unset) = if access_key.is_some() { (name, of_secret) } else { (of_secret, name) };
                bail!("{set} is set and {unset} is not: set both for keys of your own, or none for random ones");
            }
        }
    }
    Ok(None)
}

/// The buckets that the environment names.
pub fn buckets(variable: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let lists: Vec<String> = BUCKETS.iter().filter_map(|name| variable(name)).collect();
    lists.iter().flat_map(|list| list.split(',')).map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<'a>(pairs: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_string())
    }

    #[test]
    fn the_first_pair_counts_and_half_of_one_is_an_error() {
        let minio = [("MINIO_ROOT_USER", "minioadmin"), ("MINIO_ROOT_PASSWORD", "minioadmin2")];
        let aws = [("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7")];
        let found = |pairs: &[(&str, &str)]| keys(set(pairs)).unwrap().map(|(keys, from)| (keys.access_key, keys.secret, from));
        assert_eq!(found(&[]), None);
        assert_eq!(found(&aws), Some(("AKIDEXAMPLE".into(), "wJalrXUtnFEMI/K7".into(), "AWS_SECRET_ACCESS_KEY")));
        assert_eq!(found(&[aws, minio].concat()), Some(("minioadmin".into(), "minioadmin2".into(), "MINIO_ROOT_PASSWORD")));
        assert_eq!(found(&[&aws[..], &[("AWS_SESSION_TOKEN", "t")]].concat()), None, "keys of an hour are Amazon's alone");
        let error = |pairs: &[(&str, &str)]| format!("{:#}", keys(set(pairs)).unwrap_err());
        assert!(error(&minio[..1]).contains("MINIO_ROOT_PASSWORD is not"), "{}", error(&minio[..1]));
        assert!(error(&aws[1..]).contains("AWS_ACCESS_KEY_ID is not"));
        let short = error(&[minio[0], ("MINIO_ROOT_PASSWORD", "short")]);
        assert!(short.contains("MINIO_ROOT_PASSWORD: the S3 secret has") && !short.contains("short"), "{short}");
    }

    #[test]
    fn buckets_stand_in_lists() {
        let named = buckets(set(&[("MINIO_DEFAULT_BUCKETS", "photos, films,"), ("HUMBOLDT_BUCKETS", "first")]));
        assert_eq!(named, ["first", "photos", "films"]);
        assert!(buckets(set(&[])).is_empty());
    }
}
