//! The self-test's processes for `cargo test -p lab`, where the binary `humboldt` is not at hand: `lab-fake lab fake serve|load|run …`.

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1 + lab::selftest::FAKE.len()).collect();
    match lab::selftest::fake(&args) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            say::eprintln!("lab-fake: {e:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
