//! Tests of the client against servers on real sockets, most of them scripted byte by byte.

#[cfg(test)]
mod connecting;
#[cfg(test)]
mod encrypted;
#[cfg(test)]
mod exchange;
#[cfg(test)]
mod framing;
#[cfg(test)]
mod pool;
#[cfg(test)]
mod redirect;
#[cfg(test)]
mod support;
