//! A certificate and its private key, checked before anything is made: both files are PEM, their blocks are whole, and the key is the
//! certificate's. radosgw starts with a key of another certificate, and then refuses every client.
//!
//! Source of the forms: RFC 7468 (PEM), RFC 5280, 4.1 (certificates), RFC 8017, A.1, RFC 5958 and RFC 5915 (keys).
//! Absent: names and dates of a certificate, which clients check. Keys of other kinds than RSA, EC and Ed25519 are left to radosgw
//! and [`super::hello`].

use anyhow::{Context, Result, bail, ensure};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair,
};
use std::fs;
use std::path::{Path, PathBuf};

/// Identifiers of algorithms, as they begin in a certificate: type and length in front.
const RSA: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 1, 1];
const ED25519: &[u8] = &[6, 3, 0x2b, 0x65, 0x70];
/// `id-ecPublicKey` with each curve.
const CURVES: [(&[u8], &EcdsaSigningAlgorithm); 3] = [
    (&[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7], &ECDSA_P256_SHA256_FIXED_SIGNING),
    (&[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 5, 0x2b, 0x81, 4, 0, 0x22], &ECDSA_P384_SHA384_FIXED_SIGNING),
    (&[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 5, 0x2b, 0x81, 4, 0, 0x23], &ECDSA_P521_SHA512_FIXED_SIGNING),
];
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 3;
/// Field 0 of a certificate: its version.
const VERSION: u8 = 0xa0;

/// The absolute paths of a certificate and its key, or what is wrong with them.
pub fn check(cert: &Path, key: &Path) -> Result<(PathBuf, PathBuf)> {
    let public = block(cert, "--s3-cert", "CERTIFICATE")?;
    let private = block(key, "--s3-key", "PRIVATE KEY")?;
    let Some((algorithm, public)) = public_key(&public) else {
        bail!("--s3-cert {} holds no certificate that can be read: copy the file again", cert.display());
    };
    ensure!(element(&private).is_some(), "--s3-key {} holds no key that can be read: copy the file again", key.display());
    ensure!(
        is_pair(algorithm, public, &private) != Some(false),
        "--s3-key {} is not the key of the first certificate in {}: give the --s3-key that belongs to --s3-cert, whose own certificate comes first in its file",
        key.display(),
        cert.display()
    );
    let absolute = |path: &Path| path.canonicalize().with_context(|| path.display().to_string());
    Ok((absolute(cert)?, absolute(key)?))
}

/// The bytes of a file's first block whose name ends so.
fn block(path: &Path, option: &str, name: &str) -> Result<Vec<u8>> {
    let shown = format!("{option} {}", path.display());
    let text = fs::read(path).with_context(|| shown.clone())?;
    // A file in DER is no text: it has no block.
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().skip_while(|line| !line.starts_with("-----BEGIN ") || !line.trim_end().ends_with(&format!("{name}-----")));
    let Some(begin) = lines.next() else { bail!("{shown} has no block `BEGIN {name}`: give a file in PEM") };
    let mut body = String::new();
    let end = lines.find(|line| {
        let is_end = line.starts_with("-----END ");
        if !is_end {
            body.extend([line, "\n"]);
        }
        is_end
    });
    let is_locked = [begin, &body].iter().any(|text| text.contains("ENCRYPTED"));
    ensure!(
        !is_locked,
        "{shown} is encrypted, and radosgw asks for no passphrase: give the key as `openssl pkey -in {} -out FILE` writes it",
        path.display()
    );
    let bytes = end.and_then(|_| cephx::base64::decode(&body)).filter(|bytes| !bytes.is_empty());
    bytes.with_context(|| format!("{shown}: its block `{}` is cut or changed: copy the file again", begin.trim().trim_matches('-')))
}

/// The type of the first element of DER, its contents, and the bytes behind.
fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = input.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(len)?;
    Some((*tag, contents, rest))
}
fn sequence(input: &[u8]) -> Option<(&[u8], &[u8])> {
    element(input).filter(|(tag, ..)| *tag == SEQUENCE).map(|(_, contents, rest)| (contents, rest))
}

/// A certificate's algorithm with its parameters, and its public key.
fn public_key(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let (certificate, _) = sequence(certificate)?;
    let (mut fields, _) = sequence(certificate)?;
    if let (VERSION, _, rest) = element(fields)? {
        fields = rest;
    }
    // Number, algorithm of the signature, issuer, dates, subject.
    for _ in 0..5 {
        fields = element(fields)?.2;
    }
    let (key, _) = sequence(fields)?;
    let (algorithm, rest) = sequence(key)?;
    let (tag, bits, _) = element(rest)?;
    let (unused, bits) = bits.split_first()?;
    (tag == BIT_STRING && *unused == 0).then_some((algorithm, bits))
}

/// True if they are two halves; `None` for algorithms that are not known here.
fn is_pair(algorithm: &[u8], public: &[u8], private: &[u8]) -> Option<bool> {
    if algorithm.starts_with(RSA) {
        let numbers = element(public).map(|(_, numbers, _)| numbers);
        return Some(numbers.is_some() && numbers == rsa_numbers(private));
    }
    if algorithm.starts_with(ED25519) {
        return Some(Ed25519KeyPair::from_pkcs8(private).is_ok_and(|pair| pair.public_key().as_ref() == public));
    }
    let (_, curve) = CURVES.iter().find(|(name, _)| algorithm == *name)?;
    Some(EcdsaKeyPair::from_private_key_der(curve, private).is_ok_and(|pair| pair.public_key().as_ref() == public))
}

/// Modulus and public exponent of a private key, as they lie in either of its two forms.
fn rsa_numbers(private: &[u8]) -> Option<&[u8]> {
    let (fields, _) = sequence(private)?;
    let (_, _, fields) = element(fields)?;
    let (tag, _, rest) = element(fields)?;
    if tag == SEQUENCE {
        // The form for all algorithms has the other one inside.
        return rsa_numbers(element(rest)?.1);
    }
    let (.., behind) = element(rest)?;
    fields.get(..fields.len() - behind.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let contents = parts.concat();
        [&[tag, 0x82][..], &(contents.len() as u16).to_be_bytes(), &contents].concat()
    }
    /// A certificate with nothing in it but a key.
    fn certificate(algorithm: &[u8], public: &[u8]) -> Vec<u8> {
        let empty = der(SEQUENCE, &[]);
        let key = der(SEQUENCE, &[&der(SEQUENCE, &[algorithm]), &der(BIT_STRING, &[&[0], public])]);
        let fields = [der(VERSION, &[&[2, 1, 2]]), der(2, &[&[7]]), empty.clone(), empty.clone(), empty.clone(), empty.clone(), key];
        der(SEQUENCE, &[&der(SEQUENCE, &fields.iter().map(Vec::as_slice).collect::<Vec<_>>()), &empty])
    }
    fn pem(name: &str, bytes: &[u8]) -> String {
        format!("some words\n-----BEGIN {name}-----\n{}\n-----END {name}-----\n", cephx::base64::encode(bytes))
    }
    /// The two forms of an RSA key, and its public half; the numbers are no primes.
    fn rsa(seed: u8) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let (modulus, exponent) = (der(2, &[&[seed; 256]]), der(2, &[&[1, 0, 1]]));
        let own = der(SEQUENCE, &[&der(2, &[&[0]]), &modulus, &exponent, &der(2, &[&[9]])]);
        let wrapped = der(SEQUENCE, &[&der(2, &[&[0]]), &der(SEQUENCE, &[RSA, &[5, 0]]), &der(4, &[&own])]);
        (own, wrapped, der(SEQUENCE, &[&modulus, &exponent]))
    }

    #[test]
    fn a_key_fits_its_own_certificate_alone() {
        let (own, wrapped, public) = rsa(3);
        let rsa_algorithm = [RSA, &[5, 0]].concat();
        let mut pairs = vec![(rsa_algorithm.clone(), public.clone(), own), (rsa_algorithm.clone(), public, wrapped)];
        let (_, wrapped, public) = rsa(4);
        pairs.push((rsa_algorithm, public, wrapped));
        for (name, curve) in CURVES {
            let pair = EcdsaKeyPair::generate(curve).unwrap();
            pairs.push((name.to_vec(), pair.public_key().as_ref().to_vec(), pair.to_pkcs8v1().unwrap().as_ref().to_vec()));
        }
        let pair = Ed25519KeyPair::generate().unwrap();
        pairs.push((ED25519.to_vec(), pair.public_key().as_ref().to_vec(), pair.to_pkcs8().unwrap().as_ref().to_vec()));
        for (n, (algorithm, public, _)) in pairs.iter().enumerate() {
            let whole = certificate(algorithm, public);
            assert_eq!(public_key(&whole), Some((&algorithm[..], &public[..])));
            assert!((0..whole.len()).all(|len| public_key(&whole[..len]).is_none()), "one that is cut");
            for (m, (_, of_other, key)) in pairs.iter().enumerate() {
                assert_eq!(is_pair(algorithm, public, key), Some(public == of_other), "certificate {n}, key {m}");
            }
        }
        assert_eq!(is_pair(&[6, 1, 7], &[1], &[2]), None, "an algorithm of tomorrow");
    }

    #[test]
    fn files_that_can_not_be_used_are_named() {
        let dir = std::env::temp_dir().join(format!("humboldt-certificate-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
        let (own, _, public) = rsa(5);
        let (good_cert, good_key) = (pem("CERTIFICATE", &certificate(RSA, &public)), pem("RSA PRIVATE KEY", &own));
        let cut = good_cert.replace("-----END CERTIFICATE-----", "");
        let locked = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
        for (cert_text, key_text, said) in [
            (&*good_cert, &*good_key, ""),
            ("no certificate", &good_key, "has no block `BEGIN CERTIFICATE`"),
            (&good_key, &good_cert, "has no block `BEGIN CERTIFICATE`"),
            (&good_cert, &good_cert, "has no block `BEGIN PRIVATE KEY`"),
            (&cut, &good_key, "`BEGIN CERTIFICATE` is cut"),
            (&pem("CERTIFICATE", &[1, 2, 3]), &good_key, "no certificate that can be read"),
            (&good_cert, &pem("PRIVATE KEY", &[1, 200, 3]), "no key that can be read"),
            (&good_cert, locked, "is encrypted"),
            (&good_cert, &pem("ENCRYPTED PRIVATE KEY", &own), "is encrypted"),
            (&good_cert, &pem("PRIVATE KEY", &rsa(6).0), "give the --s3-key that belongs to --s3-cert"),
        ] {
            fs::write(&cert, cert_text).unwrap();
            fs::write(&key, key_text).unwrap();
            match check(&cert, &key) {
                Ok(paths) => assert!(said.is_empty() && paths.0.is_absolute(), "{said}"),
                Err(error) => assert!(!said.is_empty() && error.to_string().contains(said), "{said}: {error}"),
            }
        }
        assert!(format!("{:#}", check(&dir.join("none"), &key).unwrap_err()).contains("none"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
