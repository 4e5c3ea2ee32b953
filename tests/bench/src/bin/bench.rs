//! Runs [`vmcp_bench::driver`].

fn main() -> std::process::ExitCode {
    vmcp_bench::driver::main()
}
