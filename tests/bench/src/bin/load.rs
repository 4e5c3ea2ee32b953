//! Runs [`vmcp_bench::load`].

fn main() -> std::process::ExitCode {
    vmcp_bench::load::main()
}
