//! The account of a test: a project of its own, so that tests which share a Cinder see nothing of each other, and a credential for the driver.

use super::request::{Answer, ask};
use super::{Cinder, launch};
use serde_json::{Value, json};
use std::net::SocketAddrV4;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use wasmount_core::mutex::lock;
use xtask::failure::Failure;
use xtask::process::Process;

/// Users that `tests/python/openstack/prepare.py` creates; the name of each is its password. The second one is a member of every project.
const ADMINISTRATOR: &str = "admin";
const MEMBER: &str = "demo";

/// What a member of a project is to Keystone.
const MEMBER_ROLE: &str = "member";

/// The secret of each account's application credential.
const APPLICATION_SECRET: &str = "application-secret-4711";

/// The password of each user that an account has of its own.
const PASSWORD: &str = "password-of-a-user-4711";

/// What each token of Keystone begins with: Fernet's version, and the high bytes of a time until 2038, in base64.
pub const TOKEN_PREFIX: &str = "gAAAAAB";

/// Where tokens are made.
const TOKENS: &str = "/v3/auth/tokens";

/// The project's volumes with all their fields, in pages as large as `osapi_max_limit`.
const VOLUMES: &str = "/v3/volumes/detail";

/// The answer to a token that is not valid, or not any more.
const UNAUTHORIZED: u16 = 401;

/// What a test chooses.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccountOptions {
    /// How long a token is good, if not for the whole test: the account then has a Keystone of its own.
    pub token_lifetime: Option<Duration>,
    /// Volumes that the project may have, if not a thousand.
    pub quota_volumes: Option<u32>,
    /// Backups that the project may have, if not Cinder's default of ten.
    pub quota_backups: Option<u32>,
    /// The driver logs in with the password of a user, and not with an application credential.
    pub has_password: bool,
}

/// How a driver proves who it is.
#[derive(Debug, Clone)]
pub enum Credential {
    /// With an application credential.
    Application {
        /// Its id.
        id: String,
        /// The id of its user.
        user: String,
        /// The project of its user.
        project: String,
    },
    /// With the password of a user.
    Password {
        /// The name of the user.
        user: String,
        /// The id of the user.
        id: String,
        /// A project of the user.
        project: String,
    },
}

/// An account; it needs its [`Cinder`].
#[derive(Debug)]
pub struct Account {
    credential: Credential,
    cinder: SocketAddrV4,
    pub(super) nova: SocketAddrV4,
    keystone: SocketAddrV4,
    _own_keystone: Option<Process>,
}

impl Cinder {
    /// Both services load their policies at their first request, and refuse others that come meanwhile (oslo.policy).
    pub(super) fn load_policies(&self) -> Result<(), Failure> {
        let keystone = self.launch.keystone_address();
        let token = self.administrator()?;
        for (service, path) in [(keystone, "/v3/projects"), (self.cinder(), "/v3/volumes")] {
            ask(service, "GET", path, &token, &Value::Null)?.succeeded()?;
        }
        Ok(())
    }

    /// A token of the administrator of all.
    pub(super) fn administrator(&self) -> Result<String, Failure> {
        let auth = by_password(ADMINISTRATOR, &ADMINISTRATOR.into(), ADMINISTRATOR);
        log_in(self.launch.keystone_address(), &auth).map(|(token, _)| token)
    }

    /// Creates an account. Call it on the thread of the test, with which its own Keystone ends.
    pub fn account(&self, options: AccountOptions) -> Result<Account, Failure> {
        // One at a time: SQLite has one writer, and Keystone answers 500 to another.
        static PROJECTS: Mutex<usize> = Mutex::new(0);
        let mut number = lock(&PROJECTS);
        *number += 1;
        let name = format!("test-{number}");
        let shared = self.launch.keystone_address();
        let token = self.administrator()?;
        let project = json!({ "project": { "name": name, "domain_id": "default" } });
        let project = ask(shared, "POST", "/v3/projects", &token, &project)?;
        let project = project.text("/project/id")?;
        for (kind, quota) in [
            ("volumes", options.quota_volumes),
            ("backups", options.quota_backups),
        ] {
            let Some(quota) = quota else { continue };
            let path = format!("/v3/os-quota-sets/{project}");
            let quota = json!({ "quota_set": { kind: quota } });
            ask(self.cinder(), "PUT", &path, &token, &quota)?.succeeded()?;
        }
        let credential = match options.has_password {
            true => self.user(&token, &project, name)?,
            false => application(shared, name)?,
        };
        let own = options
            .token_lifetime
            .map(|it| self.launch.another_keystone(it));
        let (own, keystone) = own.transpose()?.unzip();
        Ok(Account {
            credential,
            cinder: self.cinder(),
            nova: self.launch.nova_address(),
            keystone: keystone.unwrap_or(shared),
            _own_keystone: own,
        })
    }

    /// Removes the credential of an account for good. Its tokens end with it, and Cinder refuses all that it was sent before when this returns: it
    /// keeps what Keystone said of a token for some seconds (`token_cache_time`).
    pub fn withdraw(&self, account: &Account) -> Result<(), Failure> {
        let keystone = self.launch.keystone_address();
        let last = account.log_in()?;
        account.volumes(&last)?;
        let (path, token) = match &account.credential {
            Credential::Application { id, user, project } => {
                let (token, _) = log_in(keystone, &of_member(project))?;
                (
                    format!("/v3/users/{user}/application_credentials/{id}"),
                    token,
                )
            }
            Credential::Password { id, .. } => (format!("/v3/users/{id}"), self.administrator()?),
        };
        ask(keystone, "DELETE", &path, &token, &Value::Null)?.succeeded()?;
        let start = Instant::now();
        while account.ask("GET", VOLUMES, &last, &Value::Null)?.status != UNAUTHORIZED {
            if start.elapsed() > launch::START {
                let how = "Cinder accepts a token of a credential that was withdrawn";
                return Err(Failure::Unexpected(how.to_owned()));
            }
            thread::sleep(launch::LOOK);
        }
        Ok(())
    }

    /// Creates a user of a project, who is named as the project is.
    fn user(&self, token: &str, project: &str, name: String) -> Result<Credential, Failure> {
        let keystone = self.launch.keystone_address();
        let user =
            json!({ "user": { "name": name, "password": PASSWORD, "domain_id": "default" } });
        let user = ask(keystone, "POST", "/v3/users", token, &user)?;
        let id = user.text("/user/id")?;
        let path = format!("/v3/roles?name={MEMBER_ROLE}");
        let role = ask(keystone, "GET", &path, token, &Value::Null)?;
        let role = role.text("/roles/0/id")?;
        let path = format!("/v3/projects/{project}/users/{id}/roles/{role}");
        ask(keystone, "PUT", &path, token, &Value::Null)?.succeeded()?;
        let (user, project) = (name.clone(), name);
        Ok(Credential::Password { user, id, project })
    }
}

impl Credential {
    /// The body of a login, where the value stands as `value`.
    pub fn auth(&self, value: &Value) -> Value {
        match self {
            Self::Application { id, .. } => {
                let credential = json!({ "id": id, "secret": value });
                let methods = ["application_credential"];
                json!({ "identity": { "methods": methods, "application_credential": credential } })
            }
            Self::Password { user, project, .. } => by_password(user, value, project),
        }
    }

    /// The value, which nobody may see.
    pub fn value(&self) -> &'static str {
        match self {
            Self::Application { .. } => APPLICATION_SECRET,
            Self::Password { .. } => PASSWORD,
        }
    }
}

impl Account {
    /// For a document.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Where its Keystone listens.
    pub fn keystone(&self) -> SocketAddrV4 {
        self.keystone
    }

    /// Logs in as the driver does, and returns the token.
    pub fn log_in(&self) -> Result<String, Failure> {
        let auth = self.credential.auth(&self.credential.value().into());
        log_in(self.keystone, &auth).map(|(token, _)| token)
    }

    /// Sends a request to Cinder; `null` is no body.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: &Value,
    ) -> Result<Answer, Failure> {
        ask(self.cinder, method, path, token, body)
    }

    /// Names of all objects of a kind, such as `snapshots`, or their ids if they have none.
    pub fn names(&self, token: &str, kind: &str) -> Result<Vec<String>, Failure> {
        let listed = self.ask("GET", &format!("/v3/{kind}"), token, &Value::Null)?;
        let all = listed.body.get(kind).and_then(Value::as_array);
        let all =
            all.ok_or_else(|| Failure::Unexpected(format!("Cinder lists no {kind}: {listed:?}")))?;
        let name = |it: &Value| {
            let name = it.get("name").and_then(Value::as_str);
            let name = name.or_else(|| it.get("id")?.as_str());
            name.map(str::to_owned)
        };
        Ok(all.iter().filter_map(name).collect())
    }

    /// All volumes of the project.
    pub fn volumes(&self, token: &str) -> Result<Vec<Value>, Failure> {
        let mut all: Vec<Value> = Vec::new();
        loop {
            let last = all.last().and_then(|it| it.get("id")?.as_str());
            let page = last.map(|id| format!("{VOLUMES}?marker={id}"));
            let page = self.ask(
                "GET",
                page.as_deref().unwrap_or(VOLUMES),
                token,
                &Value::Null,
            )?;
            match page.body.get("volumes").and_then(Value::as_array) {
                Some(volumes) if page.status == 200 => all.extend(volumes.iter().cloned()),
                _ => {
                    return Err(Failure::Unexpected(format!(
                        "Cinder lists no volumes: {page:?}"
                    )));
                }
            }
            if page.body.get("volumes_links").is_none() {
                return Ok(all);
            }
        }
    }
}

/// Creates an application credential of the member in a project.
fn application(keystone: SocketAddrV4, project: String) -> Result<Credential, Failure> {
    let (token, user) = log_in(keystone, &of_member(&project))?;
    let path = format!("/v3/users/{user}/application_credentials");
    let credential =
        json!({ "application_credential": { "name": project, "secret": APPLICATION_SECRET } });
    let credential = ask(keystone, "POST", &path, &token, &credential)?;
    let id = credential.text("/application_credential/id")?;
    Ok(Credential::Application { id, user, project })
}

fn of_member(project: &str) -> Value {
    by_password(MEMBER, &MEMBER.into(), project)
}

/// A user of the default domain, in a project of it.
fn by_password(user: &str, password: &Value, project: &str) -> Value {
    let domain = json!({ "id": "default" });
    let user = json!({ "name": user, "domain": domain, "password": password });
    json!({
        "identity": { "methods": ["password"], "password": { "user": user } },
        "scope": { "project": { "name": project, "domain": domain } },
    })
}

/// A token, and the id of its user.
fn log_in(keystone: SocketAddrV4, auth: &Value) -> Result<(String, String), Failure> {
    let answer = ask(keystone, "POST", TOKENS, "", &json!({ "auth": auth }))?;
    let user = answer.text("/token/user/id")?;
    let token = answer
        .header("x-subject-token")
        .ok_or_else(|| Failure::Unexpected(format!("Keystone gave no token: {answer:?}")))?;
    Ok((token, user))
}
