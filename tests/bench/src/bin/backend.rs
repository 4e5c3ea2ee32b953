//! Runs [`vmcp_bench::backend`].

fn main() -> std::process::ExitCode {
    vmcp_bench::backend::main()
}
