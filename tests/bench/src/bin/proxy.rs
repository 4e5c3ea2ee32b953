//! Runs [`vmcp_bench::proxy`].

fn main() -> std::process::ExitCode {
    vmcp_bench::proxy::main()
}
