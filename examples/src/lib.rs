//! Shared by nothing: see the files under `examples/`.
