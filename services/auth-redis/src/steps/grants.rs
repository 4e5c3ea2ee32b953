//! Authorization codes and grants.

use std::time::Duration;

use vmcp_auth_store::{
    AuthorizationCodeData, ClientId, CodeChallenge, CodeRedemption, Digest, Grant, GrantId,
    GrantInsertOutcome, GrantLookup, PresentedRefreshToken, PreviousRefreshToken, RedeemOutcome,
    RefreshTokens, Revocation, RotationOutcome, StoreError, Timestamp,
};
use vmcp_redis::Idempotency;

use crate::reply::{Reply, parse_name, parse_record};
use crate::store::RedisStore;

/// Time to finish the redemption of a code before its session ends.
const REDEMPTION_TIMEOUT: Duration = Duration::from_mins(1);

const CORRUPT: StoreError = StoreError::Corrupt { what: "grant" };

impl RedisStore {
    pub(super) async fn set_code(
        &self,
        code: &Digest,
        seed: &AuthorizationCodeData,
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
        match &*reply.status()? {
            "ok" => Ok(true),
            "gone" => Ok(false),
            _ => Err(StoreError::Full { what: "codes" }),
        }
    }

    pub(super) async fn take_pending_code(
        &self,
        code: &Digest,
        client: &ClientId,
        challenge: &CodeChallenge,
    ) -> Result<CodeRedemption, StoreError> {
        let limits = self.limits();
        let arguments = self
            .arguments()
            .text(code.to_text())
            .text(client.as_str())
            .text(challenge.to_text())
            .duration(limits.redeemed_code_retention)
            .duration(REDEMPTION_TIMEOUT)
            .duration(limits.client_lifetime)
            .number(limits.clients as u64)
            .duration(limits.client_eviction_idle);
        let mut reply =
            self.step(&self.scripts().redeem_code, arguments, Idempotency::NotIdempotent).await?;
        let corrupt = StoreError::Corrupt { what: "code" };
        let outcome = match &*reply.status()? {
            "fresh" => RedeemOutcome::Redeemed(reply.record("code")?.ok_or(corrupt)?),
            "replayed" => RedeemOutcome::Replayed(reply.revocation()?.ok_or(corrupt)?),
            other => {
                let _: Option<String> = reply.get()?;
                if other == "redeeming" {
                    RedeemOutcome::InProgress
                } else {
                    RedeemOutcome::Unknown
                }
            }
        };
        Ok(CodeRedemption { outcome, client: reply.record("client")? })
    }

    pub(super) async fn set_grant(
        &self,
        code: &Digest,
        grant: &Grant,
    ) -> Result<GrantInsertOutcome, StoreError> {
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
            let RefreshTokens { idle, idle_end, generation, current, previous } = refresh;
            arguments = arguments.text("idle").duration(*idle).text("ie").time(*idle_end);
            arguments = arguments.text("n").number(u64::from(*generation));
            arguments = arguments.text("k").text(current.to_text());
            if let Some(PreviousRefreshToken { digest, rotated }) = previous {
                arguments = arguments.text("p").text(digest.to_text()).text("pr").time(*rotated);
            }
        }
        let mut reply =
            self.step(&self.scripts().start_grant, arguments, Idempotency::Idempotent).await?;
        match &*reply.status()? {
            "ok" => Ok(GrantInsertOutcome::Inserted),
            "refused" => Ok(GrantInsertOutcome::Rejected),
            _ => Err(StoreError::Full { what: "grants" }),
        }
    }

    pub(super) async fn set_code_invalid(&self, code: &Digest) -> Result<(), StoreError> {
        let arguments = self.arguments().text(code.to_text());
        self.step(&self.scripts().invalidate_code, arguments, Idempotency::Idempotent)
            .await
            .map(|_| ())
    }

    pub(super) async fn get_grant(
        &self,
        id: &GrantId,
        client: &ClientId,
    ) -> Result<GrantLookup, StoreError> {
        let arguments = self.arguments().text(id.to_text()).text(client.as_str());
        let mut reply =
            self.step(&self.scripts().grant, arguments, Idempotency::Idempotent).await?;
        let client = reply.record("client")?;
        Ok(GrantLookup { grant: read_grant(&mut reply)?, client })
    }

    pub(super) async fn rotate_grant(
        &self,
        id: &GrantId,
        presented: &PresentedRefreshToken,
        next: &Digest,
    ) -> Result<RotationOutcome, StoreError> {
        let PresentedRefreshToken { digest, generation } = presented;
        let limits = self.limits();
        let arguments = self
            .arguments()
            .text(id.to_text())
            .text(digest.to_text())
            .number(u64::from(*generation))
            .text(next.to_text())
            .duration(limits.rotation_grace)
            .duration(limits.client_lifetime)
            .number(limits.clients as u64)
            .duration(limits.client_eviction_idle);
        // Idempotent: the repeated call returns `Repeated`.
        let mut reply =
            self.step(&self.scripts().rotate, arguments, Idempotency::Idempotent).await?;
        let word = reply.status()?;
        match &*word {
            "gone" => Ok(RotationOutcome::NotFound),
            "replayed" => Ok(RotationOutcome::Replayed(reply.revocation()?.ok_or(CORRUPT)?)),
            word => {
                let grant = Box::new(read_grant(&mut reply)?.ok_or(CORRUPT)?);
                let rotated = word == "rotated";
                Ok(if rotated {
                    RotationOutcome::Rotated(grant)
                } else {
                    RotationOutcome::Repeated(grant)
                })
            }
        }
    }

    pub(super) async fn delete_grant(
        &self,
        id: &GrantId,
    ) -> Result<Option<Revocation>, StoreError> {
        let arguments = self.arguments().text(id.to_text());
        self.step(&self.scripts().revoke, arguments, Idempotency::Idempotent).await?.revocation()
    }
}

/// Parses a grant: its record, then the fields that a refresh changes.
fn read_grant(reply: &mut Reply) -> Result<Option<Grant>, StoreError> {
    let Some(record) = reply.get::<String>()? else { return Ok(None) };
    let mut grant: Grant = parse_record(&record, "grant")?;
    let Some(idle) = reply.get()?.map(Duration::from_millis) else { return Ok(Some(grant)) };
    let idle_end = Timestamp::from_millis(reply.require()?);
    let generation = reply.require()?;
    let current = parse_name(&reply.require::<String>()?, "grant")?;
    let previous = match (reply.get::<String>()?, reply.get()?) {
        (Some(digest), Some(rotated)) => {
            let rotated = Timestamp::from_millis(rotated);
            Some(PreviousRefreshToken { digest: parse_name(&digest, "grant")?, rotated })
        }
        _ => None,
    };
    grant.refresh = Some(RefreshTokens { idle, idle_end, generation, current, previous });
    Ok(Some(grant))
}
