//! The hub's binary as a process, for the tests that need one.
#![allow(dead_code, reason = "no test uses all of it")]

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use parler_testkit::SOON;

pub fn free_addr() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
}

pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parler-hub"));
    command
        .env_clear()
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command.stderr(Stdio::piped());
    command
}

/// A hub process that is killed on drop.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    pub fn start(args: &[&str], addr: SocketAddr) -> Running {
        let mut running = Running(command(args).spawn().unwrap());
        let deadline = Instant::now() + SOON;
        while TcpStream::connect(addr).is_err() {
            assert!(
                running.0.try_wait().unwrap().is_none(),
                "ended: {}",
                running.log()
            );
            assert!(Instant::now() < deadline, "not up");
            std::thread::sleep(Duration::from_millis(5));
        }
        running
    }

    pub fn log(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            let _ = stderr.read_to_string(&mut text);
        }
        text
    }

    pub fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    pub fn wait(&mut self, within: Duration) -> ExitStatus {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "still running");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
