//! What pytest says: how each test ended. Its arguments are its callers' affair, but for those that [`read`] needs.

use super::gtest::Verdict;
use crate::run::Output;

/// A line for each test, and a summary of those that failed.
pub const SAY: [&str; 6] = ["-v", "-rfE", "-p", "no:warnings", "-p", "no:cacheprovider"];

/// `TestClass.test_name`, without the file.
pub fn name_of(path: &str) -> String {
    path.split_once("::").map_or(path, |(_, name)| name).replace("::", ".")
}

/// How each test that ran ended, by what pytest said of it; and, of those that failed, why.
pub fn read(out: &str) -> Vec<(String, Verdict)> {
    let mut found: Vec<(String, Verdict)> = Vec::new();
    for line in out.lines() {
        if let Some(rest) = ["FAILED ", "ERROR "].iter().find_map(|w| line.strip_prefix(w)).filter(|r| r.contains("::")) {
            // The summary at the end has the reasons.
            let (path, why) = rest.split_once(" - ").unwrap_or((rest, "failed"));
            match found.iter_mut().find(|(n, _)| *n == name_of(path)) {
                Some((_, verdict)) => *verdict = Verdict::Failed(why.into()),
                None => found.push((name_of(path), Verdict::Failed(why.into()))),
            }
            continue;
        }
        let mut words = line.split(' ');
        let (Some(path), Some(word)) = (words.next().filter(|p| p.contains(".py::")), words.next()) else { continue };
        let verdict = match word {
            "PASSED" => Verdict::Passed,
            "SKIPPED" => Verdict::Skipped,
            "FAILED" | "ERROR" => Verdict::Failed("failed".into()),
            _ => continue,
        };
        found.push((name_of(path), verdict));
    }
    found
}

/// The end of what it printed.
pub fn last(out: &Output) -> String {
    let lines: Vec<&str> = out.stdout.lines().rev().take(30).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pytest_says_is_read() {
        let out = "\
s3tests_boto3/functional/test_s3.py::test_a PASSED                       [  0%]
s3tests_boto3/functional/test_s3.py::test_b FAILED                       [  1%]
s3tests_boto3/functional/test_iam.py::test_c SKIPPED (no cloud)          [  2%]
s3tests_boto3/functional/test_iam.py::TestD::test_d[x-1] PASSED                 [  3%]
=========================== short test summary info ============================
FAILED s3tests_boto3/functional/test_s3.py::test_b - botocore.exceptions.ClientError: 500
ERROR s3tests_boto3/functional/test_s3.py::test_e - RuntimeError: no
1 failed, 2 passed, 1 skipped, 107 deselected in 12.3s
";
        let found = read(out);
        let of = |name: &str| found.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
        assert_eq!(found.len(), 5);
        assert_eq!(of("test_a"), Some(Verdict::Passed));
        assert_eq!(of("test_b"), Some(Verdict::Failed("botocore.exceptions.ClientError: 500".into())));
        assert_eq!(of("test_c"), Some(Verdict::Skipped));
        assert_eq!(of("TestD.test_d[x-1]"), Some(Verdict::Passed));
        assert_eq!(of("test_e"), Some(Verdict::Failed("RuntimeError: no".into())));
    }
}
