//! Connections to Redis: the secrets of the resource become files, and a Service without namespace is in that of the server.

use vmcp_config::{
    SecretFile, SecretRef,
    redis::{RedisAddress, RedisConnection, RedisTls, Sentinel, SentinelNodes, SentinelService},
};

use super::converter::{Converter, Rejected};

impl Converter<'_> {
    pub(super) fn redis_connection(
        &mut self,
        connection: RedisConnection<SecretRef>,
        path: &str,
    ) -> Option<RedisConnection<SecretFile>> {
        let RedisConnection { address, dial_timeout, read_timeout, write_timeout, tls } =
            connection;
        let address = match address {
            RedisAddress::Standalone(address) => Ok(RedisAddress::Standalone(address)),
            RedisAddress::Cluster(address) => Ok(RedisAddress::Cluster(address)),
            RedisAddress::Sentinel { config, tls } => self
                .redis_tls(tls, &format!("{path}.sentinelTls"))
                .map(|tls| RedisAddress::Sentinel { config: self.sentinel(config), tls }),
        };
        let tls = self.redis_tls(tls, &format!("{path}.tls"));
        Some(RedisConnection {
            address: address.ok()?,
            dial_timeout,
            read_timeout,
            write_timeout,
            tls: tls.ok()?,
        })
    }

    fn redis_tls(
        &mut self,
        tls: Option<RedisTls<SecretRef>>,
        path: &str,
    ) -> Result<Option<RedisTls<SecretFile>>, Rejected> {
        let Some(RedisTls { ca_cert_secret_ref, insecure_skip_verify }) = tls else {
            return Ok(None);
        };
        let path = format!("{path}.caCertSecretRef");
        let ca_cert_secret_ref = ca_cert_secret_ref
            .map(|reference| self.required_file(&reference, &path).ok_or(Rejected))
            .transpose()?;
        Ok(Some(RedisTls { ca_cert_secret_ref, insecure_skip_verify }))
    }

    fn sentinel(&self, sentinel: Sentinel) -> Sentinel {
        let Sentinel { master_name, db, nodes } = sentinel;
        let nodes = match nodes {
            SentinelNodes::Addresses(addresses) => SentinelNodes::Addresses(addresses),
            SentinelNodes::Service(SentinelService { name, namespace, port }) => {
                let namespace = namespace.unwrap_or_else(|| self.inputs.namespace().to_owned());
                SentinelNodes::Service(SentinelService { name, namespace: Some(namespace), port })
            }
        };
        Sentinel { master_name, db, nodes }
    }
}
