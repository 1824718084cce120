#!/usr/bin/env bash
# Pretended hosts on this machine: each has a network namespace with its own address, a host name, /etc/hosts and an sshd,
# and sees the same files. Needs root, iproute2, openssh-server and util-linux; touches nothing outside of its namespaces
# and its folder.
#
#   netns_hosts.sh FOLDER up NODE...         brings them up: NODE i has the address 10.NET.0.(i+1), default NET 77
#   netns_hosts.sh FOLDER exec NODE COMMAND  runs a command there; ssh to the other nodes works from it without a password
#   netns_hosts.sh FOLDER cut NODE           takes the node's link away
#   netns_hosts.sh FOLDER mute|deafen NODE   nothing that it sends, or that is sent to it, arrives
#   netns_hosts.sh FOLDER heal NODE          undoes these
#   netns_hosts.sh FOLDER rate NODE 100mbit  limits it
#   netns_hosts.sh FOLDER unlimit NODE       does not limit it any more
#   netns_hosts.sh FOLDER pids NODE          processes there, its sshd's listener not counted
#   netns_hosts.sh FOLDER down               ends every process there and removes everything
#
# /etc/hosts also knows "nowhere", an address in the network that no host has.
set -euo pipefail

folder=$(realpath -m "$1")
verb=$2
shift 2
prefix=xoe$(printf %s "$folder" | cksum | cut -d' ' -f1)
net=10.${XOE_NETNS_NET:-77}.0

nodes() { cat "$folder/nodes"; }

# Not `ip netns exec`, which mounts another /sys. The folder must be entered again: nsenter begins in /.
in_node() {
  local node=$1
  shift
  # shellcheck disable=SC2016
  exec nsenter --net="/run/netns/$prefix-$node" --mount="$folder/$node/ns-mnt" --uts="$folder/$node/ns-uts" -- \
    sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
}

write_files() {
  local node i=1
  {
    echo "127.0.0.1 localhost"
    for node in "$@"; do
      i=$((i + 1))
      echo "$net.$i $node"
    done
    echo "$net.250 nowhere"
  } >"$folder/hosts"
  ssh-keygen -q -t ed25519 -N '' -C "$prefix" -f "$folder/id"
  cat >"$folder/ssh_config" <<END
Host *
  IdentityFile $folder/id
  IdentitiesOnly yes
  UserKnownHostsFile $folder/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
END
}

mac() { printf '02:00:00:00:00:%02x' "$1"; }

# The kernel's table of neighbours is one for all namespaces, and too small for what many hosts know of each other: there
# they are told, and such entries do not count.
tell_neighbours() {
  local node i
  for node in "$@"; do
    for ((i = 2; i < $# + 2; ++i)); do
      echo "neigh replace $net.$i lladdr $(mac "$i") dev eth0 nud permanent"
    done | ip -n "$prefix-$node" -batch -
  done
}

make_node() {
  local node=$1 i=$2 own=$folder/$1
  mkdir -p "$own/ssh_config.d" "$own/run"
  ssh-keygen -q -t ed25519 -N '' -C "$node" -f "$own/host_key"
  echo "$node $(cat "$own/host_key.pub")" >>"$folder/known_hosts"
  cp "$folder/id.pub" "$own/authorized_keys"
  chmod 600 "$own/authorized_keys"
  cp "$folder/ssh_config" "$own/ssh_config.d/xoe.conf"
  ip netns add "$prefix-$node"
  ip -n "$prefix-$node" link set lo up
  ip -n "$prefix-$node" link add eth0 address "$(mac "$i")" type veth peer name "p$i" netns "$prefix-switch"
  ip -n "$prefix-switch" link set "p$i" master br0 up
  ip -n "$prefix-$node" addr add "$net.$i/24" dev eth0
  ip -n "$prefix-$node" link set eth0 up
  echo "p$i" >"$own/port"
  touch "$own/ns-mnt" "$own/ns-uts"
  # shellcheck disable=SC2016
  unshare --mount="$own/ns-mnt" --uts="$own/ns-uts" --propagation private -- bash -c '
    set -e
    hostname "$1"
    mount --bind "$2/hosts" /etc/hosts
    mount --bind "$2/$1/ssh_config.d" /etc/ssh/ssh_config.d
    mkdir -p /run/sshd
    mount -t tmpfs -o mode=755 tmpfs /run/sshd' bash "$node" "$folder"
  cat >"$own/sshd_config" <<END
ListenAddress $net.$i
HostKey $own/host_key
PidFile $own/sshd.pid
AuthorizedKeysFile $own/authorized_keys
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
MaxStartups 200
MaxSessions 200
END
  (in_node "$node" /usr/sbin/sshd -f "$own/sshd_config" -E "$own/sshd.log")
}

up() {
  [[ ! -e $folder/nodes ]] || { echo "$folder is in use" >&2; exit 1; }
  mkdir -p "$folder"
  chmod 755 "$folder"
  # Namespaces can be kept in a mount point that is not shared with others only.
  mount --bind "$folder" "$folder"
  mount --make-private "$folder"
  echo "$*" >"$folder/nodes"
  write_files "$@"
  ip netns add "$prefix-switch"
  ip -n "$prefix-switch" link set lo up
  ip -n "$prefix-switch" link add br0 type bridge
  ip -n "$prefix-switch" link set br0 up
  local node i=1 try
  for node in "$@"; do
    i=$((i + 1))
    make_node "$node" "$i"
  done
  if (($# > 16)); then tell_neighbours "$@"; fi
  for node in "$@"; do
    for try in $(seq 100); do
      if (in_node "$1" ssh -o BatchMode=yes -o LogLevel=ERROR -o ConnectTimeout=5 "$node" true) 2>/dev/null; then
        continue 2
      fi
      sleep 0.1
    done
    echo "$node: its sshd does not answer after $try tries; see $folder/$node/sshd.log" >&2
    exit 1
  done
}

# No packet fits into this queue.
drop_all() { tc -n "$1" qdisc replace dev "$2" root tbf rate 8bit burst 1b limit 1b; }

pids() {
  local listener pid
  listener=$(cat "$folder/$1/sshd.pid" 2>/dev/null || true)
  for pid in $(ip netns pids "$prefix-$1" 2>/dev/null); do
    if [[ $pid != "$listener" ]]; then echo "$pid"; fi
  done
}

down() {
  [[ -e $folder/nodes ]] || return 0
  local node pid try
  for node in $(nodes); do
    for try in $(seq 50); do
      local left
      left=$(ip netns pids "$prefix-$node" 2>/dev/null || true)
      [[ -n $left ]] || break
      for pid in $left; do kill -9 "$pid" 2>/dev/null || true; done
      sleep $((try > 1)).02
    done
    umount "$folder/$node/ns-mnt" "$folder/$node/ns-uts" 2>/dev/null || true
    ip netns del "$prefix-$node" 2>/dev/null || true
  done
  ip netns del "$prefix-switch" 2>/dev/null || true
  umount "$folder" 2>/dev/null || true
  rm -rf "$folder"
}

case $verb in
  up) up "$@" ;;
  down) down ;;
  exec) in_node "$@" ;;
  pids) pids "$1" ;;
  rate) in_node "$1" tc qdisc replace dev eth0 root tbf rate "$2" burst 256kb latency 50ms ;;
  unlimit) in_node "$1" sh -c 'tc qdisc del dev eth0 root 2>/dev/null || true' ;;
  cut) ip -n "$prefix-switch" link set "$(cat "$folder/$1/port")" down ;;
  mute) drop_all "$prefix-$1" eth0 ;;
  deafen) drop_all "$prefix-switch" "$(cat "$folder/$1/port")" ;;
  heal)
    port=$(cat "$folder/$1/port")
    tc -n "$prefix-$1" qdisc del dev eth0 root 2>/dev/null || true
    tc -n "$prefix-switch" qdisc del dev "$port" root 2>/dev/null || true
    ip -n "$prefix-switch" link set "$port" up
    ;;
  *)
    echo "netns_hosts.sh: unknown verb $verb" >&2
    exit 2
    ;;
esac
