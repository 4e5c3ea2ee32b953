//! Codes and what they gave.

use std::time::Duration;

use vmcp_auth_store::{
    Challenge, ClientId, CodeAnswer, Digest, Grant, GrantAnswer, GrantId, Presented, Previous,
    Refresh, Revocation, Rotation, Seed, Started, StoreError, Taken, Timestamp,
};
use vmcp_redis::Idempotency;

use crate::reply::{Reply, name, read};
use crate::store::RedisStore;

/// How long redeeming a taken code may take before its session ends.
const REDEEMING: Duration = Duration::from_secs(60);

const CORRUPT: StoreError = StoreError::Corrupt { what: "grant" };

impl RedisStore {
    pub(super) async fn set_code(
        &self,
        code: &Digest,
        seed: &Seed,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let arguments = self
            .arguments()
            .text(code.to_text())
            .record(seed)?
            .time(self.now() + ttl)
            .text(seed.session.to_text())
            .text(seed.client.as_str())
            .number(self.limits().codes as u64);
        let mut reply =
            self.step(&self.scripts().put_code, arguments, Idempotency::Idempotent).await?;
        match &*reply.word()? {
            "ok" => Ok(true),
            "gone" => Ok(false),
            _ => Err(StoreError::Full { what: "codes" }),
        }
    }

    pub(super) async fn present_code(
        &self,
        code: &Digest,
        client: &ClientId,
        challenge: &Challenge,
    ) -> Result<CodeAnswer, StoreError> {
        let limits = self.limits();
        let arguments = self
            .arguments()
            .text(code.to_text())
            .text(client.as_str())
            .text(challenge.to_text())
            .duration(limits.taken_code)
            .duration(REDEEMING)
            .duration(limits.client_lifetime)
            .number(limits.clients as u64)
            .duration(limits.client_at_rest);
        let mut reply =
            self.step(&self.scripts().take_code, arguments, Idempotency::NotIdempotent).await?;
        let corrupt = StoreError::Corrupt { what: "code" };
        let taken = match &*reply.word()? {
            "fresh" => Taken::Fresh(reply.record("code")?.ok_or(corrupt)?),
            "replayed" => Taken::Replayed(reply.revocation()?.ok_or(corrupt)?),
            other => {
                let _: Option<String> = reply.get()?;
                if other == "redeeming" { Taken::Redeeming } else { Taken::Unknown }
            }
        };
        Ok(CodeAnswer { taken, client: reply.record("client")? })
    }

    pub(super) async fn set_grant(
        &self,
        code: &Digest,
        grant: &Grant,
    ) -> Result<Started, StoreError> {
        let refresh = grant.refresh.as_ref();
        let ends = refresh.map_or(grant.ends, |refresh| refresh.idle_end.min(grant.ends));
        let fixed = Grant { refresh: None, ..grant.clone() };
        let mut arguments = self
            .arguments()
            .text(code.to_text())
            .text(grant.session.to_text())
            .text(grant.id.to_text())
            .time(ends)
            .time(ends.max(self.now() + grant.access_lifespan))
            .number(self.limits().grants as u64)
            .text("d")
            .record(&fixed)?
            .text("c")
            .text(grant.client.as_str())
            .text("e")
            .time(grant.ends)
            .text("l")
            .duration(grant.access_lifespan);
        if let Some(refresh) = refresh {
            let Refresh { idle, idle_end, generation, current, previous } = refresh;
            arguments = arguments.text("idle").duration(*idle).text("ie").time(*idle_end);
            arguments = arguments.text("n").number(u64::from(*generation));
            arguments = arguments.text("k").text(current.to_text());
            if let Some(Previous { digest, rotated }) = previous {
                arguments = arguments.text("p").text(digest.to_text()).text("pr").time(*rotated);
            }
        }
        let mut reply =
            self.step(&self.scripts().start_grant, arguments, Idempotency::Idempotent).await?;
        match &*reply.word()? {
            "ok" => Ok(Started::Started),
            "refused" => Ok(Started::Refused),
            _ => Err(StoreError::Full { what: "grants" }),
        }
    }

    pub(super) async fn end_code(&self, code: &Digest) -> Result<(), StoreError> {
        let arguments = self.arguments().text(code.to_text());
        self.step(&self.scripts().burn_code, arguments, Idempotency::Idempotent).await.map(|_| ())
    }

    pub(super) async fn get_grant(
        &self,
        id: &GrantId,
        client: &ClientId,
    ) -> Result<GrantAnswer, StoreError> {
        let arguments = self.arguments().text(id.to_text()).text(client.as_str());
        let mut reply =
            self.step(&self.scripts().grant, arguments, Idempotency::Idempotent).await?;
        let client = reply.record("client")?;
        Ok(GrantAnswer { grant: read_grant(&mut reply)?, client })
    }

    pub(super) async fn rotate_grant(
        &self,
        id: &GrantId,
        presented: &Presented,
        next: &Digest,
    ) -> Result<Rotation, StoreError> {
        let Presented { digest, generation } = presented;
        let limits = self.limits();
        let arguments = self
            .arguments()
            .text(id.to_text())
            .text(digest.to_text())
            .number(u64::from(*generation))
            .text(next.to_text())
            .duration(limits.grace)
            .duration(limits.client_lifetime)
            .number(limits.clients as u64)
            .duration(limits.client_at_rest);
        // Once more is the same as before: the answer is then `Repeated`.
        let mut reply =
            self.step(&self.scripts().rotate, arguments, Idempotency::Idempotent).await?;
        let word = reply.word()?;
        match &*word {
            "gone" => Ok(Rotation::Gone),
            "replayed" => Ok(Rotation::Replayed(reply.revocation()?.ok_or(CORRUPT)?)),
            word => {
                let grant = Box::new(read_grant(&mut reply)?.ok_or(CORRUPT)?);
                let rotated = word == "rotated";
                Ok(if rotated { Rotation::Rotated(grant) } else { Rotation::Repeated(grant) })
            }
        }
    }

    pub(super) async fn end_grant(&self, id: &GrantId) -> Result<Option<Revocation>, StoreError> {
        let arguments = self.arguments().text(id.to_text());
        self.step(&self.scripts().revoke, arguments, Idempotency::Idempotent).await?.revocation()
    }
}

/// A grant: its record, then what changes when it is refreshed.
fn read_grant(reply: &mut Reply) -> Result<Option<Grant>, StoreError> {
    let Some(record) = reply.get::<String>()? else { return Ok(None) };
    let mut grant: Grant = read(&record, "grant")?;
    let Some(idle) = reply.get()?.map(Duration::from_millis) else { return Ok(Some(grant)) };
    let idle_end = Timestamp::from_millis(reply.need()?);
    let generation = reply.need()?;
    let current = name(&reply.need::<String>()?, "grant")?;
    let previous = match (reply.get::<String>()?, reply.get()?) {
        (Some(digest), Some(rotated)) => {
            let rotated = Timestamp::from_millis(rotated);
            Some(Previous { digest: name(&digest, "grant")?, rotated })
        }
        _ => None,
    };
    grant.refresh = Some(Refresh { idle, idle_end, generation, current, previous });
    Ok(Some(grant))
}
