#!/usr/bin/env bash
# A Slurm of two nodes, n1 and n2, on this machine: munged, slurmctld and two slurmd of its own, with two pretended GPUs on
# each node. Needs root, slurm-wlm and munge; everything it makes is in its folder.
#
#   slurm_cluster.sh FOLDER up      then: export SLURM_CONF=FOLDER/slurm.conf
#   slurm_cluster.sh FOLDER down
set -euo pipefail

folder=$(realpath -m "$1")
port=${XOE_SLURM_PORT:-16817}

write_files() {
  local host
  host=$(hostname)
  cat >"$folder/slurm.conf" <<END
ClusterName=xoetest
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SwitchType=switch/none
SlurmdTimeout=30
KillWait=5
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=4 RealMemory=2000 Gres=gpu:2
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=4 RealMemory=2000 Gres=gpu:2
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
END
  local node i
  for node in n1 n2; do
    for i in 0 1; do mknod "$folder/$node-gpu$i" c 1 3; done
    echo "NodeName=$node Name=gpu File=$folder/$node-gpu[0-1]" >>"$folder/gres.conf"
  done
}

up() {
  mkdir -p "$folder"/{state,n1,n2,munge}
  chmod 755 "$folder" "$folder/munge"
  write_files
  (umask 077 && head -c 1024 /dev/urandom >"$folder/munge/key")
  munged --force --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/munge/pid" \
    --log-file="$folder/munge/log" --seed-file="$folder/munge/seed"
  export SLURM_CONF=$folder/slurm.conf
  slurmctld
  slurmd -N n1
  slurmd -N n2
  local _
  for _ in $(seq 150); do
    if [[ $(sinfo -h -t idle -o %D 2>/dev/null) == 2 ]]; then return; fi
    sleep 0.2
  done
  echo "the nodes are not ready; see $folder/slurmctld.log" >&2
  sinfo >&2 || true
  return 1
}

down() {
  local file pid _
  export SLURM_CONF=$folder/slurm.conf
  scancel --user=root 2>/dev/null || true
  for file in n1.pid n2.pid slurmctld.pid munge/pid; do
    pid=$(cat "$folder/$file" 2>/dev/null) || continue
    kill "$pid" 2>/dev/null || continue
    for _ in $(seq 50); do
      kill -0 "$pid" 2>/dev/null || continue 2
      sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
  done
  rm -rf "$folder"
}

case $2 in
  up) up ;;
  down) down ;;
  *)
    echo "slurm_cluster.sh: unknown verb $2" >&2
    exit 2
    ;;
esac
