//! A job array of Slurm. If a task is started again because its node was lost, it finds its journal and continues. If
//! it fails for lack of a resource (exit status 75), its own script tries again, because Slurm's requeueing would
//! cancel dependent jobs. The merge runs after all tasks have ended in any way, and reports missing parts itself.

use super::{Job, Output, quoted, words};

/// The files of a job.
pub fn files(job: &Job<'_>) -> Vec<Output> {
    let (folder, here) = (quoted(&job.folder.display().to_string()), quoted(&job.here.display().to_string()));
    let (last, cpus, sweep) = (job.shards.saturating_sub(1), job.jobs, words(job.words));
    let array = format!(
        r#"#!/bin/bash
#SBATCH --job-name=trapline-sweep
#SBATCH --array=0-{last}
#SBATCH --cpus-per-task={cpus}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=log/shard-%a.log
folder={folder}
cd {here} || exit 75
for try in 1 2 3; do
    "${{TRAPLINE:-trapline}}" {sweep} --jobs {cpus} --shard auto --out "$folder/parts/$SLURM_ARRAY_TASK_ID.part" && exit 0
    status=$?
    [ $status = 75 ] || exit $status
    sleep 1
done
exit 75
"#
    );
    let merge = format!(
        r#"#!/bin/bash
#SBATCH --job-name=trapline-merge
#SBATCH --output=log/merge.log
folder={folder}
"${{TRAPLINE:-trapline}}" merge "$folder/parts" --out "$folder/whole.part"
status=$?
echo $status >"$folder/status"
exit $status
"#
    );
    let submit = format!(
        r#"#!/bin/bash
# Submits the sweep, and the merge behind it. TRAPLINE names the program if it is not on the path of the nodes.
set -eu
cd {folder}
mkdir -p log parts
array=$(sbatch --parsable sweep.sbatch)
array=${{array%%;*}}
merge=$(sbatch --parsable --dependency=afterany:"$array" merge.sbatch)
echo "tasks $array, merge ${{merge%%;*}}; the table comes in {folder}/log/merge.log, its exit status in {folder}/status"
"#
    );
    vec![
        Output { name: "sweep.sbatch", text: array, is_program: false },
        Output { name: "merge.sbatch", text: merge, is_program: false },
        Output { name: "submit", text: submit, is_program: true },
    ]
}
