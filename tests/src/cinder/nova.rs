//! Nova beside Cinder, and the instances of an account.

use super::request::ask;
use super::{Account, Cinder, launch};
use crate::lasting_thread::on_lasting_thread;
use serde_json::{Value, json};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::thread;
use std::time::Instant;
use wasmount_core::mutex::lock;
use xtask::failure::Failure;

/// The project's instances.
const SERVERS: &str = "/v2.1/servers";

impl Cinder {
    /// Starts Nova, unless it runs, and returns where it listens. It ends with Cinder.
    pub fn nova(&self) -> Result<SocketAddrV4, Failure> {
        let address = self.launch.nova_address();
        let mut nova = lock(&self.nova);
        if nova.is_none() {
            self.put_into_catalogue(&format!("http://{address}/v2.1"))?;
            let launch = Arc::clone(&self.launch);
            *nova = Some(on_lasting_thread(move || launch.nova())?);
            let token = self.administrator()?;
            ask(address, "GET", SERVERS, &token, &Value::Null)?.succeeded()?;
        }
        Ok(address)
    }

    /// Cinder looks there for Nova.
    fn put_into_catalogue(&self, url: &str) -> Result<(), Failure> {
        let keystone = self.launch.keystone_address();
        let token = self.administrator()?;
        let service = json!({ "service": { "type": "compute", "name": "nova" } });
        let service = ask(keystone, "POST", "/v3/services", &token, &service)?;
        let service = service.text("/service/id")?;
        let endpoint = json!({ "service_id": service, "interface": "public", "url": url });
        let endpoint = json!({ "endpoint": endpoint });
        ask(keystone, "POST", "/v3/endpoints", &token, &endpoint)?.succeeded()?;
        Ok(())
    }
}

impl Account {
    /// Creates an instance without networks, and returns its id once it is active. [`Cinder::nova`] has to run.
    pub fn create_instance(&self, token: &str) -> Result<String, Failure> {
        let disk = json!({ "boot_index": 0, "source_type": "blank", "destination_type": "local" });
        let server = json!({
            "name": "node", "flavorRef": "node", "networks": "none", "block_device_mapping_v2": [disk],
        });
        let body = json!({ "server": server });
        let created = ask(self.nova, "POST", SERVERS, token, &body)?;
        let id = created.text("/server/id")?;
        let path = format!("{SERVERS}/{id}");
        let start = Instant::now();
        loop {
            let now = ask(self.nova, "GET", &path, token, &Value::Null)?;
            match now.text("/server/status")?.as_str() {
                "ACTIVE" => return Ok(id),
                "BUILD" if start.elapsed() < launch::START => thread::sleep(launch::LOOK),
                _ => return Err(Failure::Unexpected(format!("no active instance: {now:?}"))),
            }
        }
    }

    /// Deletes an instance: it is gone for users at once, and Nova detaches its volumes.
    pub fn delete_instance(&self, token: &str, id: &str) -> Result<(), Failure> {
        let path = format!("{SERVERS}/{id}");
        ask(self.nova, "DELETE", &path, token, &Value::Null)?.succeeded()?;
        Ok(())
    }

    /// Ids of the volumes that are attached to an instance, as Nova knows them.
    pub fn volumes_of_instance(&self, token: &str, id: &str) -> Result<Vec<String>, Failure> {
        let path = format!("{SERVERS}/{id}/os-volume_attachments");
        let listed = ask(self.nova, "GET", &path, token, &Value::Null)?.succeeded()?;
        let all = listed
            .body
            .get("volumeAttachments")
            .and_then(Value::as_array);
        let id = |it: &Value| it.get("volumeId")?.as_str().map(str::to_owned);
        Ok(all.into_iter().flatten().filter_map(id).collect())
    }
}
