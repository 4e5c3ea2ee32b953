#![doc = include_str!("../README.md")]

pub mod counterparts;
pub mod fixture;
