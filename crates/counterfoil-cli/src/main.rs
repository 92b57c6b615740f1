//! The binary `counterfoil`.

fn main() -> std::process::ExitCode {
    counterfoil_cli::cli::main()
}
