//! Values that stock daemons wrote come back bit for bit.

use bytes::Bytes;
use classes::encoded_again;

/// What has grown within 18.2: of its first release, usage has nothing of selections.
const GREW: &[&str] = &["rgw_cls_usage_log_add_op", "rgw_cls_usage_log_read_ret", "rgw_usage_log_entry", "rgw_usage_log_info"];

/// Ceph's own samples of a release: `objects/TYPE/...` of its object corpus, in the folder that `HUMBOLDT_CORPUS` names.
#[test]
#[ignore = "reads the object corpus of 18.2, which is not here: HUMBOLDT_CORPUS names its folder `objects`"]
fn the_corpus_comes_back() {
    let objects = std::env::var("HUMBOLDT_CORPUS").expect("HUMBOLDT_CORPUS is set");
    let (mut samples, mut wrong) = (0, Vec::new());
    for folder in std::fs::read_dir(objects).unwrap() {
        let folder = folder.unwrap();
        let name = folder.file_name().into_string().unwrap();
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let path = file.unwrap().path();
            let bytes = Bytes::from(std::fs::read(&path).unwrap());
            let Some(back) = encoded_again(&name, &bytes) else { break };
            samples += 1;
            match back {
                Ok(back) if back == bytes => {}
                Ok(back) if GREW.contains(&&name[..]) && encoded_again(&name, &back) == Some(Ok(back.clone())) => {}
                Ok(back) => wrong.push(format!("{}: {bytes:02x?} came back as {back:02x?}", path.display())),
                Err(e) => wrong.push(format!("{}: {e}: {bytes:02x?}", path.display())),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {samples}: {}", wrong.len(), wrong.join("\n"));
    assert!(samples > 300, "{samples}");
}

/// One value of each kind that an index holds, as a stock OSD wrote it, and what is no such value.
#[test]
fn an_indexs_values_come_back() {
    let mut values = 0;
    for (key, value) in crate::stock::entries() {
        let name = if key.starts_with(b"\x801001_") { "rgw_bucket_olh_entry" } else { "rgw_bucket_dir_entry" };
        assert_eq!(encoded_again(name, &value), Some(Ok(value.clone())));
        assert!(encoded_again(name, &value.slice(1..)).unwrap().is_err());
        values += 1;
    }
    assert!(values > 15, "{values}");
    assert_eq!(encoded_again("pg_info_t", &Bytes::new()), None);
}
