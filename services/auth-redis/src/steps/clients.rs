//! Clients, their logins, and this server's own registrations at providers.

use std::time::Duration;

use vmcp_auth_store::{Ciphertext, Client, ClientId, Digest, Login, StoreError};
use vmcp_redis::Idempotency;

use crate::reply::parse_record;
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn get_client(&self, id: &ClientId) -> Result<Option<Client>, StoreError> {
        let record = self.live_record("client:", id.as_str()).await?;
        record.map(|record| parse_record(&record, "client")).transpose()
    }

    pub(super) async fn register_client(&self, client: &Client) -> Result<(), StoreError> {
        let limits = self.limits();
        let arguments = self
            .arguments()
            .text(client.id.as_str())
            .record(client)?
            .time(self.now() + limits.new_client_lifetime)
            .number(limits.new_clients as u64);
        self.step(&self.scripts().register, arguments, Idempotency::Idempotent).await.map(|_| ())
    }

    /// Stores a login, in place of another one if `from` is given.
    pub(super) async fn set_login(
        &self,
        from: Option<&Digest>,
        to: &Digest,
        login: &Login,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let limits = self.limits();
        let arguments = self
            .arguments()
            .text(from.map(|from| from.to_text()).unwrap_or_default())
            .text(to.to_text())
            .record(login)?
            .time(self.now() + ttl)
            .text(login.origin.map(Digest::to_text).unwrap_or_default())
            .text(login.client().map(ClientId::as_str).unwrap_or_default())
            .number(limits.logins as u64)
            .number(limits.logins_per_origin as u64);
        let idempotency =
            if from.is_some() { Idempotency::NotIdempotent } else { Idempotency::Idempotent };
        let mut reply = self.step(&self.scripts().put_login, arguments, idempotency).await?;
        Ok(reply.status()? == "ok")
    }

    pub(super) async fn get_login(&self, key: &Digest) -> Result<Option<Login>, StoreError> {
        let record = self.live_record("login:", &key.to_text()).await?;
        record.map(|record| parse_record(&record, "login")).transpose()
    }

    pub(super) async fn remove_login(&self, key: &Digest) -> Result<Option<Login>, StoreError> {
        let arguments = self.arguments().text(key.to_text());
        self.step(&self.scripts().take_login, arguments, Idempotency::NotIdempotent)
            .await?
            .record("login")
    }

    pub(super) async fn get_registration(
        &self,
        key: &Digest,
    ) -> Result<Option<Ciphertext>, StoreError> {
        let record = self.live_record("registration:", &key.to_text()).await?;
        record.map(sealed).transpose()
    }

    pub(super) async fn set_registration(
        &self,
        key: &Digest,
        new: &Ciphertext,
        ttl: Duration,
    ) -> Result<Ciphertext, StoreError> {
        let arguments = self
            .arguments()
            .text(key.to_text())
            .text(String::from(new.clone()))
            .time(self.now() + ttl)
            .number(self.limits().registrations as u64);
        let mut reply =
            self.step(&self.scripts().put_registration, arguments, Idempotency::Idempotent).await?;
        match &*reply.status()? {
            "ok" => sealed(reply.require()?),
            _ => Err(StoreError::Full { what: "registrations" }),
        }
    }

    pub(super) async fn delete_registration(
        &self,
        key: &Digest,
        old: &Ciphertext,
    ) -> Result<(), StoreError> {
        let arguments = self.arguments().text(key.to_text()).text(String::from(old.clone()));
        self.step(&self.scripts().remove_registration, arguments, Idempotency::Idempotent)
            .await
            .map(|_| ())
    }
}

fn sealed(text: String) -> Result<Ciphertext, StoreError> {
    Ciphertext::try_from(text).map_err(|_| StoreError::Corrupt { what: "registration" })
}
