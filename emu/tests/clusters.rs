//! Sweeps on clusters. The test runs Slurm as an ordinary user on the loopback interface, and takes a node down during
//! the sweep. The manifests for Kubernetes are checked against its schema.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};
use trapline_harness::{self as harness, Folder, Need, Test, python, python_module};

const PROGRAM: &str = env!("CARGO_BIN_EXE_trapline");
const SWEEP: [&str; 8] = ["sweep", "tiny/x86_64", "--until", "4ms", "--kind", "kprobe", "--wave", "150"];

/// A folder for a test's files.
fn open_folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    // The daemons run as another user if the tests run as root.
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Writes the job's files. Its scripts contain the path of the program that wrote them, and the folder in which it ran.
fn emit(program: &str, room: &Folder, engine: &str, shards: &str) -> String {
    let job = room.file(engine);
    let output = Command::new(program)
        .current_dir(&room.0)
        .args(SWEEP)
        .args(["--emit", engine, &job, "--shards", shards])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    job
}

/// SW-5: every manifest is valid by Kubernetes' own schema, and obeys rules that the schema does not contain.
fn manifests_are_valid() {
    let room = open_folder("kubernetes");
    let job = emit(PROGRAM, &room, "kubernetes", "5");
    let validate = python("kubernetes_validate").unwrap();
    let check = |file: &str| {
        let arguments = ["-m", "kubernetes_validate", "--strict", "-k", "1.33", file];
        Command::new(&validate).args(arguments).output().unwrap()
    };
    for file in ["sweep.yaml", "merge.yaml", "volume.yaml"] {
        let output = check(&format!("{job}/{file}"));
        assert!(output.status.success(), "{file}: {}", said(&output));
    }
    // The validator is strict: a misspelt field is refused.
    let text = fs::read_to_string(format!("{job}/sweep.yaml")).unwrap();
    fs::write(format!("{job}/wrong.yaml"), text.replace("backoffLimitPerIndex", "backoffLimitPerindex")).unwrap();
    assert!(!check(&format!("{job}/wrong.yaml")).status.success());

    // Facts in Python's JSON, so that no reader of YAML is needed here.
    let read = "import yaml, json, sys; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let output = Command::new(&validate).args(["-c", read, &format!("{job}/sweep.yaml")]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let manifest: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let spec = &manifest["spec"];
    assert_eq!((&spec["completionMode"], &spec["completions"]), (&"Indexed".into(), &5.into()));
    assert_eq!(spec["template"]["spec"]["restartPolicy"], "Never");
    assert!(spec["backoffLimitPerIndex"].is_u64());
    for rule in spec["podFailurePolicy"]["rules"].as_array().unwrap() {
        let action = rule["action"].as_str().unwrap();
        assert!(["FailJob", "FailIndex", "Ignore", "Count"].contains(&action), "{action}");
        let codes = rule["onExitCodes"]["values"].as_array();
        assert!(codes.is_none_or(|codes| !codes.contains(&0.into()) && !codes.contains(&75.into())), "{rule}");
    }
    let container = &spec["template"]["spec"]["containers"][0];
    let command: Vec<&str> = container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(command[..4], ["trapline", "sweep", "tiny/x86_64", "--until"]);
    assert_eq!(command[command.len() - 4..], ["--shard", "auto", "--out", "/out/$(JOB_COMPLETION_INDEX).part"]);
    assert_eq!(container["env"][0]["value"], "5");
}

/// Slurm's daemons. They are stopped when the value is dropped.
struct Slurm {
    daemons: Vec<Child>,
    config: String,
    /// The copy of trapline that the jobs' user may run.
    program: String,
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A command as an ordinary user: `nobody`, if the tests run as root.
fn as_user(program: &str) -> Command {
    if rustix::process::getuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]);
        command.env("HOME", "/nonexistent");
        command
    } else {
        Command::new(program)
    }
}

fn user() -> String {
    let output = as_user("id").arg("-un").output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

impl Slurm {
    /// Starts a cluster of two nodes on the loopback interface. All its files are in the folder.
    fn start(room: &Folder) -> Slurm {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap().to_string();
        let port = 20_000 + std::process::id() % 9_000;
        let (user, place) = (user(), room.file("slurm"));
        let mut config = format!(
            "ClusterName=t\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={port}\nCommunicationParameters=NoInAddrAny,NoCtldInAddrAny\n\
             SlurmUser={user}\nSlurmdUser={user}\nAuthType=auth/none\nCredType=cred/none\nAuthInfo=cred_expire=5\n\
             StateSaveLocation={place}/state\nSlurmdSpoolDir={place}/spool/%n\nSlurmctldPidFile={place}/ctld.pid\nSlurmdPidFile={place}/%n.pid\n\
             SlurmctldLogFile={place}/ctld.log\nSlurmdLogFile={place}/%n.log\nProctrackType=proctrack/pgid\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\nSchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1\nReturnToService=2\nKillWait=2\n"
        );
        for node in 0..2 {
            let node_port = port + 1 + node;
            config += &format!("NodeName=n{node} NodeAddr=127.0.0.1 NodeHostname={host} Port={node_port} CPUs=1\n");
        }
        make(&room.0.join("slurm"));
        // The daemons must own these.
        let folders = ["state", "spool/n0", "spool/n1"].map(|folder| format!("{place}/{folder}"));
        assert!(as_user("mkdir").arg("-p").args(folders).status().unwrap().success());
        config += "PartitionName=p Nodes=ALL Default=YES State=UP\n";
        let file = format!("{place}/slurm.conf");
        fs::write(&file, config).unwrap();
        let mut slurm = Slurm { daemons: Vec::new(), config: file, program: room.file("trapline") };
        let daemons: [&[&str]; 3] = [
            &["/usr/sbin/slurmctld", "-D", "-c"],
            &["/usr/sbin/slurmd", "-D", "-N", "n0"],
            &["/usr/sbin/slurmd", "-D", "-N", "n1"],
        ];
        for daemon in daemons {
            let mut command = as_user(daemon[0]);
            command.args(&daemon[1..]).env("SLURM_CONF", &slurm.config).stdout(Stdio::null()).stderr(Stdio::null());
            slurm.daemons.push(command.spawn().unwrap());
        }
        slurm.wait("both nodes are idle", 60, || slurm.ask("sinfo", &["-h", "-N", "-o", "%t"]).matches("idle").count() == 2);
        slurm
    }

    fn command(&self, program: &str) -> Command {
        let mut command = as_user(program);
        command.env("SLURM_CONF", &self.config).env("TRAPLINE", &self.program).current_dir("/");
        command
    }

    fn ask(&self, program: &str, args: &[&str]) -> String {
        said(&self.command("timeout").args(["20", program]).args(args).output().unwrap())
    }

    fn wait(&self, what: &str, seconds: u64, is_so: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_so() {
            let logs = || self.ask("squeue", &[]) + &self.ask("sinfo", &["-N", "-l"]);
            assert!(started.elapsed() < Duration::from_secs(seconds), "not within {seconds} s: {what}\n{}", logs());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Makes a folder that everyone may write to.
fn make(path: &Path) {
    fs::create_dir_all(path).unwrap();
    let mut at = Some(path);
    while let Some(folder) = at.filter(|folder| folder.starts_with(std::env::temp_dir()) && *folder != std::env::temp_dir()) {
        let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o777));
        at = folder.parent();
    }
}

/// SW-5: a Slurm array whose node is taken down during the sweep completes, and its result equals the sweep without
/// Slurm.
fn slurm_loses_a_node_and_the_sweep_is_complete() {
    let room = open_folder("slurm");
    let whole = room.file("whole");
    let output = Command::new(PROGRAM).args(SWEEP).args(["--out", &whole]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    // The build may lie in a folder that the jobs' user cannot enter.
    let program = room.file("trapline");
    fs::copy(PROGRAM, &program).unwrap();
    let job = emit(&program, &room, "slurm", "4");
    make(Path::new(&job));
    let slurm = Slurm::start(&room);
    let submitted = slurm.command(&format!("{job}/submit")).output().unwrap();
    assert!(submitted.status.success(), "{}", said(&submitted));
    slurm.wait("a task runs on n1", 60, || slurm.ask("squeue", &["-h", "-t", "R", "-w", "n1"]).contains("trapline"));
    // A job's files are given to whoever owns the node: the controller's user may do that.
    let down = slurm.ask("scontrol", &["update", "nodename=n1", "state=down", "reason=test"]);
    assert!(!down.contains("error"), "{down}");
    let status = format!("{job}/status");
    slurm.wait("the merge has ended", 300, || Path::new(&status).exists());
    let logs = || {
        let files = fs::read_dir(format!("{job}/log")).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        files.collect::<String>()
    };
    assert_eq!(fs::read_to_string(&status).unwrap(), "0\n", "{}", logs());
    assert_eq!(fs::read(format!("{job}/whole.part")).unwrap(), fs::read(&whole).unwrap());
    assert_eq!(
        fs::read_dir(format!("{job}/parts"))
            .unwrap()
            .filter(|file| { file.as_ref().unwrap().path().extension().is_some_and(|suffix| suffix == "part") })
            .count(),
        4
    );
}

fn slurm() -> Need {
    let is_there = ["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/sbatch"].iter().all(|file| Path::new(file).exists());
    Need { what: "slurm-wlm".into(), missing: (!is_there).then(|| "slurm-wlm: scripts/setup.sh clusters".into()) }
}

fn main() -> ExitCode {
    harness::run([vec![
        Test::new("slurm_loses_a_node_and_the_sweep_is_complete", slurm_loses_a_node_and_the_sweep_is_complete).needs(slurm()),
        Test::new("manifests_are_valid", manifests_are_valid).needs(python_module("kubernetes_validate")),
    ]])
}
