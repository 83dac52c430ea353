//! `cargo run --example serve -- CONFIG.json`: the server alone. Ready line on stdout; ends when stdin does, with the
//! final counters on stdout.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: serve CONFIG.json");
        return ExitCode::from(2);
    };
    let served = std::fs::read_to_string(&path)
        .map_err(|error| format!("{path}: {error}"))
        .and_then(|config| svload_truth::serve(&config, 1, 0));
    match served {
        Ok(counters) => {
            println!("{counters}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
