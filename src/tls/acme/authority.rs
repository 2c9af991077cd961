//! An order at the authority, from its beginning to the certificate. What has to be known to go on
//! with it is kept before the authority is asked, so that whoever is killed in between leaves an
//! order that the next one takes up.

use std::sync::Arc;
use std::time::Duration;

use instant_acme::{
    AccountCredentials, AuthorizationStatus, ChallengeType, ExternalAccountKey, Identifier,
    NewAccount, NewOrder, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::certificates::Issued;
use super::challenges::Challenges;
use super::http::Http;
use super::storage::{self, Certificate, Storage, StorageError};
use crate::config::{self, ConfigError, Tls};

/// How long the authority may look whether a name is ours, and how long it may take to issue.
const PATIENCE: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.5)
    .timeout(Duration::from_secs(90));
/// What it says of an account that it does not know, or no more.
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum OrderError {
    #[error("the authority: {0}")]
    Authority(#[from] instant_acme::Error),
    #[error("the authority did not find {name} here: {problem}")]
    NotOurs { name: String, problem: String },
    #[error("the authority offers neither http-01 nor tls-alpn-01 to prove {0}")]
    NoChallenge(String),
    #[error("what the authority issued can't be used: {0}")]
    Unusable(String),
    #[error("a key can't be made: {0}")]
    Key(#[from] rcgen::Error),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("the account can't be written down: {0}")]
    Account(#[from] serde_json::Error),
}

impl OrderError {
    /// Whether the authority has forgotten the account.
    pub(super) fn is_of_account(&self) -> bool {
        match self {
            OrderError::Authority(instant_acme::Error::Api(problem)) => {
                problem.r#type.as_deref() == Some(NO_ACCOUNT)
            }
            OrderError::Authority(_)
            | OrderError::NotOurs { .. }
            | OrderError::NoChallenge(_)
            | OrderError::Unusable(_)
            | OrderError::Key(_)
            | OrderError::Storage(_)
            | OrderError::Account(_) => false,
        }
    }
}

/// The authority, as the settings name it.
pub(super) struct Authority {
    settings: config::Acme,
    /// How names are proven: by the listener for plain HTTP, where there is one.
    proof: ChallengeType,
    http: Http,
    storage: Arc<Storage>,
}

impl Authority {
    /// # Errors
    /// The first setting that can't be used.
    pub(super) fn new(settings: &Tls, storage: Arc<Storage>) -> Result<Self, ConfigError> {
        Ok(Authority {
            http: Http::new(&settings.acme)?,
            settings: settings.acme.clone(),
            proof: match settings.redirect_from.is_empty() {
                true => ChallengeType::TlsAlpn01,
                false => ChallengeType::Http01,
            },
            storage,
        })
    }

    /// Until when it wants to be left alone, in seconds since 1970.
    pub(super) fn alone_until(&self) -> i64 {
        self.http.alone_until()
    }

    /// The account that is kept, or a new one.
    pub(super) async fn account(&self) -> Result<instant_acme::Account, OrderError> {
        let Some(kept) = self.storage.account().await? else {
            return self.new_account().await;
        };
        let credentials: AccountCredentials = serde_json::from_str(&kept.credentials)?;
        let account = self.builder().from_credentials(credentials).await?;
        if kept.contact != self.settings.contact {
            account.update_contacts(&self.contact()).await?;
            let contact = self.settings.contact.clone();
            let account = storage::Account { contact, ..kept };
            self.storage.put_account(account).await?;
        }
        Ok(account)
    }

    async fn new_account(&self) -> Result<instant_acme::Account, OrderError> {
        let wanted = NewAccount {
            contact: &self.contact(),
            terms_of_service_agreed: self.settings.terms_of_service_agreed,
            only_return_existing: false,
        };
        let directory = self.settings.directory.clone();
        let bound = self.settings.external_account();
        let bound = bound.map(|(id, key)| ExternalAccountKey::new(id, &key));
        let made = self.builder().create(&wanted, directory, bound.as_ref());
        let (account, credentials) = made.await?;
        let kept = storage::Account {
            credentials: serde_json::to_string(&credentials)?,
            contact: self.settings.contact.clone(),
        };
        self.storage.put_account(kept).await?;
        tracing::info!(
            account = account.id(),
            "an account was made at the authority of [tls.acme]"
        );
        Ok(account)
    }

    fn builder(&self) -> instant_acme::AccountBuilder {
        instant_acme::Account::builder_with_http(Box::new(self.http.clone()))
    }

    fn contact(&self) -> Vec<&str> {
        self.settings.contact.iter().map(String::as_str).collect()
    }

    /// Has a certificate issued for this name, and keeps it.
    pub(super) async fn order(
        &self,
        account: &instant_acme::Account,
        challenges: &Challenges,
        name: &str,
    ) -> Result<Issued, OrderError> {
        let (mut order, key) = match self.found_order(account, name).await? {
            Some(found) => found,
            None => self.new_order(account, name).await?,
        };
        let issued = self.completed(&mut order, challenges, (name, &key)).await;
        if issued.is_err() && order.state().status == OrderStatus::Invalid {
            self.storage.delete_order(name).await?;
        }
        let chain = issued?;
        let certificate = Certificate { chain, key };
        let issued = Issued::of(name, &certificate.chain, &certificate.key);
        let issued = match issued {
            Ok(issued) => issued,
            Err(why) => {
                self.storage.delete_order(name).await?;
                return Err(OrderError::Unusable(why));
            }
        };
        self.storage.put_certificate(name, certificate).await?;
        Ok(issued)
    }

    /// The order that was begun for this name, perhaps by a process that died, and its key.
    async fn found_order(
        &self,
        account: &instant_acme::Account,
        name: &str,
    ) -> Result<Option<(instant_acme::Order, String)>, OrderError> {
        let Some(kept) = self.storage.order(name).await? else {
            return Ok(None);
        };
        let goes_on = match account.order(kept.url).await {
            Ok(mut order) => match order.state().status {
                OrderStatus::Invalid => None,
                OrderStatus::Pending
                | OrderStatus::Ready
                | OrderStatus::Processing
                | OrderStatus::Valid => Some((order, kept.key)),
            },
            // The authority knows it no more.
            Err(instant_acme::Error::Api(_)) => None,
            Err(error) => return Err(error.into()),
        };
        match goes_on {
            Some(_) => tracing::info!(name, "an order of a certificate that was begun goes on"),
            None => self.storage.delete_order(name).await?,
        }
        Ok(goes_on)
    }

    async fn new_order(
        &self,
        account: &instant_acme::Account,
        name: &str,
    ) -> Result<(instant_acme::Order, String), OrderError> {
        let key = KeyPair::generate()?.serialize_pem();
        let names = [Identifier::Dns(name.to_owned())];
        let wanted = NewOrder::new(&names);
        let wanted = match self.settings.profile.as_str() {
            "" => wanted,
            profile => wanted.profile(profile),
        };
        let order = account.new_order(&wanted).await?;
        let kept = storage::Order {
            url: order.url().to_owned(),
            key: key.clone(),
        };
        self.storage.put_order(name, kept).await?;
        Ok((order, key))
    }

    /// Goes on with an order from wherever it stands; gives the chain in PEM.
    async fn completed(
        &self,
        order: &mut instant_acme::Order,
        challenges: &Challenges,
        (name, key): (&str, &str),
    ) -> Result<String, OrderError> {
        if order.state().status == OrderStatus::Pending {
            self.prove(order, challenges).await?;
            let proven = order.poll_ready(&PATIENCE).await;
            challenges.clear().await?;
            if order.state().status == OrderStatus::Invalid {
                return Err(not_ours(order, name).await);
            }
            proven?;
        }
        if order.state().status == OrderStatus::Ready {
            let request = signing_request(name, key)?;
            order.finalize_csr(&request).await?;
        }
        Ok(order.poll_certificate(&PATIENCE).await?)
    }

    /// Has the authority look whether the names of an order are ours.
    async fn prove(
        &self,
        order: &mut instant_acme::Order,
        challenges: &Challenges,
    ) -> Result<(), OrderError> {
        challenges.clear().await?;
        let mut names = order.authorizations();
        while let Some(authorization) = names.next().await {
            let mut authorization = authorization?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let domain = authorization.identifier().to_string();
            let offered = &authorization.challenges;
            let is_offered = |kind: &&ChallengeType| offered.iter().any(|one| one.r#type == **kind);
            let usual = [&self.proof, &ChallengeType::TlsAlpn01];
            let Some(kind) = usual.into_iter().find(is_offered).cloned() else {
                return Err(OrderError::NoChallenge(domain));
            };
            let Some(mut challenge) = authorization.challenge(kind) else {
                return Err(OrderError::NoChallenge(domain));
            };
            let answer = storage::Challenge {
                domain,
                key_authorization: challenge.key_authorization().as_str().to_owned(),
            };
            let token = challenge.token.clone();
            challenges.publish(&token, answer).await?;
            challenge.set_ready().await?;
        }
        Ok(())
    }
}

/// What the authority says of an order that it has refused: its authorizations know why.
async fn not_ours(order: &mut instant_acme::Order, name: &str) -> OrderError {
    let mut problems: Vec<String> = Vec::new();
    let mut names = order.authorizations();
    while let Some(Ok(mut authorization)) = names.next().await {
        if let Ok(state) = authorization.refresh().await {
            let told = state.challenges.iter().filter_map(|one| one.error.as_ref());
            problems.extend(told.map(ToString::to_string));
        }
    }
    let problem = match problems.is_empty() {
        true => "it does not say why".to_owned(),
        false => problems.join("; "),
    };
    OrderError::NotOurs {
        name: name.to_owned(),
        problem,
    }
}

/// A request for a certificate of this name and key (PKCS #10).
fn signing_request(name: &str, key: &str) -> Result<Vec<u8>, rcgen::Error> {
    let key = KeyPair::from_pem(key)?;
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(&key)?.der().to_vec())
}
