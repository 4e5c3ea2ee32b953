//! Tests of templates as callers use them.

mod vectors;
