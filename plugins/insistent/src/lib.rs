//! A plugin that imports files and sockets, as some language runtimes do, and tries each of them: the parameter `try` names the attempt, `at` its
//! argument.
//!
//! It reports the result and does not know which result is right.

use std::env;
use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use wasmount_guest::*;

struct Insistent;
export! { identity: Insistent, controller: Insistent }

impl Identity for Insistent {
    fn get_plugin_info() -> PluginInfo {
        PluginInfo::new("insistent.wasmount.io", env!("CARGO_PKG_VERSION"))
    }
}

impl Controller for Insistent {
    fn create_volume(args: CreateVolumeArgs) -> Result<Volume, Error> {
        let at = args.parameters.value("at").unwrap_or_default();
        match attempt(args.parameters.require("try")?, at) {
            Ok(words) => Ok(Volume {
                context: vec![("words".to_owned(), words)],
                ..Volume::new(args.name, args.capacity.required_bytes.unwrap_or(0))
            }),
            Err(error) => Err(Error::permission_denied(error.to_string())),
        }
    }

    fn delete_volume(_: VolumeId) -> Result<(), Error> {
        Ok(())
    }

    fn validate_volume_capabilities(_: ValidateArgs) -> Result<Validation, Error> {
        Ok(Validation::Confirmed)
    }
}

fn attempt(what: &str, at: &str) -> io::Result<String> {
    match what {
        "nothing" => Ok(String::new()),
        "open" => File::open(at).map(|file| format!("{file:?}")),
        "write" => fs::write(at, at).map(|()| String::new()),
        "list" => fs::read_dir(at).map(|entries| format!("{entries:?}")),
        "connect" => TcpStream::connect(at).map(|stream| format!("{stream:?}")),
        "listen" => TcpListener::bind(at).map(|listener| format!("{listener:?}")),
        "send" => UdpSocket::bind("127.0.0.1:0")?
            .send_to(at.as_bytes(), at)
            .map(|sent| sent.to_string()),
        "resolve" => at
            .to_socket_addrs()
            .map(|addresses| format!("{addresses:?}")),
        "look-around" => {
            let (variables, arguments) = (env::vars().count(), env::args().count());
            Ok(format!("{variables} variables, {arguments} arguments"))
        }
        _ => Err(io::Error::other("no such attempt")),
    }
}
