//! Certificates that replicas share: the one in use, the next one, and the authorities that clients trust.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use secrecy::{ExposeSecret, SecretString};
use vmcp_lease::Environment;

use super::certificate::{Authority, CertificateError, Pair, ROTATION_AGE};

/// Keys of the Secret.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";

/// Maximum number of authorities. A rotation adds one every two months, and each goes a month later.
const MAX_AUTHORITIES: usize = 8;

/// Certificates in the Secret.
#[derive(Clone, Debug)]
pub(super) struct CertificateSet {
    pub(super) current: Pair,
    /// Certificate that comes into use when the configuration trusts its authority.
    next: Option<Pair>,
    /// Invariant: those of both certificates are among them.
    authorities: Vec<Authority>,
}

/// Values of the Secret.
pub(super) type Values = BTreeMap<String, ByteString>;

// === impl CertificateSet ===

impl CertificateSet {
    /// Makes the first certificate for a DNS name.
    pub(super) fn generate(
        name: &str,
        environment: &Environment,
    ) -> Result<Self, CertificateError> {
        let current = Pair::generate(name, environment)?;
        let authorities = vec![current.authority.clone()];
        Ok(Self { current, next: None, authorities })
    }

    /// Reads the values of the Secret.
    pub(super) fn parse(values: &Values, name: &str) -> Result<Self, CertificateError> {
        let bundle = values.get(AUTHORITIES).ok_or(CertificateError::Missing(AUTHORITIES))?;
        let authorities = Authority::parse_all(&bundle.0);
        let pair = |certificate, key: &'static str| {
            let certificate = text(values, certificate)?;
            let key = SecretString::from(text(values, key)?);
            Pair::parse(certificate, key, &authorities, name)
        };
        let current = pair(CERTIFICATE, KEY)?;
        // One that cannot be used is made again.
        let next = pair(NEXT_CERTIFICATE, NEXT_KEY).ok();
        Ok(Self { current, next, authorities })
    }

    /// Returns the values of the Secret.
    pub(super) fn values(&self) -> Values {
        let key = |pair: &Pair| pair.key.expose_secret().to_owned();
        let mut texts = vec![
            (CERTIFICATE, self.current.certificate.clone()),
            (KEY, key(&self.current)),
            (AUTHORITIES, self.bundle()),
        ];
        if let Some(next) = &self.next {
            texts.push((NEXT_CERTIFICATE, next.certificate.clone()));
            texts.push((NEXT_KEY, key(next)));
        }
        let values = texts.into_iter();
        values.map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes()))).collect()
    }

    /// Returns the authorities that the configuration has to trust, as PEM.
    pub(super) fn bundle(&self) -> String {
        self.authorities.iter().map(|authority| authority.pem.as_str()).collect()
    }

    /// Returns the next state, if one is due. `trusted` is the bundle that the API server has known for a while.
    ///
    /// A certificate comes into use only when its authority is trusted, and an authority stays trusted until no certificate of
    /// it is valid: replicas take a certificate over at different times.
    pub(super) fn due(
        &self,
        trusted: &[u8],
        name: &str,
        environment: &Environment,
    ) -> Result<Option<Self>, CertificateError> {
        let now = environment.now();
        let is_trusted = |pair: &&Pair| Authority::parse_all(trusted).contains(&pair.authority);
        if self.current.is_expired(now) {
            // Nothing that is trusted could be in use: no operator ran for a while.
            let next = self.next.clone().filter(|next| !next.is_expired(now));
            let current = next.map_or_else(|| Pair::generate(name, environment), Ok)?;
            return Ok(Some(self.with(current, None, now)));
        }
        if let Some(next) = self.next.as_ref().filter(is_trusted) {
            return Ok(Some(self.with(next.clone(), None, now)));
        }
        if self.next.is_none() && age(self.current.validity.start, now) >= ROTATION_AGE {
            let next = Pair::generate(name, environment)?;
            return Ok(Some(self.with(self.current.clone(), Some(next), now)));
        }
        let pruned = self.with(self.current.clone(), self.next.clone(), now);
        Ok((pruned.authorities != self.authorities).then_some(pruned))
    }

    /// Returns a state with these certificates, their authorities, and older ones that are still needed. The order stays: another
    /// one would be another bundle.
    fn with(&self, current: Pair, next: Option<Pair>, now: Timestamp) -> Self {
        let pairs = [Some(&current), next.as_ref()];
        let used: Vec<_> = pairs.into_iter().flatten().map(|pair| &pair.authority).collect();
        let mut excess = self.authorities.len().saturating_sub(MAX_AUTHORITIES);
        let is_kept = |authority: &&Authority| {
            let is_excess = excess > 0 && !used.contains(authority);
            excess -= usize::from(is_excess);
            used.contains(authority) || (authority.is_needed(now) && !is_excess)
        };
        let kept = self.authorities.iter().filter(is_kept);
        let mut authorities: Vec<_> = kept.cloned().collect();
        for authority in used {
            if !authorities.contains(authority) {
                authorities.push(authority.clone());
            }
        }
        Self { current, next, authorities }
    }
}

fn age(start: Timestamp, now: Timestamp) -> SignedDuration {
    now.duration_since(start)
}

fn text(values: &Values, name: &'static str) -> Result<String, CertificateError> {
    let value = values.get(name).ok_or(CertificateError::Missing(name))?;
    String::from_utf8(value.0.clone()).map_err(|_| CertificateError::Unreadable(name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

    use super::*;

    const NAME: &str = "webhook.system.svc";
    const DAY: i64 = 24 * 60 * 60;

    /// Returns an environment, and its days since the start.
    fn environment() -> (Environment, Arc<AtomicI64>) {
        let day = Arc::new(AtomicI64::new(0));
        let (clock, counter) = (Arc::clone(&day), AtomicU8::new(0));
        let now = move || {
            let seconds = 1_800_000_000 + clock.load(Ordering::Relaxed) * DAY;
            Timestamp::from_second(seconds).unwrap()
        };
        let random = move |bytes: &mut [u8]| bytes.fill(counter.fetch_add(1, Ordering::Relaxed));
        (Environment::new(now, random), day)
    }

    fn read(certificates: &CertificateSet) -> CertificateSet {
        CertificateSet::parse(&certificates.values(), NAME).unwrap()
    }

    fn due(
        certificates: &CertificateSet,
        trusted: &str,
        environment: &Environment,
    ) -> Option<CertificateSet> {
        certificates.due(trusted.as_bytes(), NAME, environment).unwrap()
    }

    #[test]
    fn certificates_in_use_are_always_trusted() {
        let (environment, day) = environment();
        let mut certificates = CertificateSet::generate(NAME, &environment).unwrap();
        let mut trusted = String::new();
        let (mut rotations, mut most) = (0, 0);
        for today in 0..400 {
            day.store(today, Ordering::Relaxed);
            // Three steps of the leader on a day: each applies the configuration, and then stores what is due.
            for _ in 0..3 {
                let before = std::mem::replace(&mut trusted, certificates.bundle());
                if let Some(next) = due(&certificates, &before, &environment) {
                    rotations +=
                        i32::from(next.current.certificate != certificates.current.certificate);
                    certificates = read(&next);
                }
                let current = &certificates.current;
                assert!(trusted.contains(&current.authority.pem), "day {today}");
                assert!(!current.is_expired(environment.now()), "day {today}");
                most = most.max(certificates.authorities.len());
            }
        }
        assert_eq!((rotations, most), (6, 2));
    }

    #[test]
    fn next_waits_for_trust_of_authority() {
        let (environment, day) = environment();
        let first = CertificateSet::generate(NAME, &environment).unwrap();
        assert!(due(&first, &first.bundle(), &environment).is_none());
        day.store(61, Ordering::Relaxed);
        let staged = read(&due(&first, &first.bundle(), &environment).unwrap());
        assert_eq!(staged.current.certificate, first.current.certificate);
        assert!(due(&staged, &first.bundle(), &environment).is_none());
        let promoted = due(&staged, &staged.bundle(), &environment).unwrap();
        assert_ne!(promoted.current.certificate, first.current.certificate);
        assert!(promoted.bundle().contains(&first.current.authority.pem));
        day.store(91, Ordering::Relaxed);
        let pruned = due(&promoted, &promoted.bundle(), &environment).unwrap();
        assert!(!pruned.bundle().contains(&first.current.authority.pem));
    }

    #[test]
    fn expired_certificate_is_replaced_at_once() {
        let (environment, day) = environment();
        let first = CertificateSet::generate(NAME, &environment).unwrap();
        day.store(200, Ordering::Relaxed);
        let next = due(&first, &first.bundle(), &environment).unwrap();
        assert!(!next.current.is_expired(environment.now()));
        assert_eq!(next.bundle(), next.current.authority.pem);
    }

    #[test]
    fn refuses_secrets_that_do_not_fit() {
        let (environment, _) = environment();
        let first = CertificateSet::generate(NAME, &environment).unwrap();
        let second = CertificateSet::generate(NAME, &environment).unwrap();
        let changed = |key: &str, other: Option<&CertificateSet>| {
            let mut values = first.values();
            match other {
                Some(other) => values.insert(key.to_owned(), other.values()[key].clone()),
                None => values.remove(key),
            };
            CertificateSet::parse(&values, NAME).unwrap_err().to_string()
        };
        assert_eq!(changed("ca.crt", None), "ca.crt is missing");
        assert_eq!(changed("tls.key", None), "tls.key is missing");
        let error = "no authority of ca.crt signed the certificate";
        assert_eq!(changed("ca.crt", Some(&second)), error);
        assert!(changed("tls.key", Some(&second)).starts_with("the key does not fit"));
        let error = CertificateSet::parse(&first.values(), "other.system.svc").unwrap_err();
        assert_eq!(error.to_string(), "the certificate is not one for other.system.svc");
    }

    #[test]
    fn key_is_not_shown() {
        let (environment, _) = environment();
        let certificates = CertificateSet::generate(NAME, &environment).unwrap();
        assert!(!format!("{certificates:?}").contains("PRIVATE"));
    }
}
