//! Who calls: a bearer token, looked up by digest, with at most half a second between two looks at the ledger, so that
//! a revocation by any process is in effect within a second.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use counterfoil::caller::{Caller, Roles};
use counterfoil::ledger::Ledger;
use counterfoil::{Account, StoreError, Timestamp};
use http::request::Parts;
use http::{HeaderMap, header};
use subtle::ConstantTimeEq as _;

use super::problem::Problem;
use crate::secret;

/// How old a look at the ledger may be.
const FRESH: Duration = Duration::from_millis(500);

/// How many tokens are remembered.
const REMEMBERED: usize = 10_000;

/// How many peers or accounts are watched for guessing.
const WATCHED: usize = 4_096;

/// Unknown tokens that one peer may present at once, and how many more each second.
const TOKEN_MISSES: Allowance = Allowance { burst: 100.0, per_second: 10.0 };

/// Unknown operation IDs that one account may ask for at once, and how many more each second.
const ID_MISSES: Allowance = Allowance { burst: 1_000.0, per_second: 100.0 };

/// An authenticated call.
#[derive(Clone, Debug)]
pub struct Session {
    /// Who calls and what they may do.
    pub caller: Arc<Caller>,
    shown: Shown,
}

/// What a caller showed.
#[derive(Clone, Copy, Debug)]
enum Shown {
    /// A token with this digest.
    Token { digest: [u8; 32], peer: Option<IpAddr> },
    /// Nothing: it is this process itself.
    Nothing,
}

/// The caller of a request that this process makes to itself, over a ledger that it has opened: whoever can open the
/// file needs no token. It travels beside the request, where nothing that comes over a connection can put it.
#[derive(Clone, Debug)]
pub struct Own(pub Arc<Caller>);

impl Session {
    /// Whether this process calls itself.
    #[must_use]
    pub fn is_own(&self) -> bool {
        match self.shown {
            Shown::Nothing => true,
            Shown::Token { .. } => false,
        }
    }
}

/// Looks tokens up.
pub struct Authority {
    ledger: Ledger,
    seen: RwLock<HashMap<[u8; 32], Seen>>,
    tokens: Misses<Option<IpAddr>>,
    ids: Misses<Account>,
}

#[derive(Clone)]
struct Seen {
    caller: Arc<Caller>,
    digest: [u8; 32],
    expires_at: Option<Timestamp>,
    looked_at: Duration,
}

impl Authority {
    /// Tokens of this ledger.
    #[must_use]
    pub fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            seen: RwLock::default(),
            tokens: Misses::new(TOKEN_MISSES),
            ids: Misses::new(ID_MISSES),
        }
    }

    /// The caller behind a request's token.
    ///
    /// # Errors
    /// `unauthenticated`, `too-many-requests`, or what the store could not do.
    pub async fn authenticate(&self, parts: &Parts, peer: Option<IpAddr>) -> Result<Session, Problem> {
        if let Some(Own(caller)) = parts.extensions.get::<Own>() {
            return Ok(Session { caller: caller.clone(), shown: Shown::Nothing });
        }
        let Some(token) = bearer(&parts.headers) else {
            return Err(Problem::new(
                "unauthenticated",
                "There is no bearer token in the header Authorization.",
            ));
        };
        if !secret::well_formed(token) {
            return Err(self.unknown_token(peer));
        }
        self.look(secret::digest(token), peer).await
    }

    /// Asks again for a caller that waited: what it waited for is shown only to somebody who may still see it.
    ///
    /// # Errors
    /// As [`Authority::authenticate`].
    pub async fn again(&self, session: &Session) -> Result<Session, Problem> {
        match session.shown {
            Shown::Token { digest, peer } => self.look(digest, peer).await,
            Shown::Nothing => Ok(session.clone()),
        }
    }

    /// Counts a call for an operation that is not there.
    ///
    /// # Errors
    /// `too-many-requests` where there were too many.
    pub fn missed_id(&self, account: &Account) -> Result<(), Problem> {
        if self.ids.take(account, self.ledger.clock().monotonic()) { Ok(()) } else { Err(too_many()) }
    }

    /// Counts a webhook with a bad signature.
    ///
    /// # Errors
    /// `too-many-requests` where there were too many.
    pub fn missed_signature(&self, peer: Option<IpAddr>) -> Result<(), Problem> {
        if self.tokens.take(&peer, self.ledger.clock().monotonic()) { Ok(()) } else { Err(too_many()) }
    }

    async fn look(&self, digest: [u8; 32], peer: Option<IpAddr>) -> Result<Session, Problem> {
        let now = self.ledger.clock().monotonic();
        let remembered = self.remembered(&digest).filter(|seen| now.saturating_sub(seen.looked_at) < FRESH);
        let seen = match remembered {
            Some(seen) => Some(seen),
            None => self.look_up(digest, now).await?,
        };
        let current = seen.filter(|seen| {
            let lives = seen.expires_at.is_none_or(|end| self.ledger.clock().now() < end);
            lives && bool::from(seen.digest.ct_eq(&digest))
        });
        match current {
            Some(seen) => Ok(Session { caller: seen.caller, shown: Shown::Token { digest, peer } }),
            None => Err(self.unknown_token(peer)),
        }
    }

    /// Looks into the ledger. The age of what it finds counts from before the look.
    async fn look_up(&self, digest: [u8; 32], now: Duration) -> Result<Option<Seen>, StoreError> {
        let found = self.ledger.store().token_by_digest(&digest).await?;
        let seen = found.filter(|token| token.revoked_at.is_none()).and_then(|token| {
            let roles = Roles::parse(token.roles.iter().map(String::as_str))?;
            let caller =
                Caller { account: token.account, principal: token.principal, roles, tools: token.tools };
            Some(Seen {
                caller: Arc::new(caller),
                digest: token.digest,
                expires_at: token.expires_at,
                looked_at: now,
            })
        });
        let mut all = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        match &seen {
            Some(seen) => {
                if all.len() >= REMEMBERED {
                    all.clear();
                }
                all.insert(digest, seen.clone());
            }
            None => {
                all.remove(&digest);
            }
        }
        Ok(seen)
    }

    fn remembered(&self, digest: &[u8; 32]) -> Option<Seen> {
        self.seen.read().unwrap_or_else(PoisonError::into_inner).get(digest).cloned()
    }

    fn unknown_token(&self, peer: Option<IpAddr>) -> Problem {
        if self.tokens.take(&peer, self.ledger.clock().monotonic()) {
            Problem::new("unauthenticated", "The bearer token is unknown, revoked or expired.")
        } else {
            too_many()
        }
    }
}

fn too_many() -> Problem {
    Problem::new("too-many-requests", "Too many calls missed.").retry_after(1)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
}

/// How many misses are free.
#[derive(Clone, Copy)]
struct Allowance {
    burst: f64,
    per_second: f64,
}

/// Counts misses by whoever makes them, in bounded memory.
struct Misses<K> {
    allowance: Allowance,
    left: Mutex<HashMap<K, (f64, Duration)>>,
}

impl<K: Clone + Eq + std::hash::Hash> Misses<K> {
    fn new(allowance: Allowance) -> Self {
        Self { allowance, left: Mutex::default() }
    }

    /// Takes one, if one is left.
    fn take(&self, who: &K, now: Duration) -> bool {
        let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= WATCHED && !all.contains_key(who) {
            // Whoever has not missed for long has all of its allowance back and need not be remembered.
            let full = Duration::from_secs_f64(self.allowance.burst / self.allowance.per_second);
            all.retain(|_, (_, at)| now.saturating_sub(*at) < full);
            if all.len() >= WATCHED {
                return false;
            }
        }
        let (left, at) = all.entry(who.clone()).or_insert((self.allowance.burst, now));
        let back = now.saturating_sub(*at).as_secs_f64() * self.allowance.per_second;
        *left = (*left + back).min(self.allowance.burst);
        *at = now;
        let granted = *left >= 1.0;
        if granted {
            *left -= 1.0;
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_free_up_to_a_burst_and_come_back() {
        let misses = Misses::new(Allowance { burst: 3.0, per_second: 1.0 });
        let at = Duration::from_secs;
        assert_eq!((0..5).filter(|_| misses.take(&"a", at(0))).count(), 3);
        assert!(misses.take(&"b", at(0)));
        assert!(misses.take(&"a", at(1)));
        assert!(!misses.take(&"a", at(1)));
    }
}
