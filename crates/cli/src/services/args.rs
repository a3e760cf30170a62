//! The options of `humboldt up` for servers of Ceph beside it.
//!
//! Absent: the checks of their values, which [`super::s3`] and [`super::credentials`] make.

use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Debug, Clone, Default, clap::Args)]
pub struct ServiceArgs {
    /// Serve S3, with the radosgw that is installed.
    #[arg(long)]
    pub s3: bool,
    /// The address of S3. Default: that of --listen.
    #[arg(long, value_name = "ADDRESS", requires = "s3")]
    pub s3_listen: Option<IpAddr>,
    /// The port of S3.
    #[arg(long, value_name = "PORT", default_value_t = 7480, requires = "s3")]
    pub s3_port: u16,
    /// The keys of the S3 user: ACCESS-KEY:SECRET, or `@FILE` with that as its first line. Default: those of the environment,
    /// MINIO_ROOT_USER with MINIO_ROOT_PASSWORD, or AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY; without them random keys, kept in the
    /// cluster's folder as `s3.credentials`. Other users of the machine see a command line, but neither a file of mode 0600 nor a variable.
    #[arg(long, value_name = "KEYS", requires = "s3", env = "HUMBOLDT_S3_USER", hide_env_values = true)]
    pub s3_user: Option<String>,
    /// Make this bucket unless it is there. May be repeated. HUMBOLDT_BUCKETS and MINIO_DEFAULT_BUCKETS of the environment name more, with
    /// commas between them.
    #[arg(long = "bucket", value_name = "NAME", requires = "s3")]
    pub buckets: Vec<String>,
    /// Serve S3 by HTTPS: the certificate with its chain, PEM.
    #[arg(long, value_name = "FILE", requires_all = ["s3", "s3_key"])]
    pub s3_cert: Option<PathBuf>,
    /// The private key of --s3-cert, PEM.
    #[arg(long, value_name = "FILE", requires = "s3_cert")]
    pub s3_key: Option<PathBuf>,
    /// Serve files (CephFS), with the ceph-mds that is installed.
    #[arg(long)]
    pub fs: bool,
}
