//! An Indexed Job of Kubernetes, with a container to build, a volume for the parts, and a Job that merges them. A status of 1
//! or 2 is never tried again; anything else counts against the limit of an index. A pod that disappears is started again,
//! perhaps while the old one still writes: both write the same bytes.

use super::{Job, Output, words};

/// The limit of retries of a shard.
const RETRIES: &str = "3";

/// The job of the shards.
const SWEEP: &str = r#"apiVersion: batch/v1
kind: Job
metadata:
  name: trapline-sweep
spec:
  completionMode: Indexed
  completions: <shards>
  parallelism: <shards>
  backoffLimitPerIndex: <retries>
  maxFailedIndexes: <shards>
  podFailurePolicy:
    rules:
      - action: FailIndex
        onExitCodes:
          containerName: shard
          operator: In
          values: [1, 2]
      - action: Ignore
        onPodConditions:
          - type: DisruptionTarget
            status: "True"
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: shard
          image: registry.example/trapline-sweep:1
          command: <command>
          env:
            - name: TRAPLINE_SHARDS
              value: "<shards>"
          resources:
            requests:
              cpu: "<jobs>"
              memory: 2Gi
          volumeMounts:
            - name: out
              mountPath: /out
      volumes:
        - name: out
          persistentVolumeClaim:
            claimName: trapline-out
"#;

/// The job of the merge.
const MERGE: &str = r#"apiVersion: batch/v1
kind: Job
metadata:
  name: trapline-merge
spec:
  backoffLimit: <retries>
  podFailurePolicy:
    rules:
      - action: FailJob
        onExitCodes:
          containerName: merge
          operator: In
          values: [1, 2]
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: merge
          image: registry.example/trapline-sweep:1
          command: <command>
          volumeMounts:
            - name: out
              mountPath: /out
      volumes:
        - name: out
          persistentVolumeClaim:
            claimName: trapline-out
"#;

/// The claim for the volume of the parts.
const VOLUME: &str = r#"apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: trapline-out
spec:
  accessModes: [ReadWriteMany]
  resources:
    requests:
      storage: 1Gi
"#;

/// The container.
const CONTAINER: &str = r#"# The container of the shards of: trapline <command>
# Build it in a folder with the program `trapline`, a folder `images` with the kernels, and the files of the command line:
#   podman build -f Containerfile -t registry.example/trapline-sweep:1 .
FROM docker.io/library/debian:bookworm-slim
COPY trapline /usr/local/bin/trapline
COPY . /work
ENV TRAPLINE_IMAGES=/work/images HOME=/tmp
WORKDIR /work
"#;

/// The program that runs both jobs.
const RUN: &str = r#"#!/bin/sh
# Runs the sweep, and the merge when all shards have ended. Its table is in the log of trapline-merge.
set -eu
cd "$(dirname "$0")"
kubectl apply -f volume.yaml -f sweep.yaml
until kubectl get job trapline-sweep -o 'jsonpath={.status.conditions[?(@.status=="True")].type}' | grep -Eq 'Complete|Failed'; do
    sleep 5
done
kubectl apply -f merge.yaml
"#;

/// A list of words in YAML's flow form, which is JSON's.
fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    // Text always has a form in JSON. An empty list would be refused by the validator.
    serde_json::to_string(&words.collect::<Vec<_>>()).unwrap_or_default()
}

/// The files of a job.
pub fn files(job: &Job<'_>) -> Vec<Output> {
    let (shards, jobs) = (job.shards.to_string(), job.jobs.to_string());
    let own = ["--jobs", &jobs, "--shard", "auto", "--out", "/out/$(JOB_COMPLETION_INDEX).part"];
    // Kubernetes replaces `$(NAME)` in the words of a command; `$$` is a dollar sign.
    let given: Vec<String> = job.words.iter().map(|word| word.replace('$', "$$")).collect();
    let command = list(["trapline"].into_iter().chain(given.iter().map(String::as_str)).chain(own));
    let merge = list(["trapline", "merge", "/out", "--out", "/out/whole"].into_iter());
    // The command comes last, because its words may look like a placeholder.
    let fill = |text: &str, command: &str| {
        let known = text.replace("<shards>", &shards).replace("<retries>", RETRIES).replace("<jobs>", &jobs);
        known.replace("<command>", command)
    };
    let output = |name, text: String, is_program| Output { name, text, is_program };
    vec![
        output("sweep.yaml", fill(SWEEP, &command), false),
        output("merge.yaml", fill(MERGE, &merge), false),
        output("volume.yaml", VOLUME.into(), false),
        output("Containerfile", fill(CONTAINER, &words(job.words)), false),
        output("run", RUN.into(), true),
    ]
}
