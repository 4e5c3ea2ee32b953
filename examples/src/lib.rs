#![doc = include_str!("../README.md")]

mod issuer;

pub use self::issuer::Issuer;
